"""Usage: every second is counted once, in its group, and set against the period before."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from slurmkit.accounting.question import question
from slurmkit.accounting.reports.usage import REPORT, build
from tests.unit.accounting.records import GIB, NOON, NOT_STARTED, ledger_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pandas import DataFrame

SECONDS = ("gpu_seconds", "cpu_seconds", "node_seconds", "memory_mib_seconds", "billing_seconds")
HOUR = 3600


def usage(
    jobs: Iterable[Mapping[str, object]], *by: str, since: datetime | None = None, days: float = 1, **how: Any
) -> DataFrame:
    until = since + timedelta(days=days) if since else None
    asked = question(since=since, until=until, by=by, **({"zone": UTC} | how))
    with closing(ledger_of(jobs)) as ledger:
        return build(ledger, asked)


def column(frame: DataFrame, name: str, key: str) -> dict[Any, Any]:
    return dict(zip(frame[key], frame[name], strict=True))


def test_a_job_counts_what_it_was_given_for_as_long_as_it_ran() -> None:
    (row,) = usage(
        [{"gpus": 4, "cpus": 16, "nodes": 2, "memory": 3 * GIB, "billing": 20, "elapsed": HOUR}]
    ).to_dict("records")
    assert [row[name] for name in SECONDS] == [
        4 * HOUR, 16 * HOUR, 2 * HOUR, 3 * 1024 * HOUR, 20 * HOUR
    ]  # fmt: skip
    assert (row["jobs"], row["share"]) == (1, 1.0)


def test_seconds_are_whole_numbers_also_where_nothing_ran() -> None:
    for frame in (usage([{}], "account"), usage([{"state": "PENDING", **NOT_STARTED}])):
        assert {str(frame[name].dtype) for name in ("jobs", *SECONDS)} == {"int64"}


def test_a_job_that_spans_a_month_s_end_counts_in_both_with_its_part_036() -> None:
    job = {"start_time": "2024-01-31T12:00", "end_time": "2024-02-02T12:00", "gpus": 8}
    frame = usage([job], "month")
    assert column(frame, "gpu_seconds", "month") == {"2024-01": 96 * HOUR, "2024-02": 288 * HOUR}
    february = usage([job], since=datetime(2024, 2, 1, tzinfo=UTC), days=29)
    assert list(february["gpu_seconds"]) == [288 * HOUR]


def test_suspended_time_is_not_charged_038() -> None:
    frame = usage([{"elapsed": 14, "suspended": 6, "cpus": 1}])
    assert list(frame["cpu_seconds"]) == [14]


def test_each_start_of_a_requeued_job_counts_030() -> None:
    attempts = [
        {"job_number": 83, "state": "REQUEUED", "elapsed": 4, "cpus": 1},
        {"job_number": 83, "elapsed": 0, "start_time": NOON + timedelta(seconds=130), "cpus": 1},
    ]
    frame = usage([*attempts, {"start_time": NOON + timedelta(seconds=131), "elapsed": 1, "cpus": 0}])
    assert list(frame["cpu_seconds"]) == [4]
    assert list(frame["jobs"]) == [3]


def test_components_of_a_het_job_add_up_029() -> None:
    parts = [{"het_job": 159, "het_offset": offset, "gpus": 1 + offset} for offset in (0, 1)]
    assert list(usage(parts)["gpu_seconds"]) == [3 * HOUR]


def test_runaways_and_jobs_that_never_started_hold_nothing_048() -> None:
    frame = usage([{}, {"is_runaway": True, "state": "RUNNING"}, {"state": "PENDING", **NOT_STARTED}])
    assert (list(frame["jobs"]), list(frame["cpu_seconds"])) == ([1], [8 * HOUR])


def test_gpus_of_two_types_count_at_each_and_the_rest_of_the_job_once() -> None:
    frame = usage([{"gpus": 3, "gpu_type": "a100=2,h100=1"}, {"gpus": 0}], "gpu_type")
    assert column(frame, "gpu_seconds", "gpu_type") == {"a100": 2 * HOUR, "h100": HOUR, None: 0}
    assert column(frame, "cpu_seconds", "gpu_type") == {"a100": 8 * HOUR, "h100": 0, None: 8 * HOUR}
    assert frame["jobs"].sum() == 2


def test_a_group_that_is_not_known_is_none() -> None:
    assert list(usage([{"account": None}, {"account": "a", "cpus": 9}], "account")["account"]) == ["a", None]


def test_the_dearest_group_comes_first_by_gpus_then_by_cpus() -> None:
    jobs: list[dict[str, object]] = [
        {"user": "few", "cpus": 1}, {"user": "many", "cpus": 64}, {"user": "gpu", "gpus": 1, "cpus": 1}
    ]  # fmt: skip
    assert list(usage(jobs, "user")["user"]) == ["gpu", "many", "few"]
    assert list(usage(jobs[:2], "user")["user"]) == ["many", "few"]


def test_periods_come_in_their_order() -> None:
    jobs = [{"start_time": f"2026-11-0{day}T10:00", "gpus": day % 3} for day in (3, 1, 2)]
    assert list(usage(jobs, "day")["day"]) == ["2026-11-01", "2026-11-02", "2026-11-03"]


def test_the_share_is_of_gpu_hours_or_of_cpu_hours_where_there_are_none() -> None:
    jobs = [{"user": "a", "gpus": 3, "cpus": 1}, {"user": "b", "gpus": 1, "cpus": 1}]
    assert column(usage(jobs, "user"), "share", "user") == {"a": 0.75, "b": 0.25}
    assert column(usage([job | {"gpus": 0} for job in jobs], "user"), "share", "user") == {"a": 0.5, "b": 0.5}


def at(hours: float, **job: object) -> dict[str, object]:
    return {"start_time": NOON + timedelta(hours=hours), **job}


EARLY = at(-48, user="early")


def test_the_period_before_is_as_long_and_ends_where_the_window_begins() -> None:
    jobs = [EARLY, at(-0.5, user="a", gpus=2), at(-20, user="b", gpus=1), at(2, user="b", gpus=3)]
    frame = usage(jobs, "user", since=NOON)
    assert column(frame, "gpu_seconds", "user") == {"a": HOUR, "b": 3 * HOUR}
    assert column(frame, "previous", "user") == {"a": HOUR, "b": HOUR}
    assert column(frame, "change", "user") == {"a": 0.0, "b": 2.0}
    assert column(frame, "jobs", "user") == {"a": 1, "b": 1}


def test_who_used_nothing_any_more_is_still_told() -> None:
    frame = usage([EARLY, at(-5, user="gone", gpus=1), at(1, user="new", gpus=1)], "user", since=NOON)
    assert column(frame, "change", "user")["gone"] == -1.0
    assert column(frame, "jobs", "user") == {"gone": 0, "new": 1}
    assert frame["previous"].sum() == HOUR


def test_the_period_before_is_not_known_where_the_records_begin_later() -> None:
    frame = usage([at(-1, elapsed=7200), at(2)], since=NOON)
    assert frame["previous"].isna().all()
    assert frame["change"].isna().all()
    assert usage([at(-1), at(2)])["previous"].isna().all()


def test_a_change_from_nothing_is_not_a_number_that_is_told() -> None:
    frame = usage([EARLY, at(1)], since=NOON)
    assert list(frame["previous"]) == [0]
    assert frame["change"].isna().all()


def test_days_are_set_against_the_day_before_and_only_whole_ones_compared() -> None:
    jobs = [{"start_time": f"2026-11-0{day}T15:00", "gpus": day} for day in (1, 2, 4)]
    frame = usage(jobs, "day", since=datetime(2026, 11, 1, 12, tzinfo=UTC), days=3.5)
    assert frame["change"].isna().all()
    frame = usage(jobs, "day", since=datetime(2026, 11, 1, tzinfo=UTC), days=4)
    assert list(frame["previous"].fillna(-1)) == [-1, HOUR, 0]
    assert list(frame["change"].fillna(-9)) == [-9, 1.0, -9]


def test_a_user_s_day_is_set_against_the_same_user_s_day_before() -> None:
    jobs = [
        {"start_time": f"2026-11-0{day}T15:00", "gpus": gpus, "user": user}
        for day, user, gpus in ((1, "a", 1), (1, "b", 8), (2, "a", 2), (2, "c", 1))
    ]
    frame = usage(jobs, "user", "day")
    rows = zip(frame["day"], frame["user"], frame["previous"].fillna(-1), strict=True)
    assert list(rows) == [
        ("2026-11-01", "b", -1), ("2026-11-01", "a", -1), ("2026-11-02", "a", HOUR), ("2026-11-02", "c", 0)
    ]  # fmt: skip


def test_what_stands_out_is_who_used_most_and_whose_use_changed_most() -> None:
    jobs = [EARLY, at(-20, user="a", gpus=4), at(2, user="a", gpus=1), at(2, user="b", gpus=3)]
    frame = usage(jobs, "user", since=NOON)
    assert list(REPORT.stands_out({"usage": frame})) == [
        "2 jobs ran and held 4.0 GPU-hours.",
        "user b: 75.0% of the GPU-hours, more than any other.",
        "user a: fell by 75% against the period before, to 1.0 GPU-hours.",
    ]
    assert REPORT.stands_out({"usage": usage([{"state": "PENDING", **NOT_STARTED}])}) == [
        "No job ran in this time."
    ]


def _made(job: dict[str, Any]) -> dict[str, Any]:
    gpus, gpu_type = job.pop("held")
    return job | {"gpus": gpus, "gpu_type": gpu_type}


JOB = st.fixed_dictionaries(
    {
        "start_time": st.integers(-5 * 86400, 5 * 86400).map(lambda s: NOON + timedelta(seconds=s)),
        "elapsed": st.integers(0, 200_000),
        "suspended": st.sampled_from([0, 0, 1, 999]),
        "user": st.sampled_from(["a", "b", None]),
        "account": st.sampled_from(["x", "y"]),
        "cpus": st.integers(0, 300),
        "memory": st.integers(0, 2**42),
        "held": st.sampled_from([(0, None), (3, "a100"), (3, "a100=2,h100=1"), (2, "")]),
    }
).map(_made)

GROUPS = (
    ("user",), ("user", "account"), ("day",), ("week", "user"), ("day", "month"), ("gpu_type", "day")
)  # fmt: skip


@settings(max_examples=20)
@given(jobs=st.lists(JOB, min_size=1, max_size=12), since=st.sampled_from([None, NOON]))
def test_groups_add_up_to_the_total_exactly(jobs: list[dict[str, object]], since: datetime | None) -> None:
    until = since + timedelta(days=2) if since else None
    with closing(ledger_of(jobs)) as ledger:
        total = build(ledger, question(since=since, until=until, zone=UTC))
        for by in GROUPS:
            frame = build(ledger, question(since=since, until=until, by=by, zone=ZoneInfo("Europe/Helsinki")))
            for name in ("jobs", *SECONDS):
                assert frame[name].sum() == total[name].sum(), (by, name)


@settings(max_examples=20)
@given(jobs=st.lists(JOB, min_size=1, max_size=12))
def test_a_window_and_the_period_before_add_up_to_both_at_once(jobs: list[dict[str, object]]) -> None:
    day, until = timedelta(days=1), NOON + timedelta(days=1)
    with closing(ledger_of([at(-1000), *jobs])) as ledger:
        now = build(ledger, question(since=NOON, until=until, by=["user"], zone=UTC))
        both = build(ledger, question(since=NOON - day, until=until, zone=UTC))
    measure = "gpu_seconds" if now["gpu_seconds"].sum() else "cpu_seconds"
    assert now[measure].sum() + now["previous"].sum() == both[measure].sum()
