"""Times as people say them."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from slurmkit.accounting.periods import local_zone, periods, window, zone_named
from slurmkit.accounting.question import question
from slurmkit.errors import UsageError

NOW = datetime(2026, 12, 2, 15, 30, tzinfo=UTC)
HELSINKI = ZoneInfo("Europe/Helsinki")


def said(since: str | None, until: str | None = None, zone: ZoneInfo | None = None) -> tuple[str, str]:
    ends = window(since, until, now=NOW, zone=zone or UTC)
    begin, end = (f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M}" if moment else "open" for moment in ends)
    return begin, end


@pytest.mark.parametrize(
    ("since", "begin", "end"),
    [
        ("2026-11-30", "2026-11-30T00:00", "open"),
        ("2026-11-30T12:15", "2026-11-30T12:15", "open"),
        ("2026-11-30T12:15+02:00", "2026-11-30T10:15", "open"),
        ("2026-11", "2026-11-01T00:00", "open"),
        ("7d", "2026-11-25T15:30", "open"),
        ("12h", "2026-12-02T03:30", "open"),
        ("2w", "2026-11-18T15:30", "open"),
        ("30min", "2026-12-02T15:00", "open"),
        ("today", "2026-12-02T00:00", "open"),
        ("this week", "2026-11-30T00:00", "open"),
        ("this month", "2026-12-01T00:00", "open"),
        ("yesterday", "2026-12-01T00:00", "2026-12-02T00:00"),
        ("last week", "2026-11-23T00:00", "2026-11-30T00:00"),
        ("Last  Month", "2026-11-01T00:00", "2026-12-01T00:00"),
        ("last year", "2025-01-01T00:00", "2026-01-01T00:00"),
    ],
)
def test_a_window_begins_where_a_person_says(since: str, begin: str, end: str) -> None:
    assert said(since) == (begin, end)


def test_a_date_is_the_midnight_of_the_zone_and_until_ends_there() -> None:
    assert said("2026-11-01", "2026-12-01", HELSINKI) == ("2026-10-31T22:00", "2026-11-30T22:00")


def test_until_ends_a_whole_period_earlier_or_later() -> None:
    assert said("last month", "2026-11-15") == ("2026-11-01T00:00", "2026-11-15T00:00")


def test_last_month_is_the_whole_of_it_over_a_change_of_the_clock() -> None:
    ends = window("last month", None, now=datetime(2026, 11, 3, tzinfo=UTC), zone=HELSINKI)
    assert [f"{end:%Y-%m-%dT%H:%M}" for end in ends if end] == ["2026-09-30T21:00", "2026-10-31T22:00"]


@pytest.mark.parametrize("text", ["yester", "31-12-2026", "7 parsecs", "2026-13", """ "7d'; DROP """])
def test_what_is_no_time_is_said(text: str) -> None:
    with pytest.raises(UsageError, match="not a time"):
        said(text)


def test_weeks_begin_on_monday_and_are_named_by_their_number() -> None:
    found = periods("week", datetime(2026, 12, 30, tzinfo=UTC), datetime(2027, 1, 5, tzinfo=UTC), UTC)
    assert [one.name for one in found] == ["2026-W53", "2027-W01"]


def test_periods_follow_one_another_without_a_gap() -> None:
    since, until = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
    for kind in ("day", "week", "month"):
        found = periods(kind, since, until, HELSINKI)
        assert all(one.until == after.since for one, after in pairwise(found))
        assert found[0].since <= since
        assert found[-1].until >= until


def test_the_zone_is_that_of_tz(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    assert str(local_zone()) == "America/New_York"


def test_an_unknown_zone_is_said() -> None:
    with pytest.raises(UsageError, match="Mars/Olympus"):
        zone_named("Mars/Olympus")


def test_groups_are_known_by_the_words_that_people_type() -> None:
    assert question(by=["GPU type,day"]).by == ("gpu_type", "day")


@pytest.mark.parametrize(
    ("by", "message"),
    [
        (["user", "account", "day"], "at most two"),
        (["user", "user"], "twice"),
        (["usr"], "grouped by 'usr'\n  try: did you mean user?"),
        (["zzz"], "one of account"),
    ],
)
def test_groups_that_cannot_be_are_said(by: list[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        question(by=by)
    assert message in str(caught.value)


def test_a_window_that_ends_before_it_begins_is_said() -> None:
    with pytest.raises(UsageError, match="ends before it begins"):
        question(since=NOW, until=NOW)
