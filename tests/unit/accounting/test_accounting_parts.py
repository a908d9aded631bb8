"""However jobs are cut, the parts add up to the whole."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmkit.accounting.parts import parts, window_of
from slurmkit.accounting.question import Question, question
from tests.unit.accounting.records import ledger_of

if TYPE_CHECKING:
    from collections.abc import Mapping

HELSINKI = ZoneInfo("Europe/Helsinki")
START = datetime(2024, 1, 1, tzinfo=UTC)


def cut(jobs: list[Mapping[str, Any]], asked: Question, select: str) -> list[tuple[Any, ...]]:
    with closing(ledger_of(jobs)) as ledger:
        sql, values = parts(ledger, asked)
        return ledger.connection.execute(f"SELECT {select} FROM ({sql})", values).fetchall()


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def asked(**fields: Any) -> Question:
    return question(**({"zone": UTC} | fields))


ACROSS = {"start_time": "2024-01-31T12:00", "end_time": "2024-02-02T12:00", "gpus": 8}


def test_trap_036_a_job_that_crosses_the_end_of_a_month_counts_in_each_with_the_part_inside() -> None:
    february = asked(since=at("2024-02-01"), until=at("2024-03-01"))
    january = asked(since=at("2024-01-01"), until=at("2024-02-01"))
    assert cut([ACROSS], february, "seconds * gpus") == [(288 * 3600,)]
    assert cut([ACROSS], january, "seconds * gpus") == [(96 * 3600,)]
    assert sorted(cut([ACROSS], asked(by=["month"]), "month, seconds * gpus, counts")) == [
        ("2024-01", 96 * 3600, 1),
        ("2024-02", 288 * 3600, 0),
    ]


def test_trap_038_a_suspended_job_is_worth_its_elapsed_time_spread_over_its_wall_time() -> None:
    job = {
        "start_time": "2024-01-01T10:00:00",
        "end_time": "2024-01-01T10:00:20",
        "elapsed": 14,
        "suspended": 6,
    }
    halves = [
        asked(since=at("2024-01-01"), until=at("2024-01-01T10:00:10")),
        asked(since=at("2024-01-01T10:00:10"), until=at("2024-01-02")),
    ]
    assert [cut([job], half, "seconds") for half in halves] == [[(7,)], [(7,)]]


def test_a_running_job_counts_until_its_record_was_made() -> None:
    job = {"start_time": "2024-01-01T10:00", "end_time": None, "elapsed": 1800}
    assert cut([job], asked(since=at("2024-01-01"), until=at("2024-02-01")), "seconds") == [(1800,)]


def test_a_job_of_no_length_is_counted_once_where_it_began() -> None:
    job = {"start_time": "2024-01-02", "end_time": "2024-01-02"}
    days = cut(
        [job], asked(since=at("2024-01-01"), until=at("2024-01-04"), by=["day"]), "day, seconds, counts"
    )
    assert days == [("2024-01-02", 0, 1)]


def test_jobs_that_never_started_and_runaways_have_no_part() -> None:
    waiting = {"start_time": None, "elapsed": 0, "state": "CANCELLED", "submit_time": "2024-01-01"}
    runaway = {"start_time": "2024-01-01", "end_time": None, "elapsed": 10**7, "is_runaway": True}
    assert cut([waiting, runaway], asked(), "seconds") == []


def test_gpus_of_two_types_count_under_each_and_all_else_once() -> None:
    job = {"gpus": 3, "gpu_type": "a100=2,h100=1", "cpus": 16}
    assert sorted(cut([job], asked(by=["gpu_type"]), "gpu_type, gpus, cpus, counts")) == [
        ("a100", 2, 16, 1),
        ("h100", 1, 0, 0),
    ]


def test_the_types_of_gpus_may_be_cut_by_day_too() -> None:
    job = ACROSS | {"gpu_type": "a100=5,h100=3"}
    found = cut([job], asked(by=["gpu_type", "day"]), "gpu_type, day, seconds * gpus, counts")
    assert sum(row[2] for row in found) == 48 * 3600 * 8
    assert sum(row[3] for row in found) == 1
    assert {row[1] for row in found} == {"2024-01-31", "2024-02-01", "2024-02-02"}


def test_days_are_those_of_the_zone_and_the_day_of_the_change_has_25_hours() -> None:
    job = {"start_time": "2024-10-20", "end_time": "2024-11-01"}
    window = {
        "since": datetime(2024, 10, 26, tzinfo=HELSINKI),
        "until": datetime(2024, 10, 29, tzinfo=HELSINKI),
    }
    days = cut([job], asked(by=["day"], zone=HELSINKI, **window), "day, seconds")
    assert sorted(days) == [("2024-10-26", 86400), ("2024-10-27", 25 * 3600), ("2024-10-28", 86400)]


def test_two_kinds_of_time_name_the_period_that_holds_the_other() -> None:
    found = cut([ACROSS], asked(by=["month", "day"]), "month, day, seconds // 3600")
    assert sorted(found) == [
        ("2024-01", "2024-01-31", 12),
        ("2024-02", "2024-02-01", 24),
        ("2024-02", "2024-02-02", 12),
    ]


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("users", ["anna"], {"1"}),
        ("users", ["anna,bert"], {"1", "2"}),
        ("accounts", ["art"], {"2"}),
        ("partitions", ["big"], {"1"}),
        ("qos", ["low"], {"2"}),
        ("states", ["failed"], {"2"}),
        ("clusters", ["other"], {"1"}),
        ("names", ["tr*n"], {"1"}),
        ("names", ["eval", "tr?in"], {"1", "2"}),
        ("jobs", ["2"], {"2"}),
        ("jobs", ["70"], {"1"}),
        ("users", ["o'brien"], set()),
    ],
)
def test_jobs_are_chosen_by_what_is_asked(field: str, value: list[str], expected: set[str]) -> None:
    jobs: list[Mapping[str, Any]] = [
        {"user": "anna", "partition": "big", "cluster": "other", "name": "train", "array_job": 70},
        {"user": "bert", "account": "art", "qos": "low", "state": "FAILED", "name": "eval"},
    ]
    assert {row[0] for row in cut(jobs, asked(**{field: value}), "job_id")} == expected


def test_an_open_window_reaches_from_the_first_record_to_the_last() -> None:
    with closing(ledger_of([ACROSS, {"start_time": "2024-01-05", "elapsed": 60}])) as ledger:
        assert window_of(ledger, asked()) == (at("2024-01-05"), at("2024-02-02T12:00"))


jobs_of_any_kind = st.lists(
    st.builds(
        lambda start, wall, share, gpus, mixed: {
            "start_time": START + timedelta(seconds=start),
            "end_time": START + timedelta(seconds=start + wall),
            "elapsed": wall * share // 8,
            "suspended": wall - wall * share // 8,
            "gpus": gpus + 1,
            "gpu_type": f"a100=1,h100={gpus}" if mixed and gpus else "a100",
        },
        st.integers(0, 10 * 86400),
        st.integers(0, 4 * 86400),
        st.integers(1, 8),
        st.integers(0, 8),
        st.booleans(),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=40)
@given(
    jobs_of_any_kind,
    st.lists(st.integers(0, 15 * 86400), min_size=2, max_size=5, unique=True).map(sorted),
    st.sampled_from([["day"], ["week", "gpu_type"], ["month", "day"], ["gpu_type"]]),
)
def test_windows_and_groups_add_up_to_the_whole(
    jobs: list[Mapping[str, Any]], ends: list[int], by: list[str]
) -> None:
    worth = "coalesce(sum(seconds * gpus), 0)::BIGINT, coalesce(sum(counts), 0)::BIGINT"
    with closing(ledger_of(jobs)) as ledger:

        def total(begin: int, end: int, *groups: str) -> tuple[int, int]:
            span = {"since": START + timedelta(seconds=begin), "until": START + timedelta(seconds=end)}
            sql, values = parts(ledger, asked(by=groups, zone=HELSINKI, **span))
            return ledger.connection.execute(f"SELECT {worth} FROM ({sql})", values).fetchall()[0]

        whole, count = total(ends[0], ends[-1])
        assert sum(total(*pair)[0] for pair in pairwise(ends)) == whole
        assert total(ends[0], ends[-1], *by) == (whole, count)
