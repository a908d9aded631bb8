"""Efficiency: used against asked; what was not measured is counted apart; advice has its headroom."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from slurmkit.accounting.advice import Habit, advise
from slurmkit.accounting.advice import build as build_advice
from slurmkit.accounting.question import question
from slurmkit.accounting.reports.efficiency import REPORT, build, build_worst
from tests.unit.accounting.records import GIB, NOON, NOT_STARTED, ledger_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pandas import DataFrame

HOUR = 3600


def asked(
    jobs: Iterable[Mapping[str, object]], steps: Iterable[Mapping[str, object]] = (), *by: str, **how: Any
) -> DataFrame:
    with closing(ledger_of(jobs, steps)) as ledger:
        return build(ledger, question(by=by, **({"zone": UTC} | how)))


def row_of(
    jobs: Iterable[Mapping[str, object]], steps: Iterable[Mapping[str, object]] = (), **how: Any
) -> dict[str, Any]:
    (row,) = asked(jobs, steps, **how).to_dict("records")
    return {str(name): None if value != value else value for name, value in row.items()}  # noqa: PLR0124


def test_cpu_efficiency_is_cpu_time_over_cpus_times_elapsed() -> None:
    row = row_of([{"cpus": 4, "total_cpu": 2.0 * HOUR}, {"cpus": 12, "total_cpu": 6.0 * HOUR}])
    assert row["cpu_efficiency"] == 0.5
    assert (row["cpu_seconds"], row["cpu_used_seconds"], row["cpu_not_measured"]) == (16 * HOUR, 8 * HOUR, 0)


def test_no_cpu_time_is_not_known_and_counted_and_never_nothing_015() -> None:
    killed = {"state": "TIMEOUT", "cpus": 64, "total_cpu": 0.0}
    row = row_of([killed, {"cpus": 4, "total_cpu": 1.0 * HOUR}, {"cpus": 4}])
    assert (row["cpu_efficiency"], row["cpu_not_measured"]) == (0.25, 2)
    row = row_of([killed])
    assert (row["cpu_efficiency"], row["cpu_not_measured"]) == (None, 1)


def test_cpu_time_of_steps_stands_in_for_that_of_the_job_015() -> None:
    steps = [{"step": "batch", "total_cpu": 100.0}, {"step": "0", "total_cpu": 1700.0}]
    assert row_of([{"cpus": 1, "total_cpu": 0.0}], steps)["cpu_efficiency"] == 0.5


def test_memory_is_the_most_of_any_step_and_not_known_without_one_013() -> None:
    steps: list[dict[str, object]] = [
        {"step": "batch", "max_rss": GIB // 64}, {"step": "0", "max_rss": 7 * GIB // 2},
        {"step": "extern", "max_rss": 0}, {"step": "1"},
    ]  # fmt: skip
    row = row_of([{"memory": 7 * GIB}], steps)
    assert (row["memory_efficiency"], row["memory_not_measured"]) == (0.5, 0)
    row = row_of([{"memory": 7 * GIB}], [{"step": "0"}])
    assert (row["memory_efficiency"], row["memory_not_measured"]) == (None, 1)


def test_all_tasks_together_count_where_slurm_stores_that() -> None:
    row = row_of([{"memory": 16 * GIB}], [{"max_rss": 2 * GIB, "memory_used": 8 * GIB}])
    assert row["memory_efficiency"] == 0.5


def test_steps_belong_to_their_own_start_of_the_job_030() -> None:
    jobs = [
        {"job_number": 7, "state": "REQUEUED", "memory": 8 * GIB},
        {"job_number": 7, "start_time": NOON + timedelta(hours=2), "memory": 8 * GIB},
    ]
    row = row_of(jobs, [{"job_number": 7, "max_rss": 4 * GIB}])
    assert (row["memory_efficiency"], row["memory_not_measured"]) == (0.5, 1)


def test_time_is_of_ended_jobs_that_had_a_limit_009() -> None:
    jobs: list[dict[str, object]] = [
        {"time_limit": 4.0 * HOUR}, {"time_limit": float("inf")}, {"time_limit": None}, {"end_time": None},
        {"state": "CANCELLED", **NOT_STARTED},
    ]  # fmt: skip
    assert row_of(jobs)["time_efficiency"] == 0.25
    assert row_of(jobs[1:])["time_efficiency"] is None


def test_gpus_are_told_of_only_where_the_site_stores_how_busy_they_were() -> None:
    row = row_of([{"gpus": 4}, {"gpus": 1}], [{"gpu_utilisation": 100.0}])
    assert (row["gpu_seconds"], row["gpu_used_seconds"], row["gpu_efficiency"]) == (5 * HOUR, HOUR, 0.25)
    assert row_of([{"gpus": 4}], [{}])["gpu_efficiency"] is None


def test_steps_one_after_the_other_share_the_time_of_the_gpus() -> None:
    steps = [{"step": str(n), "elapsed": HOUR // 4, "gpu_utilisation": 400.0} for n in range(2)]
    assert row_of([{"gpus": 4}], steps)["gpu_efficiency"] == 0.5


def test_each_type_of_gpu_has_its_own_hours_and_cpus_count_once() -> None:
    frame = asked([{"gpus": 4, "gpu_type": "a100=1,h100=3", "total_cpu": 4.0 * HOUR}],
                  [{"gpu_utilisation": 200.0}], "gpu_type")  # fmt: skip
    assert sorted(zip(frame["gpu_type"], frame["gpu_used_seconds"], strict=True)) == [
        ("a100", HOUR / 2), ("h100", 3 * HOUR / 2)
    ]  # fmt: skip
    assert frame["cpu_used_seconds"].sum() == 4 * HOUR
    assert frame["jobs"].sum() == 1


def test_a_job_counts_with_the_part_in_the_window() -> None:
    row = row_of(
        [{"cpus": 2, "total_cpu": 1.0 * HOUR}],
        since=NOON - timedelta(hours=1),
        until=NOON + timedelta(minutes=30),
    )
    assert (row["cpu_seconds"], row["cpu_used_seconds"], row["cpu_efficiency"]) == (HOUR, HOUR / 2, 0.5)


def worst(
    jobs: Iterable[Mapping[str, object]], steps: Iterable[Mapping[str, object]], **how: Any
) -> DataFrame:
    with closing(ledger_of(jobs, steps)) as ledger:
        return build_worst(ledger, question(zone=UTC, **how))


def test_the_worst_jobs_left_most_gpu_hours_unused_then_cpu_hours() -> None:
    jobs: list[dict[str, object]] = [
        {"cpus": 64, "total_cpu": 1.0 * HOUR}, {"cpus": 8, "total_cpu": 8.0 * HOUR},
        {"cpus": 1, "gpus": 8, "total_cpu": 1.0 * HOUR}, {"cpus": 999},
    ]  # fmt: skip
    steps = [{"job_number": 3, "gpu_utilisation": 80.0}]
    frame = worst(jobs, steps)
    assert list(frame["job_id"]) == ["3", "1"]
    assert frame["gpu_wasted_seconds"][0] == pytest.approx(8 * HOUR * 0.9, abs=1)
    assert frame["cpu_wasted_seconds"][1] == 63 * HOUR
    assert list(worst(jobs, steps, limit=1)["job_id"]) == ["3"]


HABIT = Habit(
    memory=256.0 * GIB, used_memory=11.0 * GIB, cpus=32.0, used_cpus=30.0, time_limit=7200.0, elapsed=6000.0
)


def test_memory_that_is_never_used_is_told_with_what_would_do() -> None:
    (one,) = advise(HABIT)
    assert one.sentence == "asks 256G a node, never used more than 11G: --mem=14G would do"


@pytest.mark.parametrize(
    ("change", "resources"),
    [
        ({}, ["memory"]),
        ({"used_memory": None}, []),
        ({"used_memory": 160.0 * GIB}, []),
        ({"used_memory": 1024.0}, ["memory"]),
        ({"memory": GIB, "used_memory": 1024.0}, []),
        ({"used_cpus": 3.0}, ["memory", "CPUs"]),
        ({"used_cpus": None}, ["memory"]),
        ({"cpus": 1.0, "used_cpus": 0.1}, ["memory"]),
        ({"elapsed": 600.0}, ["memory", "time"]),
        ({"time_limit": float("inf")}, ["memory"]),
        ({"time_limit": None}, ["memory"]),
    ],
)
def test_less_is_advised_where_it_is_worth_while(change: dict[str, Any], resources: list[str]) -> None:
    assert [one.resource for one in advise(HABIT._replace(**change))] == resources


@pytest.mark.parametrize(
    ("elapsed", "words"),
    [
        (600, "never ran longer than 00:10:00: --time=00:15:00"),
        (90_000, "than 1-01:00:00: --time=1-07:15:00"),
    ],
)
def test_a_time_that_would_do_is_one_that_sbatch_takes(elapsed: float, words: str) -> None:
    habit = HABIT._replace(used_memory=None, elapsed=elapsed, time_limit=604_800.0)
    (one,) = advise(habit)
    assert words in one.sentence


def advice(jobs: Iterable[Mapping[str, object]], steps: Iterable[Mapping[str, object]]) -> DataFrame:
    with closing(ledger_of(jobs, steps)) as ledger:
        return build_advice(ledger, question(zone=UTC))


def habit(count: int, **more: object) -> list[dict[str, object]]:
    return [{"memory": 64 * GIB, "time_limit": 4000.0, "job_number": n, **more} for n in range(count)]


def test_advice_rests_on_five_finished_jobs_of_one_name_and_the_largest_of_them() -> None:
    steps = [{"job_number": n, "max_rss": (n + 1) * GIB} for n in range(5)]
    frame = advice(habit(5), steps)
    assert list(frame["advice"]) == ["asks 64G a node, never used more than 5G: --mem=7G would do"]
    assert list(frame["memory_mib_seconds"]) == [5 * (64 - 7) * 1024 * HOUR]
    assert advice(habit(4), steps[:4]).empty


def test_jobs_that_failed_or_were_not_measured_say_nothing_of_sizes() -> None:
    steps = [{"job_number": n, "max_rss": GIB} for n in range(5)]
    assert advice(habit(5, state="OUT_OF_MEMORY"), steps).empty
    assert advice(habit(5), steps[:4]).empty


def test_memory_is_advised_for_one_node() -> None:
    steps = [{"job_number": n, "memory_used": 16 * GIB} for n in range(5)]
    (sentence,) = advice(habit(5, nodes=4), steps)["advice"]
    assert sentence == "asks 16G a node, never used more than 4G: --mem=5G would do"


def test_what_is_not_known_stands_out() -> None:
    with closing(ledger_of([{"gpus": 1, "total_cpu": 1800.0}, {}])) as ledger:
        frames = {table.name: table.build(ledger, question(zone=UTC)) for table in REPORT.tables}
    assert list(REPORT.stands_out(frames)) == [
        "How busy GPUs were is not known: the site does not store gres/gpuutil.",
        "1 of 2 jobs have no CPU time in accounting: not in the CPU figures.",
        "Job 1 of anna left 7.5 CPU-hours unused.",
    ]
    assert REPORT.stands_out({"advice": frames["advice"]}) == []
