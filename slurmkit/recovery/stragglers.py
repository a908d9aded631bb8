"""Which ranks, or nodes, are slower than the others in their own time. Pure.

The last minute is looked at in six parts. In each, a rank's own seconds a step are held against those of the
rank in the middle; the middle of the six says how slow it is, so that one slow step, a pause or a checkpoint,
which spoils one part or two, says nothing. It is slow where that lies beyond the others by `LEAST`, and
`SPREADS` times beyond their spread, the median absolute deviation.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median_low
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PARTS = 6
NEEDED_PARTS = 5
IN_A_ROW = 4
"""Parts, the last among them, that are slow without a break."""
LEAST = 0.15
SPREADS = 5.0
NORMAL = 1.4826
"""The standard deviation of a normal distribution, in median absolute deviations."""
GONE = 0.5
"""A straggler is one until it is nearer to the others than this part of what makes one."""
MOST = 4
"""Where more than one in so many is beyond the others, the work is uneven by design, as in a pipeline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One rank in the window: its host, and for each part its own seconds a step by phase."""

    host: str
    parts: Sequence[Mapping[str, float] | None]

    @property
    def is_enough(self) -> bool:
        """Whether it tells enough for a judgement."""
        return sum(part is not None for part in self.parts) >= NEEDED_PARTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Slow:
    """A rank, or with None all ranks of a host: seconds a step, the median's, the phase to blame.

    `parts` is how many of the last parts were slow without a break.
    """

    rank: int | None
    host: str
    ranks: tuple[int, ...]
    phase: str
    own: float
    median: float
    parts: int

    @property
    def key(self) -> tuple[int | None, str]:
        """By which it is known again."""
        return self.rank, self.host

    def is_heard(self, samples: Mapping[int, Sample]) -> bool:
        """Whether the window tells enough of it to say that it is one no more."""
        return any(rank in samples and samples[rank].is_enough for rank in self.ranks)


@dataclass(frozen=True, slots=True)
class _Window:
    """What a straggler is described by: all samples, their scores, the medians by phase, the limit."""

    samples: Mapping[int, Sample]
    scores: Mapping[int, _Score]
    medians: Mapping[str, float]
    limit: float


@dataclass(frozen=True, slots=True)
class _Score:
    """How much slower than the median a rank is, as a part of the median: in the window, and part by part."""

    excess: float
    parts: tuple[float | None, ...]


def find_slow(samples: Mapping[int, Sample], known: Mapping[tuple[int | None, str], Slow]) -> list[Slow]:
    """The stragglers of a window. One of `known` stays one until it is well below the limit."""
    scores = _scores(samples)
    if len(scores) < 2:
        return []
    limit = _limit([score.excess for score in scores.values()])
    beyond = {
        rank
        for rank, score in scores.items()
        if score.excess > limit and _last_slow_parts(score, GONE * limit) >= IN_A_ROW
    }
    before = {rank for one in known.values() for rank in one.ranks}
    beyond |= {rank for rank in before & scores.keys() if scores[rank].excess > GONE * limit}
    nodes = _slow_nodes(scores, samples, beyond)
    single = sorted(beyond - {rank for ranks in nodes.values() for rank in ranks})
    if len(single) > max(1, len(scores) // MOST):
        single = [rank for rank in single if rank in before]
    window = _Window(samples, scores, _medians(samples), limit)
    found = [_slow(window, None, host, ranks) for host, ranks in nodes.items()]
    return found + [_slow(window, rank, samples[rank].host, (rank,)) for rank in single]


def _scores(samples: Mapping[int, Sample]) -> dict[int, _Score]:
    """Of each rank with enough parts that enough others have, too."""
    ratios: dict[int, list[float | None]] = {rank: [] for rank in samples}
    for part in range(PARTS):
        totals = {rank: _total(sample.parts[part]) for rank, sample in samples.items()}
        known = [total for total in totals.values() if total is not None]
        middle = median_low(known) if 2 * len(known) > len(samples) else 0.0
        for rank, total in totals.items():
            ratios[rank].append(total / middle - 1 if total is not None and middle > 0 else None)
    scores = {}
    for rank, parts in ratios.items():
        there = [one for one in parts if one is not None]
        if len(there) >= NEEDED_PARTS:
            scores[rank] = _Score(median_low(there), tuple(parts))
    return scores


def _limit(excesses: Sequence[float]) -> float:
    """Beyond which a rank is slow. Ranks are slow on one side only: the lower middle is the usual rank's."""
    middle = median_low(excesses)
    spread = median_low([abs(one - middle) for one in excesses])
    return max(LEAST, middle + SPREADS * NORMAL * spread)


def _slow_nodes(
    scores: Mapping[int, _Score], samples: Mapping[int, Sample], beyond: set[int]
) -> dict[str, tuple[int, ...]]:
    """Hosts with several ranks, all of them slow; none where more than one host in `MOST` is so."""
    by_host: dict[str, list[int]] = {}
    for rank in sorted(scores):
        by_host.setdefault(samples[rank].host, []).append(rank)
    slow = {
        host: tuple(ranks) for host, ranks in by_host.items() if len(ranks) > 1 and beyond.issuperset(ranks)
    }
    return slow if len(slow) <= max(1, len(by_host) // MOST) and len(by_host) > 1 else {}


def _slow(window: _Window, rank: int | None, host: str, ranks: tuple[int, ...]) -> Slow:
    own = [_middle_by_phase(window.samples[one].parts) for one in ranks]
    names = dict.fromkeys(name for phases in own for name in phases)
    excess = {
        name: sum(phases.get(name, 0.0) - window.medians.get(name, 0.0) for phases in own) for name in names
    }
    return Slow(
        rank=rank,
        host=host,
        ranks=ranks,
        phase=max(excess, key=lambda name: excess[name]),
        own=sum(sum(phases.values()) for phases in own) / len(own),
        median=sum(window.medians.values()),
        parts=min(_last_slow_parts(window.scores[one], GONE * window.limit) for one in ranks),
    )


def _last_slow_parts(score: _Score, limit: float) -> int:
    count = 0
    for part in reversed(score.parts):
        if part is not None and part <= limit:
            break
        count += part is not None
    return count


def _middle_by_phase(parts: Sequence[Mapping[str, float] | None]) -> dict[str, float]:
    there = [part for part in parts if part is not None]
    names = dict.fromkeys(name for part in there for name in part)
    return {name: median_low([part.get(name, 0.0) for part in there]) for name in names}


def _medians(samples: Mapping[int, Sample]) -> dict[str, float]:
    """Of each phase, the seconds a step of the rank in the middle."""
    middles = [_middle_by_phase(sample.parts) for sample in samples.values()]
    names = dict.fromkeys(name for middle in middles for name in middle)
    return {name: median_low([middle.get(name, 0.0) for middle in middles]) for name in names}


def _total(part: Mapping[str, float] | None) -> float | None:
    return None if part is None else sum(part.values())
