"""What is taken for a checkpoint in a folder, and what is not."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from slurmkit.checkpoint import commit
from slurmkit.checkpoint.choice import choose, survey
from slurmkit.checkpoint.discovery import discover
from slurmkit.checkpoint.layouts import LAYOUTS, select
from tests.unit.checkpoint.otherlike import saved, sharded_weights, write
from tests.unit.checkpoint.torchlike import write_dcp

if TYPE_CHECKING:
    from pathlib import Path


def committed(path: Path) -> Path:
    write(path, {"weights": b"w"})
    commit(path)
    return path


def found(root: Path, layout: str = "auto") -> dict[str, str]:
    """What is there by name, with its state."""
    return {one.path.name: one.verdict.state for one in survey(root, layout)}


def test_hidden_and_temporary_names_are_no_candidates(tmp_path: Path) -> None:
    for name in (".step-3", "step-3.tmp", "tmp-checkpoint-3", "3.orbax-checkpoint-tmp-1", "step-3.part"):
        write_dcp(tmp_path / name)
    write(tmp_path, {".step-4.pt": saved(), "step-4.pt.tmp": saved(), "gpt-unfinished": b""})
    assert found(tmp_path) == {}
    assert found(tmp_path, "torch-dcp") == {}


def test_tracker_files_are_no_candidates(tmp_path: Path) -> None:
    write(tmp_path, {name: b"step-1" for layout in LAYOUTS for name in layout.trackers})
    assert found(tmp_path) == {}


def test_what_lies_about_is_no_checkpoint(tmp_path: Path) -> None:
    write(
        tmp_path, {"train.log": b"x", "config.json": b"{}", "events/out.1": b"x", "code.zip": b"PK\x03\x04"}
    )
    committed(tmp_path / "step-1")
    assert found(tmp_path) == {"step-1": "complete"}


def test_a_directory_that_is_called_like_one_and_holds_nothing_is_incomplete(tmp_path: Path) -> None:
    (tmp_path / "step_300").mkdir()
    assert found(tmp_path) == {"step_300": "incomplete"}


def test_plain_files_count_by_their_manifest_or_where_plain_is_asked_for(tmp_path: Path) -> None:
    write(tmp_path, {"weights-1.npz": b"1", "weights-2.npz": b"2"})
    commit(tmp_path / "weights-1.npz")
    assert found(tmp_path) == {"weights-1.npz": "complete"}
    assert found(tmp_path, "plain") == {"weights-2.npz": "incomplete", "weights-1.npz": "complete"}


def test_a_link_to_a_checkpoint_in_the_folder_is_not_counted_twice(tmp_path: Path) -> None:
    committed(tmp_path / "step-1")
    committed(tmp_path / "step-2")
    (tmp_path / "last").symlink_to("step-2")
    (tmp_path / "step-3").symlink_to(tmp_path / "last")
    assert found(tmp_path) == {"step-2": "complete", "step-1": "complete"}


def test_links_to_elsewhere_count_once_under_their_own_name(tmp_path: Path) -> None:
    committed(tmp_path / "elsewhere/old")
    root = tmp_path / "root"
    root.mkdir()
    (root / "step-1").symlink_to("../elsewhere/old")
    (root / "step-1-again").symlink_to("../elsewhere/old")
    assert len(found(root)) == 1
    assert (one := choose(root).chosen)
    assert (one.path.parent, one.step) == (root, 1)


def test_the_folder_may_be_reached_by_a_link(tmp_path: Path) -> None:
    committed(tmp_path / "real/step-1")
    (tmp_path / "real/last").symlink_to("step-1")
    (tmp_path / "link").symlink_to("real")
    assert found(tmp_path / "link") == {"step-1": "complete"}


@pytest.mark.parametrize(
    ("target", "state", "reason"),
    [("step-9", "damaged", "leads back to itself"), ("gone", "incomplete", "is not there")],
)
def test_a_link_that_leads_nowhere_is_refused_with_its_reason(
    tmp_path: Path, target: str, state: str, reason: str
) -> None:
    committed(tmp_path / "step-1")
    (tmp_path / "step-9").symlink_to(target)
    choice = choose(tmp_path)
    assert (choice.chosen and choice.chosen.step) == 1
    assert [(one.step, one.verdict.state) for one in choice.refused] == [(9, state)]
    assert reason in choice.refused[0].verdict.reason


@pytest.mark.parametrize("target", ["root", "gone"])
def test_a_folder_that_is_a_link_to_nowhere_is_refused_with_its_reason(tmp_path: Path, target: str) -> None:
    (tmp_path / "root").symlink_to(target)
    choice = choose(tmp_path / "root")
    assert choice.chosen is None
    assert [one.path.name for one in choice.refused] == ["root"]


@pytest.mark.parametrize("closed", ["step-9", ""])
def test_a_missing_permission_is_a_reason_and_no_crash(
    tmp_path: Path, closed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed(tmp_path / "step-1")
    committed(tmp_path / "step-9")
    scandir, stat = os.scandir, os.stat

    def refuse(path: object = ".", *, exactly: bool = False) -> None:
        text, shut = os.fspath(path), str(tmp_path / closed)  # type: ignore[call-overload]
        if text == shut or (not exactly and text.startswith(f"{shut}/")):
            raise PermissionError(13, "Permission denied", text)

    def closed_scandir(path: str = ".") -> object:
        refuse(path)
        return scandir(path)

    def closed_stat(path: str, *args: object, **kwargs: object) -> object:
        if path != str(tmp_path / closed):
            refuse(path)
        return stat(path, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "scandir", closed_scandir)
    monkeypatch.setattr(os, "stat", closed_stat)
    choice = choose(tmp_path)
    assert (choice.chosen and choice.chosen.step) == (1 if closed else None)
    assert len(choice.refused) == 1
    assert "Permission denied" in choice.refused[0].verdict.reason


def test_the_folder_may_be_one_checkpoint(tmp_path: Path) -> None:
    assert found(write_dcp(tmp_path / "best")) == {"best": "complete"}
    assert found(write_dcp(tmp_path / "torn", finish=False)) == {"torn": "incomplete"}


def test_the_folder_may_be_one_file(tmp_path: Path) -> None:
    write(tmp_path, {"model.pt": saved(step=3), "torn.pt": saved()[:-1]})
    assert found(tmp_path / "model.pt") == {"model.pt": "complete"}
    assert found(tmp_path / "torn.pt") == {"torn.pt": "incomplete"}
    assert found(write(tmp_path, {"notes": b"x"}) / "notes") == {"notes": "incomplete"}


def test_a_final_model_beside_checkpoints_does_not_hide_them(tmp_path: Path) -> None:
    write(tmp_path, {**sharded_weights(), "trainer_state.json": b'{"global_step": 30}'})
    write_dcp(tmp_path / "step-10")
    assert found(tmp_path) == {"step-10": "complete"}


def test_single_safetensors_files_are_checkpoints_each_and_not_one_together(tmp_path: Path) -> None:
    data = sharded_weights()["model-00001-of-00002.safetensors"]
    write(tmp_path, {"step_10.safetensors": data, "step_20.safetensors": data[:-1]})
    assert found(tmp_path) == {"step_20.safetensors": "incomplete", "step_10.safetensors": "complete"}


def test_files_in_a_checkpoint_are_none_by_themselves(tmp_path: Path) -> None:
    files = {"optimizer.pt": saved(), "scheduler.pt": saved(), "rng_state.pth": saved(), **sharded_weights()}
    path = write(tmp_path / "checkpoint-5", {**files, "trainer_state.json": b'{"global_step": 5}'})
    assert found(path) == {"checkpoint-5": "complete"}


def test_where_the_name_says_nothing_the_step_is_left_to_the_content(tmp_path: Path) -> None:
    write(tmp_path, {"last.ckpt": b"", "epoch=3.ckpt": b"", "epoch=3-step=70.ckpt": b"", "step_8.pt": b""})
    steps = {one.path.name: one.step for one in discover(tmp_path, select("auto"))}
    assert steps == {"last.ckpt": None, "epoch=3.ckpt": None, "epoch=3-step=70.ckpt": 70, "step_8.pt": 8}


def test_what_is_removed_while_it_is_looked_at_was_never_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed(tmp_path / "step-1")
    gone = committed(tmp_path / "step-2")
    before = discover(tmp_path, select("auto"))
    (gone / "weights").unlink()
    (gone / "slurmkit-manifest.json").unlink()
    gone.rmdir()
    monkeypatch.setattr("slurmkit.checkpoint.discovery.discover", lambda *_: before)
    choice = choose(tmp_path)
    assert (choice.chosen and choice.chosen.step, choice.refused) == (1, ())


def test_names_are_taken_as_they_are(tmp_path: Path) -> None:
    root = tmp_path / "a $HOME `id` 'b'\n é"
    committed(root / "-rf step=4")
    assert (one := choose(root).chosen)
    assert (one.path, one.step) == (root / "-rf step=4", 4)
