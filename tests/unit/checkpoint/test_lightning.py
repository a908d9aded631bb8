"""Lightning's checkpoints: files, and directories of sharded strategies."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from slurmkit.checkpoint import lightning
from tests.unit.checkpoint import torchlike

if TYPE_CHECKING:
    from pathlib import Path


def state(**more: Any) -> dict[str, Any]:
    return {
        "epoch": 2,
        "global_step": 300,
        "pytorch-lightning_version": "2.6.6",
        "state_dict": {"w": torchlike.Tensor(torchlike.floats(3000))},
        "loops": {},
        "optimizer_states": [{"m": torchlike.Tensor(torchlike.floats(3000, 1))}],
        **more,
    }


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    folder = torchlike.write_dcp(tmp_path / "epoch=2-step=300.ckpt", ranks=2)
    (folder / "meta.pt").write_bytes(torchlike.saved(state()))
    return folder


def judge(path: Path, *, deep: bool = False) -> tuple[str, str]:
    return lightning.verify(path, deep)[:2]


@pytest.mark.parametrize("name", ["epoch=2-step=300.ckpt", "last.ckpt", "hpc_ckpt_4.ckpt", "mine.ckpt"])
def test_a_whole_file_is_complete_and_tells_its_step(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(torchlike.saved(state()))
    verdict = lightning.verify(path, True)
    assert (verdict.state, verdict.step, verdict.rests_on) == ("complete", 300, ("",))
    assert lightning.LAYOUT.is_one(path)
    assert lightning.LAYOUT.is_named(name)


def test_trap_112_a_file_cut_anywhere_is_incomplete(tmp_path: Path) -> None:
    path, data = tmp_path / "last.ckpt", torchlike.saved(state())
    for size in torchlike.cuts(len(data)):
        path.write_bytes(data[:size])
        assert judge(path)[0] == "incomplete", size


def test_a_file_of_weights_alone_is_incomplete(tmp_path: Path) -> None:
    saved = state()
    del saved["optimizer_states"]
    path = tmp_path / "weights.ckpt"
    path.write_bytes(torchlike.saved(saved))
    assert judge(path) == ("incomplete", "weights.ckpt holds weights only: no training can go on from it")


def test_a_file_of_another_program_is_foreign(tmp_path: Path) -> None:
    path = tmp_path / "last.ckpt"
    path.write_bytes(torchlike.saved({"global_step": 3}))
    assert judge(path) == ("foreign", "last.ckpt was not saved by Lightning")
    assert not lightning.LAYOUT.is_one(path)


def test_an_empty_file_is_lightning_s_by_its_name(tmp_path: Path) -> None:
    for name, one in {
        "epoch=1-step=9.ckpt": True,
        "last-v1.ckpt": True,
        "hpc_ckpt_2.ckpt": True,
        "a.ckpt": False,
    }.items():
        (tmp_path / name).touch()
        assert lightning.LAYOUT.is_one(tmp_path / name) is one, name
        assert judge(tmp_path / name) == ("incomplete", f"{name} is empty")


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("epoch=3-step=100.ckpt", 100),
        ("epoch=03-step=00100-v12.ckpt", 100),
        ("step=7.ckpt", 7),
        ("epoch=3-step=100-val_loss=0.31.ckpt", 100),
        ("epoch=3.ckpt", None),
        ("hpc_ckpt_3.ckpt", None),
        ("last.ckpt", None),
        ("last-v2.ckpt", None),
        ("substep=7.ckpt", None),
    ],
)
def test_only_a_step_in_the_name_is_taken_for_one(name: str, step: int | None) -> None:
    assert lightning.LAYOUT.step_of(name) == step


@pytest.mark.parametrize("deep", [False, True])
def test_a_sharded_directory_is_complete_with_its_meta_file(sharded: Path, deep: bool) -> None:
    verdict = lightning.verify(sharded, deep)
    assert (verdict.state, verdict.step) == ("complete", 300)
    assert {".metadata", "__0_0.distcp", "__1_0.distcp", "meta.pt"} == set(verdict.rests_on)
    assert lightning.LAYOUT.is_one(sharded)


@pytest.mark.parametrize("gone", ["meta.pt", ".metadata", "__1_0.distcp"])
def test_a_sharded_directory_that_lacks_a_file_is_incomplete(sharded: Path, gone: str) -> None:
    (sharded / gone).unlink()
    state, reason = judge(sharded)
    assert (state, reason.split()[0]) == ("incomplete", gone)
    assert lightning.LAYOUT.is_one(sharded), "its name and its pieces are Lightning's still"


def test_trap_112_a_meta_file_cut_anywhere_is_incomplete(sharded: Path) -> None:
    whole = (sharded / "meta.pt").read_bytes()
    for size in torchlike.cuts(len(whole)):
        (sharded / "meta.pt").write_bytes(whole[:size])
        assert judge(sharded)[0] == "incomplete", size


def test_a_second_save_killed_before_its_meta_file_is_damaged(sharded: Path) -> None:
    at = (sharded / "meta.pt").stat().st_mtime - 100
    os.utime(sharded / "meta.pt", (at, at))
    assert judge(sharded) == (
        "damaged", "a second save into it was not finished: .metadata is newer than meta.pt"
    )  # fmt: skip


def test_last_that_is_a_link_is_read_through_it(tmp_path: Path, sharded: Path) -> None:
    (tmp_path / "last.ckpt").symlink_to(sharded.name)
    assert judge(tmp_path / "last.ckpt")[0] == "complete"
    (tmp_path / "gone.ckpt").symlink_to("nothing")
    assert judge(tmp_path / "gone.ckpt") == ("incomplete", "gone.ckpt is not there")


def test_other_directories_are_not_lightning_s(tmp_path: Path) -> None:
    folder = tmp_path / "step-3"
    torchlike.write_dcp(folder)
    assert not lightning.LAYOUT.is_one(folder)
    (tmp_path / "deepspeed.ckpt" / "checkpoint").mkdir(parents=True)
    assert not lightning.LAYOUT.is_one(tmp_path / "deepspeed.ckpt")
    (tmp_path / "begun.ckpt").mkdir()
    assert lightning.LAYOUT.is_one(tmp_path / "begun.ckpt")
    assert judge(tmp_path / "begun.ckpt")[0] != "complete"
