"""What a run cost: its time by kind, what of it was productive, what failures threw away. Pure.

The effective training time ratio (ETTR) is that of Kokolis et al., "Revisiting Reliability in Large-Scale
Machine Learning Research Clusters" (arXiv:2410.21680): productive time over all time from the submit on.
"""

from __future__ import annotations

from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.run.interruptions import interruptions
from slurmkit.run.spans import KINDS, spans

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from slurmkit.run.course import Course
    from slurmkit.run.interruptions import Interruption
    from slurmkit.run.spans import Span

PRODUCTIVE = "computing"


class Loss(NamedTuple):
    """What one kind of interruption cost. Hours are of the cost's `unit`."""

    times: int
    lost_hours: float
    """Work thrown away, and what was held while nothing moved."""
    restart_hours: float
    """Held after it until it computed again."""

    @property
    def hours(self) -> float:
        """All of it."""
        return self.lost_hours + self.restart_hours


class Restarts(NamedTuple):
    """How often the run was started again, by the way it was done."""

    in_place: int = 0
    requeue: int = 0
    resubmit: int = 0


class Cost(NamedTuple):
    """The figures of a run; of an array, over all its tasks. Times in seconds; None is not known."""

    wall: float
    """From the submit to the end, or to now."""
    seconds: Mapping[str, float]
    """By kind of span: each is there."""
    running: float
    """While nodes were held."""
    unit: str
    """"GPU" where GPUs were held, else "node"."""
    hours: float
    """Held, in hours of the unit."""
    hours_by_kind: Mapping[str, float]
    losses: Mapping[str, Loss]
    """By kind of interruption, the dearest first."""
    restarts: Restarts
    failures: int
    nodes: int
    """Most that were held at once by one attempt."""
    units: int
    """GPUs, or nodes, held at most by one attempt."""
    interval: float | None
    """From one checkpoint to the next, the median."""
    write: float | None
    """For which saving one stops the training, the mean."""
    restart: float | None
    """From a failure until it computed again, without the queue, the mean."""

    @property
    def held(self) -> float:
        """Seconds outside the queue."""
        return self.wall - self.seconds["queued"]

    @property
    def ettr(self) -> float | None:
        """Productive time over all time."""
        return self.seconds[PRODUCTIVE] / self.wall if self.wall > 0 else None

    @property
    def ettr_without_queue(self) -> float | None:
        """Productive time over the time outside the queue."""
        return self.seconds[PRODUCTIVE] / self.held if self.held > 0 else None

    @property
    def mtbf(self) -> float | None:
        """Seconds of running for each failure."""
        return self.running / self.failures if self.failures else None

    @property
    def failures_per_node_day(self) -> float | None:
        """The rate r_f of the paper."""
        node_seconds = self.running * self.nodes
        return self.failures * 86400 / node_seconds if node_seconds > 0 else None

    @property
    def lost_hours(self) -> float:
        """Thrown away or held for nothing, whatever the cause."""
        return sum(loss.hours for loss in self.losses.values())


class Reckoning(NamedTuple):
    """What a cost was made of, beside it."""

    cost: Cost
    spans: tuple[tuple[Span, ...], ...]
    """Of each course."""
    interruptions: tuple[Interruption, ...]


def reckon(courses: Sequence[Course], gpus: Callable[[int], int] = lambda _: 0) -> Reckoning:
    """The cost of a run. `gpus` tells the GPUs of so many nodes, where accounting has not told."""
    made = tuple(tuple(spans(course, gpus)) for course in courses)
    ends = tuple(one for course in courses for one in interruptions(course))
    return Reckoning(_cost(courses, [span for each in made for span in each], ends), made, ends)


def _cost(courses: Sequence[Course], made: Sequence[Span], ends: Sequence[Interruption]) -> Cost:
    unit = "GPU" if any(span.gpus for span in made) else "node"
    seconds, hours = dict.fromkeys(KINDS, 0.0), dict.fromkeys(KINDS, 0.0)
    for span in made:
        seconds[span.kind] += span.seconds
        hours[span.kind] += _hours(span, unit)
    return Cost(
        wall=sum(seconds.values()),
        seconds=seconds,
        running=sum(span.seconds for span in made if span.nodes),
        unit=unit,
        hours=sum(hours.values()),
        hours_by_kind=hours,
        losses=_losses(made, ends, unit),
        restarts=_restarts(courses),
        failures=sum(one.is_failure for one in ends),
        nodes=max((span.nodes for span in made), default=0),
        units=max((_units(span, unit) for span in made), default=0),
        interval=_interval(courses),
        write=_write(courses),
        restart=_restart(made, {one.kind for one in ends if one.is_failure}),
    )


def _units(span: Span, unit: str) -> int:
    return span.gpus if unit == "GPU" else span.nodes


def _hours(span: Span, unit: str) -> float:
    return span.seconds * _units(span, unit) / 3600


def _losses(made: Iterable[Span], ends: Iterable[Interruption], unit: str) -> dict[str, Loss]:
    losses = {one.kind: Loss(0, 0.0, 0.0) for one in ends}
    for one in ends:
        losses[one.kind] = losses[one.kind]._replace(times=losses[one.kind].times + 1)
    for span in made:
        if span.kind in {"lost", "idle", "starting"} and span.why:
            loss = losses.get(span.why, Loss(0, 0.0, 0.0))
            name = "restart_hours" if span.kind == "starting" else "lost_hours"
            losses[span.why] = loss._replace(**{name: getattr(loss, name) + _hours(span, unit)})
    return dict(sorted(losses.items(), key=lambda item: -item[1].hours))


def _restarts(courses: Iterable[Course]) -> Restarts:
    """Counted by what happened, not by what was decided."""
    in_place = requeue = resubmit = 0
    for course in courses:
        for stint in course.stints:
            ports = sum(start.is_port_taken for start in stint.starts)
            in_place += max(len(stint.starts) - 1 - ports, 0)
        for before, after in pairwise(course.stints):
            if before.job_id == after.job_id:
                requeue += 1
            else:
                resubmit += 1
    return Restarts(in_place, requeue, resubmit)


def _interval(courses: Iterable[Course]) -> float | None:
    distances = [
        after.at - before.at
        for course in courses
        for stint in course.stints
        for start in stint.starts
        for before, after in pairwise(start.marks)
        if after.at > before.at
    ]
    return median(distances) if distances else None


def _write(courses: Iterable[Course]) -> float | None:
    told = [
        (start.saving, len(start.marks))
        for course in courses
        for stint in course.stints
        for start in stint.starts
        if start.saving and start.marks
    ]
    return sum(saving for saving, _ in told) / sum(count for _, count in told) if told else None


def _restart(made: Sequence[Span], failures: set[str]) -> float | None:
    after = [span.seconds for span in made if span.kind == "starting" and span.why in failures]
    return sum(after) / len(after) if after else None
