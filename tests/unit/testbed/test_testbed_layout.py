"""Where a testbed's files are."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from slurmkit.testbed.layout import SOCKET_PATH_LIMIT, default_root, short_base
from slurmkit.testbed.native import root_of


def test_a_short_plain_path_is_its_own_base() -> None:
    assert short_base(Path("/tmp/t"), "n16") == Path("/tmp/t")


@pytest.mark.parametrize(
    "name",
    ["x" * 60, "with space", "a,b", "a#b", "a%nb", "ünï", "quo'te", "a=b", "$(id)", "new\nline", "[1-2]"],
)
def test_a_path_that_slurm_cannot_take_gets_a_short_link(tmp_path: Path, name: str) -> None:
    root = tmp_path / name
    root.mkdir()
    base = short_base(root, "n4")
    try:
        assert base.resolve() == root.resolve()
        assert len(str(base / "spool" / "n4" / "n4_4294967294.4294967294.4294967294")) <= SOCKET_PATH_LIMIT
        assert str(base).isprintable()
        assert " " not in str(base)
    finally:
        shutil.rmtree(base.parent)


def test_testbeds_live_under_the_state_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert default_root("two") == Path("/state/slurmkit/testbeds/two")
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "/home/u")
    assert default_root() == Path("/home/u/.local/state/slurmkit/testbeds/default")


def test_a_name_with_a_slash_is_a_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert root_of("./here") == tmp_path / "here"
    assert root_of("/there") == Path("/there")
