"""Verdicts are kept, and trusted only while what they rest on stands."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from slurmkit.checkpoint import commit, plain, verdicts
from slurmkit.checkpoint.choice import choose, survey
from slurmkit.checkpoint.layout import Layout, Verdict
from slurmkit.checkpoint.verdicts import Verdicts
from tests.unit.checkpoint.otherlike import write
from tests.unit.checkpoint.torchlike import aged, write_dcp

if TYPE_CHECKING:
    from pathlib import Path


class Watched:
    """The layout `plain`, counting its verifications."""

    def __init__(self, verdict: Verdict | None = None) -> None:
        self.count = 0
        self.deep: list[bool] = []
        fields: dict[str, Any] = {name: getattr(plain.LAYOUT, name) for name in Layout.__slots__}
        self.layout = Layout(**fields | {"verify": self._verify})
        self._verdict = verdict

    def _verify(self, path: Path, deep: bool) -> Verdict:
        self.count += 1
        self.deep.append(deep)
        return self._verdict or plain.verify(path, deep)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = aged(write(tmp_path / "step-1", {"weights": b"w" * 100, "deep/state": b"s"}), 100)
    commit(path)
    aged(path / plain.MANIFEST, 50)
    os.utime(path, (1, 1))
    return path


def ask(file: Path, watched: Watched, path: Path, *, deep: bool = False) -> Verdict:
    kept = Verdicts(file, deep=deep)
    verdict, _size = kept.of(path, watched.layout)
    kept.save()
    return verdict


def test_a_verdict_is_found_once(tmp_path: Path, path: Path) -> None:
    watched, file = Watched(), tmp_path / "kept.json"
    first = ask(file, watched, path)
    assert [ask(file, watched, path) for _ in range(3)] == [first] * 3
    assert watched.count == 1
    assert first.rests_on == ("slurmkit-manifest.json", "deep/state", "weights")


def later(file: Path) -> None:
    written = file.stat().st_mtime + 5
    os.utime(file, (written, written))


@pytest.mark.parametrize(
    "change",
    [
        lambda path: later(path / "weights"),
        lambda path: later(path / "deep/state"),
        lambda path: later(path / plain.MANIFEST),
        lambda path: (path / "weights").write_bytes(b"w" * 100),
        lambda path: (path / "weights").unlink(),
        lambda path: os.truncate(path / "weights", 5),
        lambda path: (path / "another").touch(),
        lambda path: (path / "weights").rename(path / "weights.old"),
    ],
)
def test_any_change_ends_the_trust(tmp_path: Path, path: Path, change: Any) -> None:
    watched, file = Watched(), tmp_path / "kept.json"
    ask(file, watched, path)
    change(path)
    ask(file, watched, path)
    assert watched.count == 2


def test_a_file_s_own_verdict_is_kept_too(tmp_path: Path) -> None:
    path, watched, file = tmp_path / "weights.bin", Watched(), tmp_path / "kept.json"
    path.write_bytes(b"w")
    commit(path)
    aged(path, 100)
    beside = aged(path.with_name(f"weights.bin.{plain.MANIFEST}"), 100)
    ask(file, watched, path)
    ask(file, watched, path)
    assert watched.count == 1
    beside.unlink()
    assert ask(file, watched, path).state == "incomplete"


def test_what_was_written_just_now_is_not_kept(tmp_path: Path, path: Path) -> None:
    watched, file = Watched(), tmp_path / "kept.json"
    (path / "weights").touch()
    ask(file, watched, path)
    ask(file, watched, path)
    assert watched.count == 2


@pytest.mark.parametrize("state", ["incomplete", "unverified", "foreign", "damaged"])
def test_only_what_is_complete_is_kept(tmp_path: Path, path: Path, state: str) -> None:
    watched, file = Watched(Verdict(state, "why", rests_on=("weights",))), tmp_path / "kept.json"
    ask(file, watched, path)
    ask(file, watched, path)
    assert watched.count == 2


def test_what_rests_on_nothing_is_not_kept(tmp_path: Path, path: Path) -> None:
    watched, file = Watched(Verdict("complete", "why")), tmp_path / "kept.json"
    ask(file, watched, path)
    ask(file, watched, path)
    assert watched.count == 2


def test_a_quick_look_does_not_do_for_a_deep_one_but_the_other_way_round(tmp_path: Path, path: Path) -> None:
    watched, file = Watched(), tmp_path / "kept.json"
    for deep in (False, True, False, True):
        ask(file, watched, path, deep=deep)
    assert watched.deep == [False, True]


def test_damage_that_only_a_deep_look_found_is_not_forgotten(tmp_path: Path, path: Path) -> None:
    times = (path / "weights").stat()
    (path / "weights").write_bytes(b"w" * 50 + bytes(50))
    os.utime(path / "weights", ns=(times.st_atime_ns, times.st_mtime_ns))
    file = tmp_path / "kept.json"
    assert choose(path.parent, kept=file).chosen
    assert choose(path.parent, kept=file, deep=True).chosen is None
    assert choose(path.parent, kept=file).chosen is None
    commit(path)
    assert choose(path.parent, kept=file).chosen


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b'{"rules": 0, "verdicts": {}}',
        b'{"rules": RULES, "verdicts": []}',
        b'{"rules": RULES, "verdicts": {"KEY": 3}}',
        b'{"rules": RULES, "verdicts": {"KEY": {"verdict": {"state": 1}, "stamps": {}, "deep": true}}}',
        b'{"rules": RULES, "verdicts": {"KEY": {"verdict": [], "stamps": [1], "deep": true}}}',
    ],
)
def test_a_damaged_file_keeps_nothing(tmp_path: Path, path: Path, content: bytes) -> None:
    file, watched = tmp_path / "kept.json", Watched()
    for old, new in ((b"RULES", str(verdicts.RULES)), (b"KEY", f"plain:{path}")):
        content = content.replace(old, new.encode())
    file.write_bytes(content)
    assert ask(file, watched, path).state == "complete"
    assert ask(file, watched, path).state == "complete"
    assert watched.count == 1


def test_verdicts_by_other_rules_are_found_anew(
    tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, watched = tmp_path / "kept.json", Watched()
    ask(file, watched, path)
    monkeypatch.setattr(verdicts, "RULES", 99)
    ask(file, watched, path)
    assert watched.count == 2


def test_where_nothing_can_be_kept_the_choice_is_made_all_the_same(tmp_path: Path, path: Path) -> None:
    assert choose(path.parent, kept=tmp_path / "no such folder/kept.json").chosen


def test_nothing_is_written_where_nothing_is_new(tmp_path: Path, path: Path) -> None:
    file, watched = tmp_path / "kept.json", Watched()
    ask(file, watched, path)
    before = file.stat().st_ino
    ask(file, watched, path)
    assert file.stat().st_ino == before


def test_of_many_those_that_were_asked_for_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdicts, "MOST", 3)
    root, file = tmp_path / "root", tmp_path / "kept.json"
    for step in range(6):
        aged(write_dcp(root / f"step-{step}"), 100)
    survey(root, kept=file)
    kept = json.loads(file.read_bytes())["verdicts"]
    assert [key.rpartition("-")[2] for key in kept] == ["2", "1", "0"]


def test_without_a_file_nothing_is_kept(path: Path) -> None:
    kept, watched = Verdicts(None), Watched()
    kept.of(path, watched.layout)
    kept.of(path, watched.layout)
    kept.save()
    assert watched.count == 2


def test_a_system_that_says_no_is_a_verdict(
    tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Verdict:
        raise OSError(5, "Input/output error", str(path / "weights"))

    watched = Watched()
    monkeypatch.setattr(watched, "_verify", fail)
    fields: dict[str, Any] = {name: getattr(plain.LAYOUT, name) for name in Layout.__slots__}
    verdict, size = Verdicts(None).of(path, Layout(**fields | {"verify": fail}))
    assert (verdict.state, verdict.reason, size) == (
        "incomplete",
        "weights cannot be read: Input/output error",
        None,
    )
