"""What is known of each rank of a step: where it is, and how its time was spent over the last hour.

Ranks tell cumulative counters, as of their last call of `step`. They are kept once per bucket of 10 seconds,
by this host's clock: any stretch of the last hour is one subtraction, and a lost datagram costs nothing.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from math import isfinite
from statistics import median_low
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

BUCKET = 10
"""Seconds."""
BUCKETS = 360
MINUTE = 60 // BUCKET
"""A minute, in buckets."""
MOST_RANKS = 1 << 16
MOST_NAMES = 16
"""Phases of a rank, metrics of a rank: what is beyond is dropped."""
LARGEST = 1 << 53

WAITING = "sync"
SAVING = "checkpoint"
NOT_OWN = frozenset({WAITING, SAVING})
"""Waiting for others is not a rank's own time; a checkpoint is often one rank's task for all."""
UNMARKED = "step"
"""The phase of a program that marks none of its own work: all of a step but the waiting."""


def bucket_of(now: float) -> int:
    """The number of the bucket that a time lies in."""
    return int(now // BUCKET)


def _column() -> array[float]:
    return array("d", bytes(8 * BUCKETS))


@dataclass(slots=True, kw_only=True)
class RankTally:
    """One rank. `heard` is this host's clock, `time` the rank's own."""

    rank: int
    host: str
    step: int | None = None
    """The number that the program gave its last step."""
    steps: int = 0
    """How many it has made."""
    elapsed: float = 0.0
    """Seconds from its first step to its last."""
    seconds: dict[str, float] = field(default_factory=dict)
    phase: str | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    checkpoints: int = 0
    heard: float = 0.0
    time: float = 0.0
    ended: bool = False
    since: float = 0.0
    """When it made its first step, by this host's clock."""
    first_step: int | None = None
    """The number of that step."""
    _first: int = -1
    """The bucket before the first counters."""
    _buckets: array[int] = field(default_factory=lambda: array("q", [-1]) * BUCKETS)
    _steps: array[float] = field(default_factory=_column)
    _numbers: array[float] = field(default_factory=_column)
    _elapsed: array[float] = field(default_factory=_column)
    _seconds: dict[str, array[float]] = field(default_factory=dict)

    def keep(self, now: float) -> None:
        """Put the counters down for the bucket of `now`; the first are where the count begins."""
        bucket = bucket_of(now)
        if self._first < 0:
            self._first = bucket - 1
            self.since = now - self.elapsed
            self.first_step = None if self.step is None else self.step - self.steps + 1
            self._keep(bucket - 1)
        self._keep(bucket)

    def _keep(self, bucket: int) -> None:
        slot = bucket % BUCKETS
        self._buckets[slot] = bucket
        self._steps[slot] = self.steps
        self._numbers[slot] = self.steps if self.step is None else self.step
        self._elapsed[slot] = self.elapsed
        for name, value in self.seconds.items():
            if name not in self._seconds:
                self._seconds[name] = _column()
            self._seconds[name][slot] = value

    def forget(self) -> None:
        """Drop the past: the program of this rank has started anew."""
        self._buckets = array("q", [-1]) * BUCKETS
        self._first = -1
        self._seconds = {}

    def between(self, start: int, end: int) -> Stretch | None:
        """What it did after bucket `start`, or since it is known, up to the end of `end`; None: no step."""
        first, last = self._slot(max(start, self._first)), self._slot(end)
        if first is None or last is None or self._steps[last] <= self._steps[first]:
            return None
        return Stretch(
            steps=self._steps[last] - self._steps[first],
            numbers=self._numbers[last] - self._numbers[first],
            elapsed=self._elapsed[last] - self._elapsed[first],
            seconds={name: column[last] - column[first] for name, column in self._seconds.items()},
        )

    def _slot(self, bucket: int) -> int | None:
        """Where the newest counters up to the end of a bucket are."""
        for one in range(bucket, max(bucket - BUCKETS, self._first - 1), -1):
            if self._buckets[one % BUCKETS] == one:
                return one % BUCKETS
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """What a rank did in a stretch of time: steps, how far their numbers went, seconds, those by phase."""

    steps: float
    numbers: float
    elapsed: float
    seconds: Mapping[str, float]

    @property
    def rate(self) -> float | None:
        """Steps a second, as the program numbers them."""
        return (self.numbers if self.numbers > 0 else self.steps) / self.elapsed if self.elapsed > 0 else None

    def own(self) -> dict[str, float]:
        """Seconds a step by phase, without waiting and saving; all but these where nothing else is marked."""
        own = {name: value for name, value in self.seconds.items() if name not in NOT_OWN}
        if not any(own.values()):
            own = {UNMARKED: max(0.0, self.elapsed - sum(self.seconds.values()))}
        return {name: value / self.steps for name, value in own.items()}


class Tally:
    """All ranks of a step that have told something."""

    def __init__(self) -> None:
        self.ranks: dict[int, RankTally] = {}
        self.hosts: dict[int, str] = {}
        """Where each rank's parent said it is."""
        self.source: str | None = None
        self.last_checkpoint: tuple[float, int | None] | None = None

    def add(self, fields: Mapping[str, Any], now: float) -> bool:
        """Take a decoded datagram in; False where it is older than what is known.

        Raises:
            ValueError, TypeError, KeyError, OverflowError: it is none.
        """
        rank, host, time = int(fields["rank"]), str(fields["host"]), float(fields["time"])
        steps, elapsed = _counter(fields["steps"]), float(fields.get("elapsed") or 0.0)
        if not (isfinite(time) and isfinite(elapsed)):
            raise ValueError("a time that is none")
        known = self._rank(rank, host)
        if time < known.time and steps <= known.steps:
            return False
        if steps < known.steps:
            known.forget()
        known.host, known.time, known.heard = host, time, now
        known.steps, known.elapsed = steps, elapsed
        known.step = None if fields.get("step") is None else _counter(fields["step"])
        known.seconds = _numbers(fields.get("seconds"))
        known.metrics = _numbers(fields.get("metrics"))
        phase = fields.get("in")
        known.phase = phase[:64] if isinstance(phase, str) else None
        known.ended = fields.get("last") is True
        checkpoints = _counter(fields.get("checkpoints") or 0)
        if checkpoints > known.checkpoints:
            self.last_checkpoint = (now, known.step)
        known.checkpoints = checkpoints
        known.keep(now)
        self.source = "datagrams"
        return True

    def add_step(self, rank: int, step: int, metrics: Mapping[str, float], now: float) -> None:
        """Take in a step that a rank's log tells of; nothing where the rank tells more by itself."""
        known = self._rank(rank, self.hosts.get(rank, ""))
        if known.time:
            return
        if known.heard:
            known.elapsed += now - known.heard
        if known.step is not None and step > known.step:
            known.steps += step - known.step
        else:
            known.steps += 1
        known.step, known.heard = step, now
        known.host = known.host or self.hosts.get(rank, "")
        known.metrics.update(metrics)
        known.keep(now)
        self.source = self.source or "pattern"

    def _rank(self, rank: int, host: str) -> RankTally:
        if rank not in self.ranks:
            if not 0 <= rank < MOST_RANKS:
                raise ValueError(f"no rank: {rank}")
            self.ranks[rank] = RankTally(rank=rank, host=host)
        return self.ranks[rank]

    def stretches(self, start: int, end: int) -> dict[int, Stretch]:
        """What each rank did after bucket `start` up to the end of bucket `end`, where it made a step."""
        found = ((rank, one.between(start, end)) for rank, one in self.ranks.items())
        return {rank: stretch for rank, stretch in found if stretch is not None}

    def lowest_step(self) -> int | None:
        """The step of the rank that is least far."""
        return min(self._steps(), default=None)

    def highest_step(self) -> int | None:
        """The step of the rank that is farthest."""
        return max(self._steps(), default=None)

    def _steps(self) -> Iterable[int]:
        return (one.steps if one.step is None else one.step for one in self.ranks.values() if one.steps)


def median_rate(stretches: Iterable[Stretch]) -> float | None:
    """Steps a second of the rank in the middle."""
    rates = [stretch.rate for stretch in stretches]
    known = [rate for rate in rates if rate is not None]
    return median_low(known) if known else None


def _counter(value: object) -> int:
    """A whole number that a float can carry."""
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > LARGEST:
        raise ValueError("no number of a step")
    return value


def _numbers(value: object) -> dict[str, float]:
    if not isinstance(value, dict):
        return {}
    numbers = {
        name[:64]: float(one)
        for name, one in value.items()
        if isinstance(one, int | float) and not isinstance(one, bool)
    }
    return dict(list(numbers.items())[:MOST_NAMES])
