"""Checkpoints of one file of torch.save."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from slurmkit.checkpoint import torch_save, zips
from tests.unit.checkpoint import torchlike

if TYPE_CHECKING:
    from pathlib import Path

LEGACY = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."


@pytest.mark.parametrize(
    ("saved", "step"),
    [
        ({"global_step": 40, "step": 3}, 40),
        ({"step": 3, "epoch": 9}, 3),
        ({"iteration": 12}, 12),
        ({"global_steps": 12}, 12),
        ({"step": 0}, 0),
        ({"step": -1}, None),
        ({"step": True}, None),
        ({"step": "3"}, None),
        ({"epoch": 9}, None),
        ([1, 2], None),
        (torchlike.Tensor(b""), None),
    ],
)
def test_the_saved_dict_tells_the_step(tmp_path: Path, saved: object, step: int | None) -> None:
    path = tmp_path / "model.pt"
    path.write_bytes(torchlike.saved(saved))
    verdict = torch_save.verify(path, False)
    assert (verdict.state, verdict.step) == ("complete", step)


def test_trap_112_files_that_were_cut_are_refused_with_their_names(tmp_path: Path) -> None:
    whole = torchlike.saved({"w": torchlike.Tensor(torchlike.floats(500)), "step": 10})
    (tmp_path / "step_10.pt").write_bytes(whole)
    (tmp_path / "step_20.pt").touch()
    (tmp_path / "step_30.pt").write_bytes(whole[: len(whole) // 2])
    told = {path.name: torch_save.verify(path, False) for path in sorted(tmp_path.iterdir())}
    assert {name: verdict.state for name, verdict in told.items()} == {
        "step_10.pt": "complete",
        "step_20.pt": "incomplete",
        "step_30.pt": "incomplete",
    }
    assert all(name in verdict.reason for name, verdict in told.items())


def test_the_old_format_is_unverified_and_the_reason_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    path.write_bytes(LEGACY)
    verdict = torch_save.verify(path, True)
    assert verdict.state == "unverified"
    assert "_use_new_zipfile_serialization=False" in verdict.reason


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("step_10.pt", True),
        ("a.pth", True),
        ("pytorch_model.bin", True),
        ("last.ckpt", True),
        ("checkpoint.pth.tar", True),
        ("a.PT", True),
        ("a.pt.tmp", False),
        (".a.pt", False),
        ("tmp_a.pt", False),
        ("a.safetensors", False),
        ("a", False),
        ("iter_0000100_3_local.dirty.pt", False),
    ],
)
def test_names_with_one_of_torch_s_suffixes_are_looked_at(name: str, named: bool) -> None:
    assert torch_save.LAYOUT.is_named(name) is named


@pytest.mark.parametrize(
    ("data", "one"),
    [
        (torchlike.saved({}), True),
        (LEGACY, True),
        (b"", True),
        (b"PK", True),
        (bytes(100), True),
        (b"hello", False),
        (b"\x80\x04K\x01.", False),
    ],
)
def test_the_first_bytes_tell_whether_it_is_one(tmp_path: Path, data: bytes, one: bool) -> None:
    path = tmp_path / "a.pt"
    path.write_bytes(data)
    assert torch_save.LAYOUT.is_one(path) is one
    assert not torch_save.LAYOUT.is_one(tmp_path)


def test_a_hole_is_found_by_a_deep_look(tmp_path: Path) -> None:
    path, tensor = tmp_path / "a.pt", torchlike.floats(5000)
    data = bytearray(torchlike.saved({"w": torchlike.Tensor(tensor)}))
    at = data.index(tensor) + 4096
    data[at : at + 4096] = bytes(4096)
    path.write_bytes(data)
    assert torch_save.verify(path, False).state == "complete"
    assert torch_save.verify(path, True).state == "damaged"


def test_a_hostile_file_runs_nothing(tmp_path: Path) -> None:
    class Shell:
        def __reduce__(self) -> tuple[Any, ...]:
            return (os.system, (f"touch {tmp_path}/marker",))

    path = tmp_path / "a.pt"
    path.write_bytes(torchlike.saved({"step": 5, "x": Shell(), "y": torchlike.Tensor(b"")}))
    assert torch_save.verify(path, True).step == 5
    assert zips.scalars(path, ["step", "x"]) == {"step": 5}
    assert not (tmp_path / "marker").exists()
