"""Which windows are asked for: without a gap, without asking twice for more than can have changed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmkit.accounting.windows import (
    FAST,
    FIRST,
    LAG,
    LONGEST,
    SHORTEST,
    SLOW,
    Span,
    Window,
    after,
    asked_until,
    first_window,
    joined,
    pause,
    smaller,
    span,
)

NOW = datetime(2026, 12, 2, 16, 30, tzinfo=UTC)
DAY = timedelta(days=1)
moments = st.datetimes(datetime(2026, 10, 1), datetime(2026, 12, 2), timezones=st.just(UTC))


def walk(left: Span, seconds: float = 10) -> list[Window]:
    found = []
    while window := first_window(left):
        found.append(window)
        left = after(left, window, seconds)
    return found


def test_the_first_sync_takes_thirty_days_of_which_each_ends_at_midnight() -> None:
    windows = walk(span(None, None, now=NOW))
    assert windows[0] == (datetime(2026, 11, 2, tzinfo=UTC), datetime(2026, 11, 3, tzinfo=UTC))
    assert windows[-1] == (datetime(2026, 12, 2, tzinfo=UTC), NOW)
    assert len(windows) == FIRST.days + 1


def test_the_next_sync_begins_an_hour_before_the_end_of_the_last() -> None:
    assert span(NOW - 9 * DAY, NOW - DAY, now=NOW) == Span(NOW - DAY - LAG, NOW)
    assert span(NOW - timedelta(minutes=5), NOW, now=NOW).since == NOW - timedelta(minutes=5)


def test_a_clock_that_went_back_asks_again_and_not_backwards() -> None:
    left = span(NOW - 9 * DAY, NOW + DAY, now=NOW)
    assert left == Span(NOW - LAG, NOW)


@given(moments, moments, moments)
def test_since_never_leaves_a_gap(one: datetime, other: datetime, since: datetime) -> None:
    synced_since, synced_until = min(one, other), max(one, other)
    left = span(synced_since, synced_until, now=NOW, since=since)
    assert left.since <= max(since, synced_until)
    assert left.since <= synced_until
    assert left.until == NOW


@given(moments, st.floats(0, 100))
def test_windows_follow_each_other_up_to_now(since: datetime, seconds: float) -> None:
    windows = walk(Span(since, since + 5 * DAY), seconds)
    assert windows[0].since == since
    assert windows[-1].until == since + 5 * DAY
    for before, later in pairwise(windows):
        assert before.until == later.since
        assert timedelta(0) < later.until - later.since <= LONGEST


def test_slow_answers_make_windows_shorter_and_fast_ones_longer_again() -> None:
    left = Span(NOW - 9 * DAY, NOW)
    window = Window(NOW - 9 * DAY, NOW - 8 * DAY)
    slow = after(left, window, SLOW + 1)
    assert slow == Span(NOW - 8 * DAY, NOW, LONGEST / 2)
    assert after(slow, window, FAST + 1).length == LONGEST / 2
    assert after(slow, window, FAST - 1).length == LONGEST
    for _ in range(20):
        slow = after(slow, window, SLOW + 1)
    assert slow.length == SHORTEST


def test_a_window_that_failed_is_halved_until_it_is_short() -> None:
    left: Span | None = Span(NOW - DAY, NOW)
    lengths = []
    while left is not None and (window := first_window(left)):
        lengths.append(window.until - window.since)
        left = smaller(left, window)
    assert all(later <= earlier / 2 for earlier, later in pairwise(lengths))
    assert SHORTEST <= lengths[-1] < 2 * SHORTEST


def test_the_last_window_is_asked_for_as_long_again() -> None:
    left = Span(NOW - DAY, NOW)
    assert asked_until(left, Window(NOW - DAY, NOW - 3 * LAG)) == NOW - 3 * LAG
    assert asked_until(left, Window(NOW - 3 * LAG, NOW)) == NOW + 3 * LAG


def test_what_was_asked_for_grows_and_a_window_apart_from_it_begins_anew() -> None:
    known = (NOW - 3 * DAY, NOW - 2 * DAY)
    assert joined(*known, Window(NOW - 2 * DAY - LAG, NOW)) == (NOW - 3 * DAY, NOW)
    assert joined(*known, Window(NOW - 4 * DAY, NOW - 3 * DAY)) == (NOW - 4 * DAY, NOW - 2 * DAY)
    assert joined(*known, Window(NOW - 9 * DAY, NOW - 8 * DAY)) == (NOW - 9 * DAY, NOW - 8 * DAY)
    assert joined(None, None, Window(NOW - DAY, NOW)) == (NOW - DAY, NOW)


@pytest.mark.parametrize(("took", "rest"), [(0.0, 0.0), (3.5, 3.5), (300.0, 10.0), (-1.0, 0.0)])
def test_slurmdbd_rests_as_long_as_it_worked(took: float, rest: float) -> None:
    assert pause(took) == rest
