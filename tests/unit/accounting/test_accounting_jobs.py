"""Jobs: one line for each, whatever it is made of."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Any

from slurmkit.accounting.question import question
from slurmkit.accounting.reports.jobs import REPORT, build, exit_of
from tests.unit.accounting.records import GIB, NOON, NOT_STARTED, ledger_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

HOUR = 3600

ARRAY: list[dict[str, object]] = [
    {
        "job_number": 10 + task, "job_id": f"9_{task}", "array_job": 9, "array_task": task, "cpus": 4,
        "total_cpu": 1.0 * HOUR, "memory": 8 * GIB,
        **({"state": "FAILED", "exit_code": 3} if task == 2 else {}),
    }
    for task in range(5)
]  # fmt: skip
REQUEUED: list[dict[str, object]] = [
    {"job_number": 83, "state": "NODE_FAIL", "elapsed": 400, "cpus": 2, "gpus": 2},
    {
        "job_number": 83, "elapsed": 600, "cpus": 2, "gpus": 2, "total_cpu": 600.0,
        "start_time": NOON + timedelta(hours=1), "submit_time": NOON + timedelta(seconds=400),
    },
]  # fmt: skip
HET: list[dict[str, object]] = [
    {"job_number": 159, "job_id": "159+0", "het_job": 159, "het_offset": 0, "gpus": 1, "nodes": 1},
    {
        "job_number": 160, "job_id": "159+1", "het_job": 159, "het_offset": 1, "gpus": 0, "nodes": 2,
        "state": "FAILED", "exit_code": 1,
    },
]  # fmt: skip


def lines(
    records: Iterable[Mapping[str, object]], steps: Iterable[Mapping[str, object]] = (), **how: Any
) -> list[dict[Any, Any]]:
    with closing(ledger_of(records, steps)) as ledger:
        return build(ledger, question(**({"zone": UTC} | how))).to_dict("records")


def test_a_job_is_one_line_with_what_it_used_of_what_it_asked_for() -> None:
    job = {
        "cpus": 4,
        "gpus": 2,
        "memory": 16 * GIB,
        "total_cpu": 1.0 * HOUR,
        "exit_code": 1,
        "state": "FAILED",
    }
    (line,) = lines([job], [{"step": "0", "max_rss": 4 * GIB, "gpu_utilisation": 50.0}])
    assert (line["job_id"], line["state"], line["exit"], line["starts"]) == ("1", "FAILED", "1", 1)
    assert (line["cpu_efficiency"], line["memory_efficiency"], line["gpu_efficiency"]) == (0.25, 0.25, 0.25)
    assert (line["elapsed"], line["time_limit"], line["max_memory"]) == (HOUR, 7200, 4 * GIB)
    assert (line["gpu_seconds"], line["cpu_seconds"]) == (2 * HOUR, 4 * HOUR)


def test_an_array_is_one_line_that_counts_the_states_of_its_tasks() -> None:
    waiting = {
        "job_number": 9, "job_id": "9_[5-24%4]", "array_job": 9, "array_tasks": 20, "state": "PENDING",
        **NOT_STARTED,
    }  # fmt: skip
    (line,) = lines([*ARRAY, waiting], [{"job_number": 12, "max_rss": GIB}])
    assert (line["job_id"], line["state"], line["exit"]) == ("9", "20 PENDING, 4 COMPLETED, 1 FAILED", "3")
    assert (line["starts"], line["elapsed"], line["cpus"]) == (5, 5 * HOUR, 4)
    assert (line["cpu_efficiency"], line["max_memory"]) == (0.25, GIB)


def test_one_task_of_an_array_may_be_asked_for() -> None:
    (line,) = lines(ARRAY, jobs=["9_2"])
    assert (line["job_id"], line["state"]) == ("9_2", "FAILED")


def test_a_heterogeneous_job_is_one_line_and_its_worst_component_speaks_029() -> None:
    for jobs in ((), ("159",), ("160",), ("159+1",)):
        (line,) = lines(HET, jobs=jobs)
        assert (line["job_id"], line["state"], line["exit"]) == ("159", "FAILED", "1")
        assert (line["nodes"], line["gpus"], line["gpu_seconds"]) == (3, 1, HOUR)


def test_all_starts_of_a_requeued_job_are_summed_and_the_last_says_its_state_030() -> None:
    (line,) = lines(REQUEUED)
    assert (line["state"], line["starts"], line["elapsed"]) == ("COMPLETED", 2, 1000)
    assert line["submit_time"] == NOON
    assert line["gpu_seconds"] == 2000
    assert line["cpu_efficiency"] == 0.5  # of the start that was measured


def test_what_was_not_measured_is_not_known() -> None:
    (line,) = lines([{"total_cpu": 0.0}])
    assert line["cpu_efficiency"] != line["cpu_efficiency"]
    assert line["memory_efficiency"] != line["memory_efficiency"]


def test_jobs_that_wait_or_never_started_have_a_line_too() -> None:
    found = lines([{"state": "PENDING", **NOT_STARTED}, {"state": "CANCELLED", **NOT_STARTED}])
    assert sorted((line["state"], line["starts"], line["elapsed"]) for line in found) == [
        ("CANCELLED", 0, 0), ("PENDING", 0, 0)
    ]  # fmt: skip


def test_the_last_submitted_come_first_and_only_as_many_as_are_asked_for() -> None:
    jobs = [{"start_time": NOON + timedelta(hours=hour)} for hour in (2, 1, 3)]
    assert [line["job_id"] for line in lines(jobs)] == ["3", "1", "2"]
    assert [line["job_id"] for line in lines(jobs, limit=2)] == ["3", "1"]
    assert len(lines([{}] * 60)) == 50


def test_a_line_has_all_of_a_job_also_what_lies_outside_the_window() -> None:
    span: dict[str, Any] = {"since": NOON + timedelta(minutes=50), "until": NOON + timedelta(minutes=55)}
    assert [(line["job_id"], line["elapsed"]) for line in lines([{}, {"elapsed": 60}], **span)] == [
        ("1", HOUR)
    ]


def test_only_the_jobs_that_are_chosen_have_lines() -> None:
    jobs: list[dict[str, object]] = [{"user": "a"}, {"user": "b", "name": "x"}, {"user": "b", "name": "y"}]
    assert [line["job_id"] for line in lines(jobs, users=["b"], names=["x*"])] == ["2"]


def test_jobs_of_one_number_on_two_clusters_are_two() -> None:
    assert len(lines([{"job_number": 1, "cluster": "a"}, {"job_number": 1, "cluster": "b"}])) == 2


def test_a_signal_stands_after_a_colon_and_the_worst_exit_is_told() -> None:
    def end(code: int | None, signal: int | None = 0) -> dict[str, int | None]:
        return {"code": code, "signal": signal}

    assert exit_of([end(0)]) == "0"
    assert exit_of([end(0), end(0, 9), end(3)]) == "0:9"
    assert exit_of([end(0), end(3), end(1)]) == "3"
    assert exit_of([end(None, None)]) is None


def test_gpus_that_never_computed_stand_out() -> None:
    with closing(ledger_of([{"gpus": 8}], [{"gpu_utilisation": 0.0}])) as ledger:
        frame = build(ledger, question(zone=UTC))
    assert REPORT.stands_out({"jobs": frame}) == ["Job 1 held 8 GPUs that never computed."]
    assert REPORT.stands_out({"jobs": frame.head(0)}) == ["No job ran, waited or ended in this time."]
