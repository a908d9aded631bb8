"""A directory that is no testbed is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmkit.errors import UsageError
from slurmkit.testbed import native
from slurmkit.testbed.daemons import Daemon, wait_for
from slurmkit.testbed.native import down, find, up
from slurmkit.testbed.options import Options


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    (tmp_path / "thesis.tex").write_text("years of work")
    return tmp_path


def test_up_refuses_a_directory_that_holds_something_else(
    precious: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "find_programs", lambda **_: {})
    with pytest.raises(UsageError, match="not a testbed"):
        up(Options(), precious)
    assert (precious / "thesis.tex").exists()


def test_down_refuses_a_directory_that_holds_something_else(precious: Path) -> None:
    with pytest.raises(UsageError, match="not a testbed"):
        down(precious)
    assert (precious / "thesis.tex").exists()


def test_down_of_nothing_is_no_error(tmp_path: Path) -> None:
    assert not down(tmp_path / "never" / "ever")
    assert not (tmp_path / "never").exists()


def test_an_unknown_name_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with pytest.raises(UsageError, match="there is no testbed 'nowhere'"):
        find("nowhere")


@pytest.mark.parametrize(
    "record", [b"", b"{", b"[]", b'{"pid": 1}', b'{"pid": 1, "started": 1, "boot": "x"}']
)
def test_a_record_that_says_nothing_true_is_no_process(tmp_path: Path, record: bytes) -> None:
    (tmp_path / "record").write_bytes(record)
    assert daemon(tmp_path, "true").process() is None


def test_a_condition_that_never_holds_is_waited_for_no_longer_than_said() -> None:
    assert not wait_for(lambda: False, 0.05, 0.01)
    assert wait_for(lambda: True, 0)


def daemon(directory: Path, *argv: str) -> Daemon:
    return Daemon(
        name="demo",
        argv=argv,
        environment={"PATH": "/usr/bin:/bin"},
        address=directory / "socket",
        log=directory / "log",
        output=directory / "output",
        record=directory / "record",
    )
