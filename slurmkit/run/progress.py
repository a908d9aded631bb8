"""How far a run is: `progress.json`, which its agent replaces every few seconds, read without trust.

Keys that are missing or of another kind are None, those that nobody knows are passed over; a file that is
no progress at all counts as none.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from math import isfinite
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from slurmkit.run.paths import RunPaths
    from slurmkit.run.state import RunState

SILENT_AFTER = timedelta(minutes=1)
"""Age from which on the agent, which writes every 5 s, must have stopped writing."""

LARGEST = 1 << 20
"""Bytes of the longest file that is read: the agent bounds every list in it."""


class SlowRank(NamedTuple):
    """One of the slowest ranks. `own` and `sync` are seconds a step; `own` leaves out the waiting in sync."""

    rank: int
    host: str
    step: int | None = None
    own: float | None = None
    sync: float | None = None
    phase: str | None = None
    """Where it was when it was last heard."""
    heard: datetime | None = None


class Straggler(NamedTuple):
    """A rank, or with None a whole node, that is slower than the others: seconds a step in `phase`."""

    rank: int | None
    host: str
    phase: str | None = None
    own: float | None = None
    median: float | None = None
    since: datetime | None = None


class Saved(NamedTuple):
    """The last checkpoint that every rank has written."""

    at: datetime
    step: int | None = None


class Progress(NamedTuple):
    """How far one attempt is, as its agent last wrote it down. `step` is that of the slowest rank."""

    updated: datetime
    attempt: str | None = None
    step_start: int | None = None
    started: datetime | None = None
    world_size: int | None = None
    ranks_heard: int = 0
    step: int | None = None
    step_max: int | None = None
    first_step: int | None = None
    """The lowest that a rank has made first in this start: where it went on."""
    total: int | None = None
    steps_per_second: float | None = None
    seconds_left: float | None = None
    source: str | None = None
    phases: Mapping[str, float] = MappingProxyType({})
    """Mean seconds a step in each phase."""
    metrics: Mapping[str, float] = MappingProxyType({})
    history: tuple[tuple[datetime, float], ...] = ()
    """Steps a second, oldest first."""
    slowest: tuple[SlowRank, ...] = ()
    stragglers: tuple[Straggler, ...] = ()
    last_checkpoint: Saved | None = None
    hung: bool = False
    computing_since: datetime | None = None
    """When the first step of this start was made."""
    saving: float | None = None
    """Seconds for which saving has stopped the training since then."""

    @property
    def is_known(self) -> bool:
        """Whether any rank, or its log, has told of a step."""
        return self.step is not None

    def is_silent(self, now: datetime) -> bool:
        """Whether the agent has stopped writing. Only of a run that goes on does that mean anything."""
        return now - self.updated > SILENT_AFTER


def read(path: Path) -> Progress | None:
    """What a `progress.json` says; None where there is none, or none that can be read."""
    try:
        with path.open("rb") as file:
            fields = json.loads(file.read(LARGEST))
    except (OSError, ValueError, RecursionError):
        return None
    return parse(fields)


def read_current(paths: RunPaths, state: RunState, now: datetime) -> Progress | None:
    """How far a run is in its last attempt.

    Of one that has ended, or whose agent is silent, what was reached stands; what was expected does not.
    """
    progress = read(paths.progress(state.attempt)) if state.attempt else None
    if progress is None or (state.state == "running" and not progress.is_silent(now)):
        return progress
    return progress._replace(steps_per_second=None, seconds_left=None, stragglers=())


def parse(fields: object) -> Progress | None:
    """The record that a decoded `progress.json` makes."""
    if not isinstance(fields, dict) or (updated := _time(fields.get("updated"))) is None:
        return None
    return Progress(
        updated=updated,
        attempt=_text(fields.get("attempt")),
        step_start=_whole(fields.get("step_start")),
        started=_time(fields.get("started")),
        world_size=_whole(fields.get("world_size")),
        ranks_heard=_whole(fields.get("ranks_heard")) or 0,
        step=_whole(fields.get("step")),
        step_max=_whole(fields.get("step_max")),
        first_step=_whole(fields.get("first_step")),
        total=_whole(fields.get("total")),
        steps_per_second=_finite(fields.get("steps_per_second")),
        seconds_left=_finite(fields.get("seconds_left")),
        source=_text(fields.get("source")),
        phases=_numbers(fields.get("phases")),
        metrics=_numbers(fields.get("metrics")),
        history=tuple(_history(fields.get("history"))),
        slowest=tuple(_slowest(fields.get("slowest"))),
        stragglers=tuple(_stragglers(fields.get("stragglers"))),
        last_checkpoint=_saved(fields.get("last_checkpoint")),
        hung=fields.get("hung") is True,
        computing_since=_time(fields.get("computing_since")),
        saving=_finite(fields.get("saving")),
    )


def as_fields(progress: Progress) -> dict[str, Any]:
    """The record as nested mappings, for JSON: a metric that is no finite number becomes None."""
    return {
        **progress._asdict(),
        "phases": dict(progress.phases),
        "metrics": {name: value if isfinite(value) else None for name, value in progress.metrics.items()},
        "slowest": [one._asdict() for one in progress.slowest],
        "stragglers": [one._asdict() for one in progress.stragglers],
        "last_checkpoint": progress.last_checkpoint._asdict() if progress.last_checkpoint else None,
    }


def _number(value: object) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _finite(value: object) -> float | None:
    """A number that is neither infinite nor NaN nor beyond a float."""
    number = _number(value)
    try:
        return number if number is not None and isfinite(number) else None
    except OverflowError:
        return None


def _whole(value: object) -> int | None:
    number = _finite(value)
    return None if number is None else int(number)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _time(value: object) -> datetime | None:
    seconds = _finite(value)
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _numbers(value: object) -> dict[str, float]:
    if not isinstance(value, dict):
        return {}
    return {name: number for name, one in value.items() if (number := _number(one)) is not None}


def _mappings(value: object) -> Iterator[dict[str, Any]]:
    yield from (one for one in (value if isinstance(value, list) else ()) if isinstance(one, dict))


def _history(value: object) -> Iterator[tuple[datetime, float]]:
    for point in value if isinstance(value, list) else ():
        if not isinstance(point, list) or len(point) != 2:
            continue
        time, speed = _time(point[0]), _finite(point[1])
        if time is not None and speed is not None:
            yield time, speed


def _slowest(value: object) -> Iterator[SlowRank]:
    for one in _mappings(value):
        rank, host = _whole(one.get("rank")), _text(one.get("host"))
        if rank is not None and host is not None:
            yield SlowRank(
                rank,
                host,
                step=_whole(one.get("step")),
                own=_finite(one.get("own")),
                sync=_finite(one.get("sync")),
                phase=_text(one.get("in")),
                heard=_time(one.get("heard")),
            )


def _stragglers(value: object) -> Iterator[Straggler]:
    for one in _mappings(value):
        host = _text(one.get("host"))
        if host is not None:
            yield Straggler(
                _whole(one.get("rank")),
                host,
                phase=_text(one.get("phase")),
                own=_finite(one.get("own")),
                median=_finite(one.get("median")),
                since=_time(one.get("since")),
            )


def _saved(value: object) -> Saved | None:
    if not isinstance(value, dict) or (at := _time(value.get("at"))) is None:
        return None
    return Saved(at, _whole(value.get("step")))
