"""checkpoint-<step>/ of Hugging Face's Trainer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slurmkit.checkpoint import huggingface
from slurmkit.checkpoint.huggingface import LAYOUT
from tests.unit.checkpoint import otherlike
from tests.unit.checkpoint.otherlike import saved
from tests.unit.checkpoint.torchlike import write_dcp

SPARED = ("config.json",)
WEIGHTS = {"config.json": b"{}", "model.safetensors": otherlike.safetensors(), "training_args.bin": saved()}
OPTIMIZER = {"optimizer.pt": saved(state={}), "scheduler.pt": saved(last_epoch=3)}


def state(step: int = 100) -> dict[str, bytes]:
    return {"trainer_state.json": json.dumps({"global_step": step, "log_history": [{"loss": 1.5}]}).encode()}


def random_states(ranks: int) -> dict[str, bytes]:
    if ranks == 1:
        return {"rng_state.pth": saved(python=1)}
    return {f"rng_state_{rank}.pth": saved(python=rank) for rank in range(ranks)}


def checkpoint(tmp_path: Path, step: int = 100, ranks: int = 1) -> Path:
    files = {**WEIGHTS, **OPTIMIZER, **random_states(ranks), **state(step)}
    return otherlike.write(tmp_path / "out" / f"checkpoint-{step}", files)


@pytest.mark.parametrize("ranks", [1, 4])
def test_a_whole_one_is_complete_and_a_torn_one_never(tmp_path: Path, ranks: int) -> None:
    path = checkpoint(tmp_path, ranks=ranks)
    verdict = LAYOUT.verify(path, False)
    assert (verdict.state, verdict.step, verdict.world_size) == ("complete", 100, None)
    assert ("4 ranks" in verdict.reason) == (ranks == 4)
    optional = ["training_args.bin", "rng_state_3.pth"]
    assert otherlike.check_refusals(path, LAYOUT, spared=SPARED, optional=optional) > 200
    otherlike.check_rests_on(path, LAYOUT)


def test_what_cannot_be_looked_at_is_refused(tmp_path: Path) -> None:
    otherlike.check_outside(tmp_path, checkpoint(tmp_path), LAYOUT)


def test_deep_finds_a_hole_in_the_optimizer(tmp_path: Path) -> None:
    path = checkpoint(tmp_path)
    data = bytearray((path / "optimizer.pt").read_bytes())
    data[300:340] = bytes(40)
    for _changed in otherlike.replaced(path / "optimizer.pt", bytes(data)):
        assert LAYOUT.verify(path, True).state == "damaged"
    assert LAYOUT.verify(path, True).state == "complete"


@pytest.mark.parametrize(
    "weights",
    [
        otherlike.sharded_weights(),
        {"pytorch_model.bin": saved()},
        {"adapter_model.safetensors": otherlike.safetensors(), "adapter_config.json": b"{}"},
    ],
)
def test_weights_may_be_sharded_or_of_torch_or_an_adapter(tmp_path: Path, weights: dict[str, bytes]) -> None:
    files = {**weights, **OPTIMIZER, **random_states(1), **state()}
    path = otherlike.write(tmp_path / "checkpoint-100", files)
    otherlike.check_refusals(path, LAYOUT, spared=["adapter_config.json"])


def test_shards_without_their_index_are_incomplete(tmp_path: Path) -> None:
    weights = otherlike.sharded_weights()
    del weights["model.safetensors.index.json"]
    files = {**weights, **OPTIMIZER, **random_states(1), **state()}
    verdict = LAYOUT.verify(otherlike.write(tmp_path / "checkpoint-100", files), False)
    assert (verdict.state, "model.safetensors.index.json is not there" in verdict.reason) == (
        "incomplete",
        True,
    )


def test_one_of_the_model_only_is_complete_and_says_so(tmp_path: Path) -> None:
    path = otherlike.write(tmp_path / "checkpoint-100", {**WEIGHTS, **state()})
    verdict = LAYOUT.verify(path, False)
    assert verdict.state == "complete"
    assert "the optimizer is not in it" in verdict.reason


def test_fsdp_directories_are_verified_as_such(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint-100"
    for folder in ("pytorch_model_fsdp_0", "optimizer_0"):
        write_dcp(path / folder, ranks=2)
    otherlike.write(path, {"scheduler.pt": saved(), **random_states(2), **state()})
    assert LAYOUT.verify(path, False).state == "complete"
    otherlike.check_refusals(path, LAYOUT, optional=["rng_state_1.pth"])


def test_deepspeeds_directory_is_verified_as_such(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint-100"
    model = saved(dp_world_size=2, mp_world_size=1, global_steps=100)
    shards = {f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt": saved() for rank in range(2)}
    otherlike.write(path / "global_step100", {"mp_rank_00_model_states.pt": model, **shards})
    otherlike.write(
        path, {"latest": b"global_step100", "zero_to_fp32.py": b"", **random_states(2), **state()}
    )
    verdict = LAYOUT.verify(path, False)
    assert (verdict.state, verdict.world_size) == ("complete", 2)
    otherlike.check_refusals(path, LAYOUT, spared=["latest", "zero_to_fp32.py"], optional=["rng_state_1.pth"])
    # weights that somebody gathered from it later
    otherlike.write_later(otherlike.write(path, {"pytorch_model.bin": saved()}) / "pytorch_model.bin")
    assert LAYOUT.verify(path, False).state == "complete"


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.pt", "scheduler.pt"])
def test_a_second_save_that_was_cut_off_is_told_by_the_times(tmp_path: Path, name: str) -> None:
    path = checkpoint(tmp_path)
    otherlike.write_later(path / name)
    verdict = LAYOUT.verify(path, False)
    assert verdict.state == "damaged"
    assert f"second save into it was not finished: {name} is newer" in verdict.reason


def test_another_rank_may_write_its_random_state_after_the_last_file(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, ranks=4)
    otherlike.write_later(path / "rng_state_3.pth")
    assert LAYOUT.verify(path, False).state == "complete"


@pytest.mark.parametrize(
    "text", ["", "{", '{"global_step": 1', "[]", "null", '{"global_step": "100"}', "[" * 100_000]
)
def test_a_state_that_tells_nothing_is_refused(tmp_path: Path, text: str) -> None:
    path = checkpoint(tmp_path)
    (path / "trainer_state.json").write_text(text)
    otherlike.torn(LAYOUT.verify(path, False), text[:20])


def test_a_state_of_another_step_is_refused(tmp_path: Path) -> None:
    path = checkpoint(tmp_path)
    moved = path.rename(path.with_name("checkpoint-200"))
    assert LAYOUT.verify(moved, False).state == "damaged"


def test_one_made_at_a_sigterm_is_incomplete_until_its_sign_is_gone(tmp_path: Path) -> None:
    path = checkpoint(tmp_path)
    (path / "checkpoint-is-incomplete.txt").write_text("Checkpoint started")
    assert LAYOUT.verify(path, False).state == "incomplete"


def test_an_index_that_leads_outside_is_refused(tmp_path: Path) -> None:
    path = checkpoint(tmp_path)
    index = {"weight_map": {"w": "../../etc/passwd"}}
    otherlike.write(path, {"model.safetensors.index.json": json.dumps(index).encode()})
    otherlike.torn(LAYOUT.verify(path, False), index)


def test_nothing_of_a_hostile_pickle_runs(tmp_path: Path) -> None:
    evidence = tmp_path / "it ran"
    path = checkpoint(tmp_path)
    (path / "optimizer.pt").write_bytes(saved(x=otherlike.Payload(evidence)))
    LAYOUT.verify(path, True)
    assert not evidence.exists()


def test_trap_108_steps_are_numbers() -> None:
    names = ["checkpoint-10", "checkpoint-9", "checkpoint-960000", "checkpoint-1080000"]
    assert otherlike.steps(LAYOUT, names) == [names[1], names[0], names[2], names[3]]


def test_trap_115_the_tenth_thousand_is_newer_than_the_ninth() -> None:
    names = [f"checkpoint-{step}" for step in (*range(9000, 10000, 100), 10000)]
    assert otherlike.steps(LAYOUT, reversed(names))[-1] == "checkpoint-10000"


@pytest.mark.parametrize(
    "name", ["tmp-checkpoint-100", "checkpoint-100.tmp", "xcheckpoint-1", *otherlike.HOSTILE]
)
def test_other_names_are_none(name: str) -> None:
    assert not LAYOUT.is_named(name)
    assert huggingface.step_of(name) is None
