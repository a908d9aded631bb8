"""step-<n>/ of TorchTitan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from slurmkit.checkpoint.torchtitan import LAYOUT
from tests.unit.checkpoint import otherlike
from tests.unit.checkpoint.torchlike import write_dcp

if TYPE_CHECKING:
    from pathlib import Path


def test_a_whole_one_is_complete_and_a_torn_one_never(tmp_path: Path) -> None:
    path = write_dcp(tmp_path / "step-300", ranks=3)
    verdict = LAYOUT.verify(path, False)
    assert (verdict.state, verdict.step) == ("complete", 300)
    assert otherlike.check_refusals(path, LAYOUT) > 200
    otherlike.check_rests_on(path, LAYOUT)


def test_weights_with_an_index_are_complete_without_an_optimizer(tmp_path: Path) -> None:
    path = otherlike.write(tmp_path / "step-300", otherlike.sharded_weights(count=3))
    verdict = LAYOUT.verify(path, False)
    assert (verdict.state, "the optimizer is not in it" in verdict.reason) == ("complete", True)
    assert otherlike.check_refusals(path, LAYOUT) > 200
    otherlike.check_rests_on(path, LAYOUT)


def test_what_cannot_be_looked_at_is_refused(tmp_path: Path) -> None:
    path = write_dcp(tmp_path / "step-300", ranks=1)
    assert LAYOUT.is_one(path)
    assert LAYOUT.verify(tmp_path / "step-9", False).state == "incomplete"
    (tmp_path / "step-5").mkdir()
    assert LAYOUT.verify(tmp_path / "step-5", False).state == "incomplete"
    other = otherlike.write(tmp_path / "other", {"notes.txt": b""})
    assert LAYOUT.verify(other, False).state == "foreign"
    loop = tmp_path / "step-6"
    loop.symlink_to(loop.name)
    otherlike.torn(LAYOUT.verify(loop, False), "loop")


def test_trap_111_shards_without_metadata_are_incomplete(tmp_path: Path) -> None:
    path = write_dcp(tmp_path / "step-300", ranks=1, finish=False)
    verdict = LAYOUT.verify(path, False)
    assert (verdict.state, verdict.step) == ("incomplete", 300)
    assert ".metadata is not there" in verdict.reason


def test_a_second_save_that_was_cut_off_is_told_by_the_times(tmp_path: Path) -> None:
    path = write_dcp(tmp_path / "step-300", ranks=2)
    otherlike.write_later(path / "__1_0.distcp")
    verdict = LAYOUT.verify(path, False)
    assert (verdict.state, "__1_0.distcp is newer" in verdict.reason) == ("damaged", True)


def test_trap_108_steps_are_numbers() -> None:
    assert otherlike.steps(LAYOUT, ["step-10", "step-9", "step-1080000"]) == [
        "step-9",
        "step-10",
        "step-1080000",
    ]


@pytest.mark.parametrize("name", ["step_10", "step-10-tmp", "xstep-10", "step-", *otherlike.HOSTILE])
def test_other_names_are_none(name: str) -> None:
    assert not LAYOUT.is_named(name)
