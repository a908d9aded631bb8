"""Old checkpoints are removed, what may still be needed never."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from slurmkit.checkpoint import commit, keep, plain
from slurmkit.checkpoint.choice import choose
from slurmkit.checkpoint.keep import REMOVING, prune
from tests.unit.checkpoint.otherlike import saved, write
from tests.unit.checkpoint.torchlike import aged, write_dcp

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

LEGACY = b"\x80\x02\x8a\x0a" + bytes(100)
"""A file of which only a load can tell."""


def committed(path: Path, ago: float = 0) -> Path:
    write(path, {"weights": b"w"})
    commit(path)
    return aged(path, ago)


def many(root: Path, steps: Sequence[int], name: str = "step-{}") -> None:
    """Complete ones, each written a second after the one before it."""
    for age, step in enumerate(reversed(steps)):
        committed(root / name.format(step), age)


def there(root: Path) -> set[str]:
    return {path.name for path in root.iterdir()}


def test_the_newest_stay(tmp_path: Path) -> None:
    many(tmp_path, range(1, 11))
    removed = prune(tmp_path, "auto", 3)
    assert sorted(removed) == sorted(tmp_path / f"step-{step}" for step in range(1, 8))
    assert there(tmp_path) == {"step-8", "step-9", "step-10"}


def test_trap_115_rotation_goes_by_number(tmp_path: Path) -> None:
    many(tmp_path, [*range(9000, 10000, 100), 10000], "checkpoint-{}")
    assert prune(tmp_path, "auto", 10) == [tmp_path / "checkpoint-9000"]
    assert (tmp_path / "checkpoint-10000").exists()


@pytest.mark.parametrize("wanted", [1, 2])
def test_the_last_two_complete_ones_always_stay(tmp_path: Path, wanted: int) -> None:
    many(tmp_path, [1, 2, 3])
    assert prune(tmp_path, "auto", wanted) == [tmp_path / "step-1"]


def test_newer_torn_ones_do_not_count(tmp_path: Path) -> None:
    for step, age in ((1, 50), (2, 40)):
        aged(write_dcp(tmp_path / f"step-{step}"), age)
    for step in (3, 4, 5):
        write_dcp(tmp_path / f"step-{step}", finish=False)
    assert prune(tmp_path, "auto", 1) == []


def test_nothing_goes_while_newer_ones_are_unverified(tmp_path: Path) -> None:
    data = {f"step_{step}.pt": LEGACY for step in range(3, 9)}
    write(tmp_path, {"step_1.pt": saved(), "step_2.pt": saved(), **data})
    assert prune(tmp_path, "auto", 1) == []
    assert len(there(tmp_path)) == 8


def test_old_torn_ones_go_and_old_unverified_ones_stay(tmp_path: Path) -> None:
    whole = saved()
    files = {1: whole[:-5], 2: whole, 3: LEGACY, 4: b"", 5: whole, 6: whole}
    for step, data in files.items():
        aged(write(tmp_path, {f"step_{step}.pt": data}) / f"step_{step}.pt", 100 - step)
    assert {path.name for path in prune(tmp_path, "auto", 2)} == {"step_1.pt", "step_2.pt", "step_4.pt"}
    assert there(tmp_path) == {"step_3.pt", "step_5.pt", "step_6.pt"}


def test_data_that_lie_about_stay(tmp_path: Path) -> None:
    others = ["data_1.pt", "step_1.safetensors", "step_1_best.pt", "last.pt"]
    for name in others:
        aged(write(tmp_path, {name: saved(step=0)}) / name, 1000)
    for step in (1, 2, 10):
        aged(write(tmp_path, {f"step_{step}.pt": saved()}) / f"step_{step}.pt", 100 - step)
    assert prune(tmp_path, "auto", 1) == [tmp_path / "step_1.pt"]
    assert there(tmp_path) == {*others, "step_2.pt", "step_10.pt"}


@pytest.mark.parametrize("layout", ["auto", "plain"])
def test_what_is_not_surely_a_checkpoint_stays(tmp_path: Path, layout: str) -> None:
    aged(write(tmp_path / "run-1", {"events": b"x"}), 100)
    aged(write(tmp_path, {"log-1.txt": b"x"}) / "log-1.txt", 100)
    (tmp_path / "step-0").mkdir()
    many(tmp_path, [2, 3, 4])
    assert prune(tmp_path, layout, 2) == [tmp_path / "step-2"]
    assert there(tmp_path) == {"run-1", "log-1.txt", "step-0", "step-3", "step-4"}


def test_after_somebody_went_back_what_is_written_now_stays(tmp_path: Path) -> None:
    many(tmp_path, [100, 200, 300])
    for path in tmp_path.iterdir():
        aged(path, 1000)
    committed(tmp_path / "step-110")
    write_dcp(tmp_path / "step-120", finish=False)
    assert prune(tmp_path, "auto", 2) == [tmp_path / "step-100"]
    assert there(tmp_path) == {"step-110", "step-120", "step-200", "step-300"}


def test_links_and_what_they_point_at_stay(tmp_path: Path) -> None:
    outside = committed(tmp_path / "outside/step-0", 500)
    root = tmp_path / "root"
    many(root, range(1, 7))
    (root / "best").symlink_to("step-2")
    (root / "step-0").symlink_to("../outside/step-0")
    removed = {path.name for path in prune(root, "auto", 2)}
    assert removed == {"step-1", "step-3", "step-4"}
    assert outside.exists()
    assert (root / "step-0").is_symlink()


def test_links_inside_are_removed_and_not_followed(tmp_path: Path) -> None:
    precious = write(tmp_path / "precious", {"data": b"x"})
    root = tmp_path / "root"
    many(root, [1, 2, 3])
    (root / "step-1/link").symlink_to(precious)
    assert prune(root, "auto", 2) == [root / "step-1"]
    assert (precious / "data").exists()


def test_a_plain_file_goes_with_its_manifest(tmp_path: Path) -> None:
    for step, age in ((1, 30), (2, 20), (3, 10)):
        path = write(tmp_path, {f"weights-{step}.npz": b"x"}) / f"weights-{step}.npz"
        commit(path)
        aged(path, age)
        aged(path.with_name(plain.manifest_beside(path.name)), age)
    assert prune(tmp_path, "plain", 2) == [tmp_path / "weights-1.npz"]
    assert not any("-1.npz" in name for name in there(tmp_path))
    assert len(there(tmp_path)) == 4


def test_a_single_checkpoint_is_never_removed(tmp_path: Path) -> None:
    path = committed(tmp_path / "step-1")
    assert prune(path, "auto", 1) == []
    assert path.exists()


def test_no_folder_is_nothing_to_do(tmp_path: Path) -> None:
    assert prune(tmp_path / "absent", "auto", 1) == []


def test_a_kill_in_between_leaves_no_half_checkpoint_under_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many(tmp_path, [1, 2, 3])

    class Killed(BaseException):
        pass

    def die(path: Path) -> None:
        (path / "weights").unlink()
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", die)
        with pytest.raises(Killed):
            prune(tmp_path, "auto", 2)
    assert there(tmp_path) == {f"{REMOVING}step-1", "step-2", "step-3"}
    assert (one := choose(tmp_path).chosen)
    assert one.step == 3
    assert prune(tmp_path, "auto", 2) == []
    assert there(tmp_path) == {"step-2", "step-3"}


def test_a_kill_in_between_leaves_no_manifest_of_a_file_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, {"weights-1.npz": b"x"}) / "weights-1.npz"
    commit(path)
    path.rename(tmp_path / f"{REMOVING}weights-1.npz")
    assert prune(tmp_path, "auto", 2) == []
    assert there(tmp_path) == set()


def test_what_cannot_be_removed_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many(tmp_path, [1, 2, 3, 4])
    rename = os.rename

    def refuse(source: object, target: object) -> None:
        if str(source).endswith("step-1"):
            raise PermissionError(13, "Permission denied")
        rename(str(source), str(target))

    monkeypatch.setattr(os, "rename", refuse)
    assert prune(tmp_path, "auto", 2) == [tmp_path / "step-2"]
    assert there(tmp_path) == {"step-1", "step-3", "step-4"}


def test_verdicts_are_kept_for_the_next_time(tmp_path: Path) -> None:
    root, file = tmp_path / "root", tmp_path / "kept.json"
    many(root, [1, 2, 3])
    for path in root.iterdir():
        aged(path, 100)
    prune(root, "auto", 2, kept=file)
    assert file.exists()
    assert keep.LEAST == 2
