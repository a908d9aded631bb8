"""checkpoint_<n>/ of Hugging Face's Accelerate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from slurmkit.checkpoint.accelerate import LAYOUT
from tests.unit.checkpoint import otherlike
from tests.unit.checkpoint.otherlike import saved
from tests.unit.checkpoint.torchlike import write_dcp

if TYPE_CHECKING:
    from pathlib import Path

OPTIMIZER = {"optimizer.bin": saved(), "scheduler.bin": saved()}


def random_states(ranks: int) -> dict[str, bytes]:
    return {f"random_states_{rank}.pkl": saved(step=0) for rank in range(ranks)}


def checkpoint(tmp_path: Path, ranks: int = 2) -> Path:
    files = {"model.safetensors": otherlike.safetensors(), **OPTIMIZER, **random_states(ranks)}
    return otherlike.write(tmp_path / "checkpoints" / "checkpoint_7", files)


@pytest.mark.parametrize("ranks", [1, 3])
def test_a_whole_one_is_complete_and_a_torn_one_never(tmp_path: Path, ranks: int) -> None:
    path = checkpoint(tmp_path, ranks)
    assert LAYOUT.verify(path, False).state == "complete"
    optional = ["scheduler.bin", "optimizer.bin", *([f"random_states_{ranks - 1}.pkl"] if ranks > 1 else [])]
    assert otherlike.check_refusals(path, LAYOUT, optional=optional) > 200
    otherlike.check_rests_on(path, LAYOUT)


def test_what_cannot_be_looked_at_is_refused(tmp_path: Path) -> None:
    otherlike.check_outside(tmp_path, checkpoint(tmp_path), LAYOUT)


def test_several_models_and_optimizers_are_looked_at(tmp_path: Path) -> None:
    path = checkpoint(tmp_path)
    more = {
        "model_1.safetensors": otherlike.safetensors(),
        "optimizer_1.bin": saved(),
        "optimizer_2.bin": saved(),
    }
    otherlike.write(path, {**more, **random_states(2)})
    optional = [
        "model_1.safetensors",
        "scheduler.bin",
        "optimizer_2.bin",
        "random_states_1.pkl",
    ]
    otherlike.check_refusals(path, LAYOUT, optional=optional)


def test_sharded_weights_need_their_index(tmp_path: Path) -> None:
    weights = otherlike.sharded_weights(count=3)
    path = otherlike.write(tmp_path / "checkpoint_0", {**weights, **OPTIMIZER, **random_states(1)})
    otherlike.check_refusals(path, LAYOUT, optional=["optimizer.bin", "scheduler.bin"])


def test_fsdp_directories_are_verified_as_such(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint_0"
    write_dcp(path / "pytorch_model_fsdp_0", ranks=2)
    write_dcp(path / "optimizer_0", ranks=2)
    otherlike.write(path, {"scheduler.bin": saved(), **random_states(2)})
    assert LAYOUT.verify(path, False).world_size is None
    otherlike.check_refusals(path, LAYOUT, optional=["scheduler.bin", "random_states_1.pkl"])


def test_files_of_each_rank_bind_it_to_their_number(tmp_path: Path) -> None:
    shards = {
        f"{stem}_0_rank{rank}.bin": saved()
        for stem in ("pytorch_model_fsdp", "optimizer")
        for rank in range(3)
    }
    path = otherlike.write(tmp_path / "checkpoint_0", {**shards, **random_states(3)})
    assert LAYOUT.verify(path, False).world_size == 3
    otherlike.check_refusals(path, LAYOUT)


def test_deepspeeds_directory_is_verified_as_such(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint_0"
    model = saved(dp_world_size=2, mp_world_size=1, global_steps=5)
    shards = {f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt": saved() for rank in range(2)}
    otherlike.write(path / "pytorch_model", {"mp_rank_00_model_states.pt": model, **shards})
    otherlike.write(path, {"latest": b"pytorch_model", **random_states(2)})
    assert LAYOUT.verify(path, False).world_size == 2
    otherlike.check_refusals(path, LAYOUT, spared=["latest"], optional=["random_states_1.pkl"])


def test_one_without_an_optimizer_is_complete_and_says_so(tmp_path: Path) -> None:
    files = {"model.safetensors": otherlike.safetensors(), **random_states(1)}
    verdict = LAYOUT.verify(otherlike.write(tmp_path / "checkpoint_0", files), False)
    assert (verdict.state, "no optimizer is in it" in verdict.reason) == ("complete", True)


def test_a_second_save_that_was_cut_off_is_told_by_the_times(tmp_path: Path) -> None:
    path = checkpoint(tmp_path)
    otherlike.write_later(path / "model.safetensors")
    verdict = LAYOUT.verify(path, False)
    assert verdict.state == "damaged"
    assert "model.safetensors is newer than random_states_0.pkl" in verdict.reason


def test_other_ranks_and_registered_objects_come_later(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, ranks=3)
    otherlike.write_later(path / "random_states_2.pkl")
    otherlike.write_later(path / "custom_checkpoint_0.pkl", saved())
    assert LAYOUT.verify(path, False).state == "complete"


def test_nothing_of_a_hostile_pickle_runs(tmp_path: Path) -> None:
    path = checkpoint(tmp_path)
    (path / "random_states_0.pkl").write_bytes(saved(x=otherlike.Payload(tmp_path / "it ran")))
    LAYOUT.verify(path, True)
    assert not (tmp_path / "it ran").exists()


def test_trap_108_numbers_are_compared_as_such() -> None:
    assert otherlike.steps(LAYOUT, ["checkpoint_10", "checkpoint_9", "step_100"]) == [
        "checkpoint_9",
        "checkpoint_10",
        "step_100",
    ]
    assert LAYOUT.step_of("epoch_3") is None


@pytest.mark.parametrize("name", ["checkpoint-7", "checkpoint_7.tmp", "checkpoint_", *otherlike.HOSTILE])
def test_other_names_are_none(name: str) -> None:
    assert not LAYOUT.is_named(name)
