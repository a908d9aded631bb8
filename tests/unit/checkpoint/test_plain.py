"""Plain files and directories: commit() and what it is worth."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from slurmkit.checkpoint import commit
from slurmkit.checkpoint.plain import LAYOUT, MANIFEST
from slurmkit.errors import UsageError
from tests.unit.checkpoint.otherlike import check_rests_on, write, write_later
from tests.unit.checkpoint.torchlike import aged

if TYPE_CHECKING:
    from slurmkit.checkpoint.layout import Verdict

HOSTILE = "a 'b' \"c\" $HOME `id`\nline é -x"


def verdict(path: Path, *, deep: bool = False) -> Verdict:
    return LAYOUT.verify(path, deep)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = write(tmp_path / "step-7", {"model": b"abc" * 999, "deep/er/state": b"", f"deep/{HOSTILE}": b"x"})
    commit(path, step=7, world_size=8)
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "weights 7.bin"
    path.write_bytes(b"abc" * 999)
    commit(path)
    return path


def test_a_committed_directory_is_complete_with_what_it_was_told(directory: Path) -> None:
    found = verdict(directory)
    assert (found.state, found.step, found.world_size) == ("complete", 7, 8)
    assert found.reason == "holds 3 files as committed, by size"
    assert found.saved == (directory / MANIFEST).stat().st_mtime
    check_rests_on(directory, LAYOUT)
    assert verdict(directory, deep=True).state == "complete"


def test_a_committed_file_has_its_manifest_beside_it(file: Path) -> None:
    assert verdict(file) == verdict(file, deep=True)._replace(reason="holds 1 file as committed, by size")
    assert verdict(file).rests_on == (f"../{file.name}.{MANIFEST}", "")
    assert [one.name for one in file.parent.iterdir() if one != file] == [f"{file.name}.{MANIFEST}"]


def test_without_commit_nothing_is_complete(tmp_path: Path) -> None:
    path = write(tmp_path / "step-7", {"model": b"abc"})
    for one in (path, path / "model"):
        assert (verdict(one).state, verdict(one).reason) == (
            "incomplete",
            "no manifest: commit() was not called",
        )


def test_a_size_that_changed_is_named(directory: Path) -> None:
    (directory / "model").write_bytes(b"abc")
    found = verdict(directory)
    assert (found.state, found.reason) == ("damaged", "model has 3 bytes of 2,997")


def test_a_file_that_is_gone_is_named(directory: Path) -> None:
    (directory / "deep/er/state").unlink()
    assert verdict(directory)[:2] == ("incomplete", "deep/er/state is not there")


def test_a_second_save_that_was_not_committed_is_damage_of_the_first(directory: Path, file: Path) -> None:
    write_later(directory / "model", b"xyz" * 999)
    reason = f"a second save into it was not finished: model is newer than {MANIFEST}"
    assert verdict(directory)[:2] == ("damaged", reason)
    write_later(file, b"xyz" * 999)
    assert verdict(file).state == "damaged"


def test_a_change_within_the_second_of_the_commit_is_seen(directory: Path) -> None:
    (directory / "model").write_bytes(b"xyz" * 999)
    assert verdict(directory).state == "damaged"


def test_a_second_commit_replaces_the_first(directory: Path) -> None:
    write(directory, {"model": b"other", "more": b"1"})
    commit(directory, step=8)
    found = verdict(directory, deep=True)
    assert (found.state, found.step, found.world_size) == ("complete", 8, None)
    assert "4 files" in found.reason


def test_a_copy_that_kept_no_times_is_as_good(directory: Path) -> None:
    for one in [*directory.rglob("*"), directory]:
        at = one.stat().st_mtime + (5 if one.name == "model" else 3)
        os.utime(one, (at, at))
    assert verdict(directory).state == "complete"


def test_a_hole_that_left_size_and_time_alone_takes_a_deep_look(directory: Path) -> None:
    model = directory / "model"
    times = model.stat()
    model.write_bytes(b"abc" * 500 + bytes(1497))
    os.utime(model, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert verdict(directory).state == "complete"
    assert verdict(directory, deep=True)[:2] == (
        "damaged",
        "model does not have the content that was committed",
    )


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"format": 1}',
        b'{"format": "1", "step": 1, "world_size": 1, "files": {}}',
        b'{"format": 1, "step": 1, "world_size": 1, "files": {"a": {}}}',
        b'{"format": 1, "step": 1, "world_size": 1, "files": {"a": 3}}',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_a_damaged_manifest_is_damage(directory: Path, content: bytes) -> None:
    (directory / MANIFEST).write_bytes(content)
    assert verdict(directory)[:2] == ("damaged", f"{MANIFEST} is no manifest of commit()")


def test_a_manifest_of_a_newer_slurmkit_is_said_to_be_one(directory: Path) -> None:
    content = json.loads((directory / MANIFEST).read_bytes())
    (directory / MANIFEST).write_text(json.dumps(content | {"format": 99}))
    assert verdict(directory).reason == f"{MANIFEST} was written by a newer slurmkit"


@pytest.mark.parametrize("name", ["/etc/passwd", "../outside", "a/../../outside", "a\0b"])
def test_a_manifest_cannot_name_what_is_outside(directory: Path, name: str) -> None:
    content = json.loads((directory / MANIFEST).read_bytes())
    content["files"][name] = {"size": 1, "mtime_ns": 1, "sha256": ""}
    (directory / MANIFEST).write_text(json.dumps(content))
    assert verdict(directory)[:2] == ("damaged", f"{MANIFEST} names a file outside of the checkpoint")


def test_names_that_are_not_utf8_are_committed_too(tmp_path: Path) -> None:
    path = tmp_path / "c"
    path.mkdir()
    Path(os.fsdecode(os.fsencode(path) + b"/caf\xe9")).write_text("x")
    commit(path)
    assert verdict(path, deep=True).state == "complete"


def test_a_file_that_changes_meanwhile_is_not_committed(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (directory / MANIFEST).read_bytes()
    digest = hashlib.file_digest

    def slow(opened: Any, name: str) -> Any:
        with Path(opened.name).open("ab") as other:
            other.write(b"more")
        return digest(opened, name)

    monkeypatch.setattr(hashlib, "file_digest", slow)
    with pytest.raises(UsageError, match="changes while it is committed"):
        commit(directory)
    assert (directory / MANIFEST).read_bytes() == before


def test_what_has_no_content_is_not_committed(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        commit(tmp_path / "absent")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no file in it"):
        commit(tmp_path / "empty")
    os.mkfifo(tmp_path / "empty/pipe")
    with pytest.raises(UsageError, match="pipe is no file"):
        commit(tmp_path / "empty")


def test_all_is_durable_before_the_manifest_is_there(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (directory / MANIFEST).unlink()
    synced: list[str] = []
    fsync = os.fsync

    def record(descriptor: int) -> None:
        assert not (directory / MANIFEST).exists() or synced[-1].endswith(".tmp")
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    commit(directory)
    files = {str(directory / name) for name in ("model", "deep/er/state", f"deep/{HOSTILE}")}
    folders = {str(directory), str(directory / "deep"), str(directory / "deep/er"), str(directory.parent)}
    assert files | folders <= set(synced)
    assert synced[-2].endswith(".tmp")
    assert synced[-1] == str(directory)


def test_what_a_writer_left_of_an_older_manifest_is_no_piece(directory: Path) -> None:
    (directory / f".{MANIFEST}.123.tmp").write_text("half")
    commit(directory)
    (directory / f".{MANIFEST}.123.tmp").unlink()
    assert verdict(directory).state == "complete"


@pytest.mark.parametrize(
    ("name", "is_named", "step"),
    [
        ("step_9", True, 9),
        ("iter-1080000", True, 1080000),
        ("best", True, None),
        (".hidden", False, None),
        ("model.tmp", False, None),
        (MANIFEST, False, None),
        (f"step_9.{MANIFEST}", False, None),
    ],
)
def test_names(name: str, is_named: bool, step: int | None) -> None:
    assert LAYOUT.is_named(name) == is_named
    if is_named:
        assert LAYOUT.step_of(name) == step


def test_age_alone_is_no_fault(directory: Path) -> None:
    assert verdict(aged(directory, 86400)).state == "complete"


def test_a_training_program_loads_nothing_for_it_but_the_standard_library(tmp_path: Path) -> None:
    (tmp_path / "w").write_text("x")
    program = (
        "import sys; before = set(sys.modules)\n"
        f"from slurmkit.checkpoint import commit; commit({str(tmp_path / 'w')!r})\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(*sorted(new - sys.stdlib_module_names - {'slurmkit'}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"
