"""Waits: from when a job could have started, of those that did; what still waits is said apart."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pandas import DataFrame

from slurmkit.accounting.question import question
from slurmkit.accounting.report import columns_of
from slurmkit.accounting.reports.waits import REPORT
from slurmkit.accounting.sizes import SIZES
from tests.unit.accounting.records import NOON, NOT_STARTED, ledger_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


Job = dict[str, Any]
DAY = {"since": datetime(2026, 11, 2, tzinfo=UTC), "until": datetime(2026, 11, 3, tzinfo=UTC)}
PENDING: Job = {"state": "PENDING", **NOT_STARTED}


def frames(
    jobs: Sequence[Mapping[str, object]], *by: str, as_of: datetime = NOON, **how: Any
) -> dict[str, DataFrame]:
    asked = question(by=by, **({"zone": UTC} | DAY | how))
    with closing(ledger_of(jobs, as_of=as_of)) as ledger:
        built = {table.name: table.build(ledger, asked) for table in REPORT.tables}
    for table in REPORT.tables:
        assert list(built[table.name]) == [column.name for column in columns_of(table, asked)]
    return built


def whole(
    jobs: Sequence[Mapping[str, object]], *, as_of: datetime = NOON, forget: bool = False, **how: Any
) -> Any:
    """The one row of all jobs; `forget` what the records say of being eligible."""
    with closing(ledger_of(jobs, as_of=as_of)) as ledger:
        if forget:
            ledger.connection.execute("UPDATE jobs SET eligible_time = NULL")
        frame = REPORT.tables[0].build(ledger, question(**({"zone": UTC} | DAY | how)))
    (row,) = frame.to_dict("records")
    return row


def waited(seconds: int, **fields: object) -> Job:
    return {"submit_time": NOON - timedelta(seconds=seconds), **fields}


def test_a_job_waits_from_when_it_was_eligible_and_what_blocked_it_before_stands_apart() -> None:
    job = {"submit_time": "2026-11-02T09:00", "eligible_time": "2026-11-02T11:30"}
    row = whole([job])
    assert (row["wait_p50"], row["blocked_p90"], row["blocked_seconds"]) == (1800, 9000, 9000)
    assert (row["jobs"], row["from_submit"]) == (1, 0)


def test_trap_030_a_requeued_job_waits_anew_from_its_requeue() -> None:
    first = {"job_number": 83, "submit_time": "2026-11-02T10:00", "start_time": "2026-11-02T10:01"}
    again = {
        "job_number": 83,
        "submit_time": "2026-11-02T11:50",
        "eligible_time": "2026-11-02T10:00",
        "start_time": "2026-11-02T12:00",
    }
    row = whole([first | {"state": "REQUEUED"}, again])
    assert (row["jobs"], row["wait_p50"], row["wait_p99"], row["blocked_seconds"]) == (2, 60, 600, 0)


def test_jobs_that_still_wait_are_counted_and_are_in_no_quantile() -> None:
    row = whole([waited(60), PENDING | waited(7200)])
    assert (row["jobs"], row["wait_p99"], row["still_waiting"], row["still_p50"]) == (1, 60, 1, 7200)


def test_a_job_that_started_after_the_window_still_waited_at_its_end() -> None:
    later = {"submit_time": "2026-11-02T23:00", "start_time": "2026-11-03T01:00"}
    row = whole([later], as_of=datetime(2026, 11, 4, tzinfo=UTC))
    assert (row["jobs"], row["still_waiting"], row["still_p50"]) == (0, 1, 3600)


def test_nobody_is_known_to_wait_longer_than_the_records_go() -> None:
    row = whole([PENDING | waited(600)], as_of=NOON)
    assert row["still_p50"] == 600


def test_what_is_blocked_does_not_wait() -> None:
    later = whole([PENDING | waited(600, eligible_time="2026-11-09T00:00")])
    never = whole([PENDING | waited(600)], forget=True)
    assert [(row["still_waiting"], row["still_blocked"]) for row in (later, never)] == [(0, 1)] * 2


def test_trap_025_tasks_that_wait_together_are_counted_one_by_one() -> None:
    assert whole([PENDING | waited(600, array_tasks=96)])["still_waiting"] == 96


def test_trap_010_a_job_that_was_cancelled_in_the_queue_gave_up_and_did_not_start() -> None:
    gone = {"state": "CANCELLED", **NOT_STARTED, "end_time": "2026-11-02T11:55"} | waited(600)
    row = whole([gone])
    assert (row["jobs"], row["gave_up"], row["still_waiting"]) == (0, 1, 0)
    assert row["wait_p50"] is None or row["wait_p50"] != row["wait_p50"]


def test_where_records_have_no_eligible_time_a_wait_counts_from_submit_and_that_is_said() -> None:
    row = whole([waited(600)], forget=True)
    assert (row["wait_p50"], row["from_submit"]) == (600, 1)
    assert "no eligible time" in " ".join(REPORT.stands_out({"waits": DataFrame([row])}))


def test_only_starts_in_the_window_count_and_each_in_one_of_two_windows() -> None:
    jobs = [{"start_time": "2026-11-01T23:59:59"}, {"start_time": "2026-11-02"}, {"start_time": "2026-11-03"}]
    assert whole(jobs)["jobs"] == 1
    assert frames(jobs, "day", since=None, until=datetime(2026, 11, 4, tzinfo=UTC))["waits"][
        "jobs"
    ].tolist() == [1, 1, 1]


@given(waits=st.lists(st.integers(0, 40_000), min_size=1, max_size=40), data=st.data())
@settings(max_examples=10)
def test_quantiles_are_waits_by_rank_whatever_the_order_of_records(waits: list[int], data: Any) -> None:
    row = whole([waited(wait) for wait in data.draw(st.permutations(waits))])
    ranked = sorted(waits)
    assert [row[f"wait_p{part}"] for part in (50, 90, 99)] == [
        ranked[ceil(len(ranked) * part / 100) - 1] for part in (50, 90, 99)
    ]


@pytest.mark.parametrize("by", [("user",), ("partition", "day"), ("gpu_type",), ("day", "month"), ("state",)])
def test_groups_add_up_to_the_whole(by: tuple[str, ...]) -> None:
    jobs = [
        waited(60, user="a"),
        waited(120, user="b", partition="big", gpus=3, gpu_type="a100=2,h100=1"),
        waited(180, user=None, start_time="2026-11-01T12:00", submit_time="2026-11-01T09:00"),
        PENDING | waited(600, user="a"),
        {
            "state": "CANCELLED",
            **NOT_STARTED,
            "end_time": "2026-11-01T14:00",
            "submit_time": "2026-11-01T13:00",
        },
    ]
    span: dict[str, Any] = {"since": datetime(2026, 11, 1, tzinfo=UTC)}
    total = whole(jobs, **span)
    grouped = frames(jobs, *by, **span)["waits"]
    for name in ("jobs", "blocked_seconds", "still_waiting", "still_blocked", "gave_up", "from_submit"):
        assert grouped[name].sum() == total[name]
    assert not grouped[list(by)].isna().all().any()


@pytest.mark.parametrize(
    ("job", "size"),
    [
        ({"gpus": 1}, "1 GPU"),
        ({"gpus": 7}, "2-7 GPUs"),
        ({"gpus": 8}, "8 GPUs"),
        ({"gpus": 16, "nodes": 2}, "9-63 GPUs"),
        ({"gpus": 511, "nodes": 64}, "64-511 GPUs"),
        ({"gpus": 4096, "nodes": 512}, "512+ GPUs"),
        ({"nodes": 1}, "1 node"),
        ({"nodes": 8}, "8-63 nodes"),
        (PENDING | {"requested_gpus": 16, "requested_nodes": 2}, "9-63 GPUs"),
        (PENDING | {"requested_nodes": 3}, "2-7 nodes"),
    ],
)
def test_a_size_is_that_of_gpus_or_of_nodes_without_any(job: Job, size: str) -> None:
    assert size in SIZES
    assert frames([waited(60) | job])["sizes"]["size"].tolist() == [size]


def test_sizes_stand_in_their_order() -> None:
    jobs = [waited(60, gpus=gpus, nodes=nodes) for gpus, nodes in ((600, 80), (0, 3), (1, 1), (16, 2))]
    assert frames(jobs)["sizes"]["size"].tolist() == ["1 GPU", "9-63 GPUs", "512+ GPUs", "2-7 nodes"]


def test_hours_of_the_week_are_those_of_the_wall_clock_on_both_sides_of_a_change_of_clocks() -> None:
    zone = ZoneInfo("Europe/Berlin")
    jobs = [  # 25 October 2026: 3:00 becomes 2:00, at 1:00 UTC
        {"submit_time": "2026-10-24T22:30", "start_time": "2026-10-24T23:00"},
        {"submit_time": "2026-10-25T23:30", "start_time": "2026-10-25T23:40"},
    ]
    hours = frames(jobs, since=datetime(2026, 10, 20, tzinfo=UTC), zone=zone)["hours"]
    assert hours[["weekday", "hour", "jobs", "wait_p50"]].values.tolist() == [
        ["Mon", 0, 1, 600],
        ["Sun", 0, 1, 1800],
    ]


def test_a_zone_without_a_name_is_a_shift() -> None:
    from datetime import timezone

    zone = timezone(timedelta(hours=-3))
    assert frames([waited(60)], zone=zone)["hours"]["hour"].tolist() == [8]


def test_the_estimate_is_by_size_and_partition_and_says_of_how_many_jobs() -> None:
    jobs = [waited(wait, gpus=8, partition="big") for wait in (60, 120, 180)]
    jobs += [waited(5, gpus=8), PENDING | waited(900, requested_gpus=64, partition="big")]
    estimate = frames(jobs)["estimate"]
    rows = {(row["size"], row["partition"]): row for row in estimate.to_dict("records")}
    eight = rows["8 GPUs", "big"]
    assert (eight["jobs"], eight["wait_p50"], eight["wait_p90"]) == (3, 120, 180)
    assert rows["64-511 GPUs", "big"]["still_waiting"] == 1
    assert len(rows) == 3


def test_what_stands_out_are_long_waits_and_those_that_have_not_ended() -> None:
    jobs = [waited(7200, gpus=16, nodes=2) for _ in range(6)] + [waited(60) for _ in range(6)]
    said = " ".join(REPORT.stands_out(frames([*jobs, PENDING | waited(60)])))
    assert "1 job was still waiting" in said
    assert "9-63 GPUs waited longest" in said


def test_without_records_there_is_one_empty_row_and_a_sentence() -> None:
    assert whole([])["jobs"] == 0
    assert REPORT.stands_out(frames([])) == ["No job started in this time."]
