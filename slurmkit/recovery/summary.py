"""progress.json: how far a step start is, for `status`, `show` and `watch`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slurmkit.recovery.tally import SAVING, WAITING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from slurmkit.recovery.monitor import Monitor
    from slurmkit.recovery.tally import RankTally, Stretch, Tally

HISTORY = 120
HISTORY_EVERY = 30.0
"""Seconds between two points of the history, which so covers an hour."""
SLOWEST = 10


def summary(monitor: Monitor, minute: Mapping[int, Stretch], now: float) -> dict[str, Any]:
    """All fields of progress.json. `minute` is what each rank did in the last one."""
    tally, rate = monitor.tally, monitor.rate(now)
    heard = [one for one in tally.ranks.values() if one.heard]
    lowest = min(heard, key=lambda one: (one.steps if one.step is None else one.step, one.rank), default=None)
    step, total = tally.lowest_step(), monitor.total
    saved = tally.last_checkpoint
    return {
        "attempt": monitor.attempt,
        "step_start": monitor.step,
        "updated": now,
        "started": monitor.now,
        "world_size": monitor.world_size,
        "ranks_heard": len(heard),
        "step": step,
        "step_max": tally.highest_step(),
        "first_step": min((one.first_step for one in heard if one.first_step is not None), default=None),
        "total": total,
        "steps_per_second": rate,
        "seconds_left": max(0, total - step) / rate if total and step is not None and rate else None,
        "source": tally.source,
        "phases": mean_phases(minute.values()),
        "metrics": lowest.metrics if lowest else {},
        "history": list(monitor.history),
        "slowest": slowest(heard, minute),
        "stragglers": [
            {
                "rank": one.rank,
                "host": one.host,
                "phase": one.phase,
                "own": one.own,
                "median": one.median,
                "since": one.since,
            }
            for one in monitor.stragglers.values()
        ],
        "last_checkpoint": {"at": saved[0], "step": saved[1]} if saved else None,
        "hung": monitor.is_hung,
        **measured(tally),
    }


def measured(tally: Tally) -> dict[str, float | None]:
    """Since when it computes, and how many seconds of the rank that saved longest went into saving."""
    known = [one for one in tally.ranks.values() if one.steps]
    return {
        "computing_since": min((one.since for one in known), default=None),
        "saving": max((one.seconds.get(SAVING, 0.0) for one in known), default=None),
    }


def mean_phases(minute: Iterable[Stretch]) -> dict[str, float]:
    """Mean seconds a step of each phase, over all ranks."""
    totals: dict[str, float] = {}
    steps = 0.0
    for stretch in minute:
        steps += stretch.steps
        for name, seconds in stretch.seconds.items():
            totals[name] = totals.get(name, 0.0) + seconds
    return {name: seconds / steps for name, seconds in totals.items()}


def slowest(heard: Iterable[RankTally], minute: Mapping[int, Stretch]) -> list[dict[str, Any]]:
    """By their own time a step; those that made none in the last minute go before all others."""
    rows = []
    for one in heard:
        stretch = minute.get(one.rank)
        own = sum(stretch.own().values()) if stretch else None
        sync = stretch.seconds.get(WAITING, 0.0) / stretch.steps if stretch else None
        row = {"rank": one.rank, "host": one.host, "step": one.steps if one.step is None else one.step}
        rows.append((own, {**row, "own": own, "sync": sync, "in": one.phase, "heard": one.heard}))
    rows.sort(key=lambda pair: (pair[0] is not None, -(pair[0] or 0.0), pair[1]["step"], pair[1]["rank"]))
    return [row for _, row in rows[:SLOWEST]]
