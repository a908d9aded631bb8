"""NeMo's checkpoints and the sentinel beside them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from slurmkit.checkpoint.nemo import LAYOUT
from tests.unit.checkpoint import otherlike
from tests.unit.checkpoint.otherlike import saved
from tests.unit.checkpoint.torchlike import write_dcp

if TYPE_CHECKING:
    from pathlib import Path

NAME = "gpt--val_loss=5.02-step=100-last"
ABOUT = {"metadata.json": json.dumps({"sharded_backend": "torch_dist"}).encode()}


def distributed(path: Path) -> Path:
    return otherlike.write(write_dcp(path, ranks=2), ABOUT)


def test_a_directory_is_complete_and_a_torn_one_never(tmp_path: Path) -> None:
    path = distributed(tmp_path / NAME)
    assert LAYOUT.is_one(path)
    assert (LAYOUT.verify(path, False).state, LAYOUT.step_of(NAME)) == ("complete", 100)
    assert otherlike.check_refusals(path, LAYOUT, optional=["metadata.json"]) > 200
    otherlike.check_rests_on(path, LAYOUT)


def test_weights_of_nemo_2_are_verified_inside(tmp_path: Path) -> None:
    path = tmp_path / NAME
    distributed(path / "weights")
    otherlike.write(path / "context", {"model.yaml": b""})
    assert LAYOUT.is_one(path)
    assert otherlike.check_refusals(path, LAYOUT, spared=["model.yaml"], optional=["metadata.json"]) > 200
    otherlike.check_rests_on(path, LAYOUT)


@pytest.mark.parametrize("ending", ["", ".ckpt", "-EMA.ckpt"])
def test_a_sentinel_beside_it_makes_it_incomplete(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"{NAME}{ending}"
    if ending:
        path.write_bytes(saved())
    else:
        distributed(path)
    assert LAYOUT.verify(path, False).state == "complete"
    sentinel = tmp_path / f"{NAME}-unfinished"
    sentinel.touch()
    assert LAYOUT.is_one(path)
    verdict = LAYOUT.verify(path, False)
    assert (verdict.state, sentinel.name in verdict.reason) == ("incomplete", True)
    assert not LAYOUT.is_named(sentinel.name)


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / f"{NAME}-unfinished").touch()
    path = tmp_path / f"{NAME}.ckpt"
    path.write_bytes(saved())
    (tmp_path / f"{NAME}-unfinished").unlink()
    data = path.read_bytes()
    for place in range(0, len(data), 7):
        path.write_bytes(data[:place])
        otherlike.torn(LAYOUT.verify(path, False), place)


def test_a_second_save_that_was_cut_off_is_told_by_the_times(tmp_path: Path) -> None:
    path = distributed(tmp_path / NAME)
    otherlike.write_later(path / "__0_0.distcp")
    assert LAYOUT.verify(path, False).state == "damaged"


def test_lightnings_files_are_left_to_it(tmp_path: Path) -> None:
    (tmp_path / "epoch=1-step=2.ckpt").write_bytes(saved())
    assert not LAYOUT.is_one(tmp_path / "epoch=1-step=2.ckpt")


def test_what_cannot_be_looked_at_is_refused(tmp_path: Path) -> None:
    otherlike.check_outside(tmp_path, distributed(tmp_path / NAME), LAYOUT)


def test_trap_108_steps_are_numbers() -> None:
    names = ["gpt--step=9-last", "gpt--step=10-last", "gpt--step=1080000-last.ckpt"]
    assert otherlike.steps(LAYOUT, reversed(names)) == names
