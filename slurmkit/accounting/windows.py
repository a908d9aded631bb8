"""Which windows of time to ask slurmdbd for, one after the other. Pure: times in, times out. All in UTC.

A window gives all records of jobs that were there in it, so a job that spans two comes twice, as it is now.
"""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import NamedTuple

LAG = timedelta(hours=1)
"""How far before the end of the last sync the next one begins.

slurmctld tells slurmdbd of a start or an end within seconds. What it cannot tell while slurmdbd is away it
keeps and tells later, with the times of then; but while slurmdbd is away no sync succeeds either. An hour
covers what slurmctld then takes to tell it all, and clocks that differ. Attempts that were seen open are
asked for by their ids however long ago that was. So only jobs that began and ended while slurmctld alone had
lost slurmdbd for more than an hour need a sync with `--since`.
"""

FIRST = timedelta(days=30)
"""How far back the first sync goes."""

LONGEST = timedelta(days=1)
SHORTEST = timedelta(minutes=10)
SLOW = 30.0
"""Seconds after which an answer was slow: the windows that follow are half as long."""
FAST = 5.0
"""Seconds within which an answer was so fast that those that follow are twice as long again."""
LONGEST_PAUSE = 10.0


class Window(NamedTuple):
    """A piece of time, its end outside."""

    since: datetime
    until: datetime


class Span(NamedTuple):
    """What is to be asked for, and how long a window may be by what has been seen of slurmdbd."""

    since: datetime
    until: datetime
    length: timedelta = LONGEST


def span(
    synced_since: datetime | None,
    synced_until: datetime | None,
    *,
    now: datetime,
    since: datetime | None = None,
) -> Span:
    """From where a sync has to ask: on from the last one, or from an earlier `since`; never with a gap.

    A `since` inside of what is there asks again for all that follows it, which is how to mend a store.
    """
    if synced_until is None:
        return Span(min(since or _midnight(now - FIRST), now), now)
    begin = max(min(synced_until, now) - LAG, synced_since or synced_until - LAG)
    return Span(min(since or begin, begin), now)


def first_window(span: Span) -> Window | None:
    """The next window to ask for; whole days end at midnight. None where all has been asked for."""
    if span.since >= span.until:
        return None
    end = span.since + span.length
    if span.length >= LONGEST:
        end = _midnight(span.since) + LONGEST
    return Window(span.since, min(end, span.until))


def asked_until(span: Span, window: Window) -> datetime:
    """The end to ask for: of the last window as long again, for sacct leaves out what is not eligible yet.

    So a job with a begin time that is cancelled before it has come would be in no window at all.
    """
    return window.until + (window.until - window.since) if window.until >= span.until else window.until


def after(span: Span, window: Window, seconds: float) -> Span:
    """What is left after a window that took so long to answer."""
    length = span.length
    if seconds > SLOW:
        length = max(length / 2, SHORTEST)
    elif seconds < FAST:
        length = min(length * 2, LONGEST)
    return Span(window.until, span.until, length)


def smaller(span: Span, window: Window) -> Span | None:
    """The same with shorter windows, after one that failed or took too long; None where they are short."""
    half = (window.until - window.since) / 2
    return span._replace(length=half) if half >= SHORTEST else None


def joined(since: datetime | None, until: datetime | None, window: Window) -> Window:
    """What has been asked for without a gap, once a window has been asked for too.

    A window long before the rest stands alone: what lies between follows, and then the rest again.
    """
    if since is None or until is None or window.until < since:
        return window
    return Window(min(since, window.since), max(until, window.until))


def pause(seconds: float) -> float:
    """How long slurmdbd is left alone after a question that took so many seconds."""
    return min(max(seconds, 0.0), LONGEST_PAUSE)


def _midnight(moment: datetime) -> datetime:
    return datetime.combine(moment.astimezone(UTC).date(), time(), UTC)
