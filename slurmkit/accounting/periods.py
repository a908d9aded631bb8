"""Days, weeks and months of a time zone, and the words in which people say them."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, time, timedelta, tzinfo
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from slurmkit.errors import UsageError

GROUPED_BY_TIME = ("day", "week", "month")

_AGO = re.compile(r"(\d+)\s*(min|h|d|w)", re.ASCII)
_UNITS = {"min": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_NAMED = re.compile(r"(this|last) (day|week|month|year)")
_MONTH = re.compile(r"\d{4}-\d{2}", re.ASCII)


class Period(NamedTuple):
    """A piece of time, its end outside. `name` sorts as time does: 2026-11, 2026-W48, 2026-11-30."""

    name: str
    since: datetime
    until: datetime


def local_zone() -> tzinfo:
    """The zone of this machine, or of TZ, with its changes of the clock; UTC where it has no name."""
    name = os.environ.get("TZ", "").lstrip(":")
    if not name:
        target = Path("/etc/localtime")
        parts = target.resolve().parts if target.is_symlink() else ()
        name = "/".join(parts[parts.index("zoneinfo") + 1 :]) if "zoneinfo" in parts else "UTC"
    return zone_named(name, default=UTC)


def zone_named(name: str, *, default: tzinfo | None = None) -> tzinfo:
    """The zone of that name, such as Europe/Helsinki.

    Raises:
        UsageError: there is none, and no default.
    """
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        if default is not None:
            return default
        raise UsageError(f"no time zone is called {name!r}", hint="a name such as Europe/Helsinki") from error


def window(
    since: str | None, until: str | None, *, now: datetime, zone: tzinfo
) -> tuple[datetime | None, datetime | None]:
    """The ends of a window that a person has asked for; a date is its midnight, as for sacct and sreport.

    `last month` and its like name a whole period: without `until` it ends the window.

    Raises:
        UsageError: says what was not understood.
    """
    begin = _moment(since, now=now, zone=zone) if since else None
    end = _moment(until, now=now, zone=zone) if until else None
    closing = end.since if end else begin.until if begin and begin.name == "whole" else None
    return (begin.since if begin else None, closing)


def periods(kind: str, since: datetime, until: datetime, zone: tzinfo) -> list[Period]:
    """The days, weeks (from Monday) or months that a window touches, in order."""
    found = []
    begin = _floor(kind, since.astimezone(zone))
    while begin < until:
        end = _next(kind, begin)
        found.append(Period(_name(kind, begin), begin.astimezone(UTC), end.astimezone(UTC)))
        begin = end
    return found


def _moment(text: str, *, now: datetime, zone: tzinfo) -> Period:
    """A point in time, as a period that begins there; `whole` where its end was meant too."""
    said = " ".join(text.lower().split())
    said = {"today": "this day", "yesterday": "last day", "now": "0min"}.get(said, said)
    here = now.astimezone(zone)
    if found := _AGO.fullmatch(said):
        ago = now - timedelta(**{_UNITS[found[2]]: int(found[1])})
        return Period("point", ago.astimezone(UTC), now)
    if found := _NAMED.fullmatch(said):
        begin = _floor(found[2], here)
        if found[1] == "this":
            return Period("point", begin.astimezone(UTC), now)
        before = _floor(found[2], begin - timedelta(hours=12))
        return Period("whole", before.astimezone(UTC), begin.astimezone(UTC))
    try:
        given = datetime.fromisoformat(f"{said}-01" if _MONTH.fullmatch(said) else said.upper())
    except ValueError:
        raise UsageError(
            f"not a time: {text!r}",
            hint="2026-11-30, 2026-11-30T12:00, 2026-11, 7d, 12h, today, yesterday, last month",
        ) from None
    aware = given if given.tzinfo else given.replace(tzinfo=zone)
    return Period("point", aware.astimezone(UTC), now)


def _floor(kind: str, moment: datetime) -> datetime:
    """The midnight at which the period of a moment begins, in the moment's own zone."""
    day = datetime.combine(moment.date(), time(), moment.tzinfo)
    if kind == "week":
        return day - timedelta(days=day.weekday())
    if kind == "month":
        return day.replace(day=1)
    return day.replace(month=1, day=1) if kind == "year" else day


def _next(kind: str, begin: datetime) -> datetime:
    days = {"day": 1, "week": 7, "month": 31, "year": 366}[kind]
    # Arithmetic on the wall clock of one zone: the day on which the clock changes is a day.
    return _floor(kind, begin + timedelta(days=days))


def _name(kind: str, begin: datetime) -> str:
    if kind == "week":
        year, week, _ = begin.isocalendar()
        return f"{year}-W{week:02}"
    return f"{begin:%Y-%m}" if kind == "month" else f"{begin:%Y-%m-%d}"
