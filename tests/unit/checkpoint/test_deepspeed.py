"""global_step<n>/ of DeepSpeed, and its tracker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from slurmkit.checkpoint import deepspeed
from slurmkit.checkpoint.deepspeed import LAYOUT
from tests.unit.checkpoint import otherlike
from tests.unit.checkpoint.otherlike import saved

if TYPE_CHECKING:
    from pathlib import Path


def model(data: int, parts: int = 1, **more: Any) -> bytes:
    about = {"dp_world_size": data, "mp_world_size": parts, "global_steps": 100, "ds_version": "0.19.8"}
    return saved(**{**about, "param_shapes": None, "optimizer": None, **more})


def checkpoint(
    tmp_path: Path,
    *,
    data: int = 2,
    parts: int = 2,
    stage: int = 1,
    kind: str = "",
    tag: str = "global_step100",
) -> Path:
    about = model(data, parts, ds_config={"zero_optimization": {"stage": stage}})
    files = {}
    for part in range(parts):
        if stage < 3:
            files[f"mp_rank_{part:02}_model_states.pt"] = about
        for rank in range(data):
            if stage == 3:
                files[f"zero_pp_rank_{rank}_mp_rank_{part:02}_model_states.pt"] = about
            if stage > 0:
                files[f"{kind}zero_pp_rank_{rank}_mp_rank_{part:02}_optim_states.pt"] = saved()
    path = otherlike.write(tmp_path / "run" / tag, files)
    otherlike.write(path.parent, {"latest": tag.encode(), "zero_to_fp32.py": b"# a script"})
    return path


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_a_whole_one_is_complete_and_a_torn_one_never(tmp_path: Path, stage: int) -> None:
    path = checkpoint(tmp_path, stage=stage)
    verdict = LAYOUT.verify(path, False)
    assert (verdict.state, verdict.step, verdict.world_size) == ("complete", 100, 4)
    assert otherlike.check_refusals(path, LAYOUT) > 200
    otherlike.check_rests_on(path, LAYOUT)


def test_bf16_optimizers_are_counted_too(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, kind="bf16_")
    (path / "bf16_zero_pp_rank_1_mp_rank_01_optim_states.pt").unlink()
    verdict = LAYOUT.verify(path, False)
    assert verdict.reason == "bf16_zero_pp_rank_1_mp_rank_01_optim_states.pt is not there"


def test_all_shards_of_the_optimizer_missing_is_seen(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, stage=2)
    for shard in path.glob("zero_*"):
        shard.unlink()
    verdict = LAYOUT.verify(path, False)
    assert (verdict.state, "no file of the optimizer" in verdict.reason) == ("incomplete", True)


def test_the_last_ranks_are_missed_by_the_number_that_the_model_tells(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, data=4, parts=1, stage=2)
    (path / "zero_pp_rank_3_mp_rank_00_optim_states.pt").unlink()
    verdict = LAYOUT.verify(path, False)
    assert verdict.reason == "zero_pp_rank_3_mp_rank_00_optim_states.pt is not there"


def test_experts_and_pipeline_layers_are_verified_too(tmp_path: Path) -> None:
    names = [
        "layer_0_expert_0_mp_rank_00_model_states.pt",
        "layer_0_expert_1_mp_rank_00_model_states.pt",
        "expp_rank_0_mp_rank_00_optim_states.pt",
        "expp_rank_1_mp_rank_00_optim_states.pt",
        "layer_01-model_00-model_states.pt",
    ]
    path = checkpoint(tmp_path, parts=1, stage=0)
    otherlike.write(path, dict.fromkeys(names, saved()))
    (path.parent / "latest").write_text("global_step100")
    assert LAYOUT.verify(path, False).state == "complete"
    otherlike.check_refusals(path, LAYOUT, optional=names)


def test_a_universal_one_is_for_any_number_of_ranks(tmp_path: Path) -> None:
    inside = [f"zero/{name}/{file}.pt" for name in ("a.weight", "b.weight") for file in ("fp32", "exp_avg")]
    files = {"mp_rank_00_model_states.pt": model(8), **dict.fromkeys(inside, saved())}
    path = otherlike.write(tmp_path / "global_step100_universal", files)
    verdict = LAYOUT.verify(path, False)
    assert (verdict.state, verdict.step, verdict.world_size) == ("complete", 100, None)
    optional = [name.rpartition("/")[2] for name in inside]
    otherlike.check_refusals(path, LAYOUT, optional=optional)


def test_the_old_format_of_torch_is_unverified(tmp_path: Path) -> None:
    legacy = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.rest"
    path = otherlike.write(tmp_path / "global_step5", {"mp_rank_00_model_states.pt": legacy})
    verdict = LAYOUT.verify(path, False)
    assert (verdict.state, verdict.step, verdict.world_size) == ("unverified", 5, None)


def test_a_second_save_that_was_cut_off_is_told_by_the_tracker(tmp_path: Path) -> None:
    path = checkpoint(tmp_path)
    otherlike.write_later(path / "zero_pp_rank_1_mp_rank_00_optim_states.pt")
    assert LAYOUT.verify(path, False).state == "complete", "other ranks are not waited for"
    otherlike.write_later(path / "mp_rank_00_model_states.pt")
    verdict = LAYOUT.verify(path, False)
    assert (verdict.state, "is newer than latest" in verdict.reason) == ("damaged", True)
    (path.parent / "latest").write_text("global_step200")
    assert LAYOUT.verify(path, False).state == "complete", "it says nothing of other ones"


def test_a_tag_of_ones_own_is_taken_and_the_step_read_from_it(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, tag="best")
    verdict = LAYOUT.verify(path, False)
    assert LAYOUT.is_named("best")
    assert LAYOUT.is_one(path)
    assert (LAYOUT.step_of("best"), verdict.step, verdict.state) == (None, 100, "complete")


def test_what_cannot_be_looked_at_is_refused(tmp_path: Path) -> None:
    otherlike.check_outside(tmp_path, checkpoint(tmp_path), LAYOUT)
    (tmp_path / "global_step7").mkdir()
    assert LAYOUT.verify(tmp_path / "global_step7", False).state == "incomplete"


def test_nothing_of_a_hostile_pickle_runs(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, parts=1)
    hostile = model(
        2, x=otherlike.Payload(tmp_path / "it ran"), dp_world_size=otherlike.Payload(tmp_path / "it ran")
    )
    (path / "mp_rank_00_model_states.pt").write_bytes(hostile)
    LAYOUT.verify(path, True)
    assert not (tmp_path / "it ran").exists()


@pytest.mark.parametrize("number", [0, -1, True, 2.5, "2", 10**30])
def test_a_number_of_ranks_that_is_none_is_met(tmp_path: Path, number: Any) -> None:
    path = checkpoint(tmp_path, parts=1)
    (path / "mp_rank_00_model_states.pt").write_bytes(model(number))
    assert LAYOUT.verify(path, False).state in {"complete", "incomplete"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"global_step100", None),
        (b" global_step100\n", None),
        (b"", "latest is empty: the save that wrote it was not finished"),
        (b"global_step300", "latest names global_step300, which is not there"),
        (b"../run/global_step100", "latest says '../run/global_step100', which is no checkpoint's name"),
        (b"\0\0\0", "latest names \ufffd\ufffd\ufffd, which is not there"),
    ],
)
def test_trap_113_a_tracker_is_not_believed(tmp_path: Path, text: bytes, problem: str | None) -> None:
    root = checkpoint(tmp_path).parent
    (root / "latest").write_bytes(text)
    assert deepspeed.tracker_problem(root) == problem


def test_trap_113_a_tracker_of_a_half_written_one_is_told(tmp_path: Path) -> None:
    path = checkpoint(tmp_path)
    (path / "mp_rank_01_model_states.pt").unlink()
    told = deepspeed.tracker_problem(path.parent)
    assert told == "latest names global_step100, which is incomplete: mp_rank_01_model_states.pt is not there"


def test_a_missing_tracker_is_a_problem_only_where_there_are_checkpoints(tmp_path: Path) -> None:
    root = checkpoint(tmp_path).parent
    (root / "latest").unlink()
    told = "latest is not there, though global_step100 is: a load would start from nothing"
    assert deepspeed.tracker_problem(root) == told
    assert deepspeed.tracker_problem(tmp_path / "absent") is None
    loop = root / "latest"
    loop.symlink_to(loop.name)
    assert "cannot be read" in (deepspeed.tracker_problem(root) or "")


def test_trap_108_steps_are_numbers() -> None:
    names = ["global_step9", "global_step10", "global_step1000_universal"]
    assert otherlike.steps(LAYOUT, reversed(names)) == names


@pytest.mark.parametrize("name", ["latest", "latest_universal", "tmp-global_step5", ".global_step5"])
def test_other_names_are_none(name: str) -> None:
    assert not LAYOUT.is_named(name)
