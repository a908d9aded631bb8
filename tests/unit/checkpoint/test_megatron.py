"""iter_<iteration>/ of Megatron-LM in its formats, and its tracker."""

from __future__ import annotations

import hashlib
import json
from argparse import Namespace
from typing import TYPE_CHECKING

import pytest

from slurmkit.checkpoint import megatron
from slurmkit.checkpoint.megatron import LAYOUT, TRACKER
from tests.unit.checkpoint import otherlike
from tests.unit.checkpoint.otherlike import saved
from tests.unit.checkpoint.torchlike import write_dcp

if TYPE_CHECKING:
    from pathlib import Path

DIGITS = (2, 3, 3)


def about(backend: str = "torch_dist", *, common: bool = True) -> dict[str, bytes]:
    told = {"sharded_backend": backend, "sharded_backend_version": 1}
    more = {"common_backend": "torch", "common_backend_version": 1} if common else {}
    return {"metadata.json": json.dumps({**told, **more}).encode()}


def distributed(tmp_path: Path, *, common: bool = True, iteration: int = 300) -> Path:
    path = tmp_path / "save" / f"iter_{iteration:07}"
    if common:
        otherlike.write(path, {"common.pt": saved(iteration=iteration, args=Namespace(world_size=16))})
    write_dcp(path, ranks=2)
    otherlike.write(path, about(common=common))
    otherlike.write(path.parent, {TRACKER: str(iteration).encode()})
    return path


def in_parts(
    tmp_path: Path, *counts: int, iteration: int = 300, told: bool = True, optimizer: bool = False
) -> Path:
    path = tmp_path / "save" / f"iter_{iteration:07}"
    sizes = dict(zip(megatron._SIZES, (*counts, 1, 1), strict=False)) if told else {}
    model = saved(iteration=iteration, args=Namespace(world_size=64, **sizes))
    places: list[tuple[int, ...]] = [()]
    for count in counts:
        places = [(*place, number) for place in places for number in range(count)]
    for place in places:
        numbers = "_".join(f"{number:0{digits}}" for number, digits in zip(place, DIGITS, strict=False))
        more = {"distrib_optim.pt": saved()} if optimizer else {}
        otherlike.write(path / f"mp_rank_{numbers}", {"model_optim_rng.pt": model, **more})
    otherlike.write(path.parent, {TRACKER: str(iteration).encode()})
    return path


@pytest.mark.parametrize("common", [True, False])
def test_torch_dist_is_complete_and_a_torn_one_never(tmp_path: Path, common: bool) -> None:
    path = distributed(tmp_path, common=common)
    verdict = LAYOUT.verify(path, False)
    assert (verdict.state, verdict.step) == ("complete", 300)
    assert verdict.world_size == (16 if common else None)
    # without metadata.json, one of before 0.19 is told by common.pt, a later one by what .metadata holds
    assert otherlike.check_refusals(path, LAYOUT, optional=() if common else ("metadata.json",)) > 200
    otherlike.check_rests_on(path, LAYOUT)


def test_torch_dist_of_today_without_metadata_json_is_told_by_its_metadata(tmp_path: Path) -> None:
    path = distributed(tmp_path, common=False)
    (path / "metadata.json").unlink()
    assert LAYOUT.verify(path, False).state == "complete", "that is the format torch_dcp"
    text = (path / ".metadata").read_bytes()
    (path / ".metadata").write_bytes(text + b"mcore_data")
    verdict = LAYOUT.verify(path, False)
    assert (verdict.state, verdict.step) == ("incomplete", 300)
    assert "metadata.json, which is written last, is not there" in verdict.reason


def test_deep_compares_with_what_megatron_kept_of_every_file(tmp_path: Path) -> None:
    path = distributed(tmp_path)
    sums = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in otherlike.files_in(path)}
    kept = {"algorithm": "sha256", "files": sums}
    otherlike.write(path, {"integrity.json": json.dumps(kept).encode()})
    assert LAYOUT.verify(path, True).reason.endswith("and as integrity.json says")
    metadata = path / "metadata.json"
    for _changed in otherlike.replaced(metadata, metadata.read_bytes() + b" "):
        assert LAYOUT.verify(path, False).state == "complete"
        assert LAYOUT.verify(path, True).reason == "metadata.json is not as integrity.json says"
    otherlike.check_refusals(path, LAYOUT, deep=True, count=100, optional=["integrity.json"])
    hostile: list[object] = [{"../../x": ""}, {"gone": ""}, [], {"": ""}]
    for names in hostile:
        (path / "integrity.json").write_text(json.dumps({"files": names}))
        otherlike.torn(LAYOUT.verify(path, True), names)


def test_another_backend_is_unverified(tmp_path: Path) -> None:
    path = otherlike.write(tmp_path / "iter_0000001", about("zarr"))
    verdict = LAYOUT.verify(path, False)
    assert (verdict.state, "zarr" in verdict.reason) == ("unverified", True)


@pytest.mark.parametrize("counts", [(1,), (2,), (2, 2), (2, 2, 2)])
def test_parts_are_complete_together_and_never_torn(tmp_path: Path, counts: tuple[int, ...]) -> None:
    path = in_parts(tmp_path, *counts, optimizer=True)
    verdict = LAYOUT.verify(path, False)
    assert (verdict.state, verdict.step, verdict.world_size) == ("complete", 300, 64)
    optional = ["distrib_optim.pt"] if counts == (1,) else []
    assert otherlike.check_refusals(path, LAYOUT, optional=optional) > 200
    otherlike.check_rests_on(path, LAYOUT)


@pytest.mark.parametrize(
    ("counts", "told", "removed"),
    [
        ((4,), True, "mp_rank_03"),
        ((2, 2), True, "mp_rank_01_001"),
        ((2, 2), False, "mp_rank_00_001"),
        ((2, 2, 2), True, "mp_rank_01_001_001"),
    ],
)
def test_a_part_that_is_missing_is_named(
    tmp_path: Path, counts: tuple[int, ...], told: bool, removed: str
) -> None:
    path = in_parts(tmp_path, *counts, told=told)
    (path / removed).rename(tmp_path / "elsewhere")
    assert LAYOUT.verify(path, False).reason == f"{removed} is not there"


def test_the_second_number_may_be_of_the_experts(tmp_path: Path) -> None:
    path = in_parts(tmp_path, 2, 2, told=False)
    args = Namespace(
        tensor_model_parallel_size=2,
        pipeline_model_parallel_size=1,
        expert_model_parallel_size=4,
        world_size=8,
    )
    (path / "mp_rank_00_000" / "model_optim_rng.pt").write_bytes(saved(iteration=300, args=args))
    (path.parent / TRACKER).write_text("300")
    assert LAYOUT.verify(path, False).reason == "mp_rank_00_002 is not there"


def test_parts_of_another_iteration_are_refused(tmp_path: Path) -> None:
    path = in_parts(tmp_path, 2).rename(tmp_path / "save" / "iter_0000400")
    assert LAYOUT.verify(path, False).state == "damaged"


def test_torch_dcp_is_verified_as_such(tmp_path: Path) -> None:
    path = write_dcp(tmp_path / "iter_0000100", ranks=2)
    assert LAYOUT.verify(path, False).state == "complete"
    otherlike.check_refusals(path, LAYOUT, count=50)


def test_a_second_save_that_was_cut_off_is_told_by_the_times(tmp_path: Path) -> None:
    path = distributed(tmp_path)
    otherlike.write_later(path / "common.pt")
    verdict = LAYOUT.verify(path, False)
    assert (verdict.state, "common.pt is newer than metadata.json" in verdict.reason) == ("damaged", True)
    path = in_parts(tmp_path, 2, iteration=500)
    otherlike.write_later(path / "mp_rank_01" / "model_optim_rng.pt")
    assert f"is newer than {TRACKER}" in LAYOUT.verify(path, False).reason


def test_what_cannot_be_looked_at_is_refused(tmp_path: Path) -> None:
    otherlike.check_outside(tmp_path, distributed(tmp_path), LAYOUT)
    (tmp_path / "iter_0000009").mkdir()
    assert LAYOUT.verify(tmp_path / "iter_0000009", False).state == "incomplete"


def test_nothing_of_a_hostile_pickle_runs(tmp_path: Path) -> None:
    evidence = tmp_path / "it ran"
    path = in_parts(tmp_path, 2)
    hostile = saved(iteration=otherlike.Payload(evidence), args=otherlike.Payload(evidence))
    (path / "mp_rank_00" / "model_optim_rng.pt").write_bytes(hostile)
    LAYOUT.verify(path, True)
    assert not evidence.exists()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"300", None),
        (b"300\n", None),
        (b"", f"{TRACKER} is empty: the save that wrote it was not finished"),
        (b"400", f"{TRACKER} names iter_0000400, which is not there"),
        (b"release", f"{TRACKER} names release, which is not there"),
        (b"30o", f"{TRACKER} says '30o', which is no checkpoint's name"),
        (b"-1", f"{TRACKER} says '-1', which is no checkpoint's name"),
        ("\u0663".encode(), f"{TRACKER} says '\u0663', which is no checkpoint's name"),
    ],
)
def test_trap_113_a_tracker_is_not_believed(tmp_path: Path, text: bytes, problem: str | None) -> None:
    root = distributed(tmp_path).parent
    (root / TRACKER).write_bytes(text)
    assert megatron.tracker_problem(root) == problem


def test_trap_113_a_tracker_ahead_of_the_data_is_told(tmp_path: Path) -> None:
    path = distributed(tmp_path)
    (path / "metadata.json").unlink()
    told = "which is incomplete: metadata.json, which is written last, is not there"
    assert megatron.tracker_problem(path.parent) == f"{TRACKER} names iter_0000300, {told}"


def test_a_missing_tracker_is_a_problem_only_where_there_are_checkpoints(tmp_path: Path) -> None:
    root = distributed(tmp_path).parent
    (root / TRACKER).unlink()
    told = f"{TRACKER} is not there, though iter_0000300 is: a load would start from nothing"
    assert megatron.tracker_problem(root) == told
    assert megatron.tracker_problem(tmp_path / "absent") is None


def test_trap_108_iterations_are_numbers() -> None:
    names = ["iter_0000009", "iter_0960000", "iter_1080000", "iter_10000000"]
    assert otherlike.steps(LAYOUT, reversed(names)) == names


@pytest.mark.parametrize("name", [TRACKER, "iter_9", "iter_0000009.tmp", *otherlike.HOSTILE])
def test_other_names_are_none(name: str) -> None:
    assert not LAYOUT.is_named(name)
