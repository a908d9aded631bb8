"""Slurm's times and durations. Every call asks for epoch seconds, so no time zone is ever guessed."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

UNLIMITED = timedelta.max

_OPEN = frozenset({"", "unknown", "none", "n/a", "(null)", "not_set", "invalid", "partition_limit"})
_SENTINELS = frozenset({0, 2**32 - 1, 2**32 - 2, 2**64 - 1, 2**64 - 2})
_DURATION = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)(\.\d+)?", re.ASCII)


def parse_epoch(text: str) -> datetime | None:
    """Epoch seconds as an aware datetime; None where Slurm left it open (`Unknown`, `None`, empty, 0).

    Raises:
        ValueError: names the text, e.g. a local time without its zone.
    """
    text = text.strip()
    if text.lower() in _OPEN:
        return None
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"not a time in epoch seconds: {text!r}")
    seconds = int(text)
    return None if seconds in _SENTINELS else datetime.fromtimestamp(seconds, UTC)


def parse_duration(text: str) -> timedelta | None:
    """`1-02:03:04`, `12:25:02`, `45:10.500`; UNLIMITED is `timedelta.max`, what was left open is None.

    Raises:
        ValueError: names the text.
    """
    text = text.strip()
    if text.lower() in _OPEN:
        return None
    if text.upper() in {"UNLIMITED", "INFINITE"}:
        return UNLIMITED
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError(f"not a duration: {text!r}")
    days, hours, minutes, seconds, fraction = found.groups()
    return timedelta(
        days=int(days or 0),
        hours=int(hours or 0),
        minutes=int(minutes),
        seconds=int(seconds) + float(fraction or 0),
    )


def parse_minutes(text: str) -> timedelta | None:
    """A raw column of minutes, such as TimelimitRaw, which holds words too.

    Raises:
        ValueError: names the text.
    """
    text = text.strip()
    if text.isascii() and text.isdigit():
        return timedelta(minutes=int(text))
    return parse_duration(text)


def parse_seconds(text: str) -> timedelta | None:
    """A raw column of seconds, such as ElapsedRaw; empty is None."""
    text = text.strip()
    return timedelta(seconds=int(text)) if text.isascii() and text.isdigit() else None
