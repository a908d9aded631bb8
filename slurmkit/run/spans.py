"""What the time of a run went into: a list of spans without gaps. Pure; times in epoch seconds.

Work counts as computing where a checkpoint kept it, or the run ended well by it; what the next start could
not go on from is lost.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.run.course import WAITING_STATES, real
from slurmkit.run.interruptions import interruptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from slurmkit.run.course import Course, Mark, StepStart, Stint
    from slurmkit.run.events import Event

KINDS: Mapping[str, str] = {
    "queued": "waiting in the queue, before the first start or between two",
    "starting": "from the start of an attempt, or a failure, until it computes: checks, backoff, loading",
    "computing": "work that counts",
    "checkpointing": "saving, while the training waits for it; where the program tells of it",
    "lost": "work after the last complete checkpoint that a failure threw away",
    "idle": "hung until it was noticed, held, or waiting for somebody to start it again",
}
"""Every kind of span, in the order in which they are shown."""


class Span(NamedTuple):
    """A stretch of time of one kind."""

    kind: str
    begin: float
    end: float
    attempt: str | None = None
    """None between two attempts, and before the first."""
    nodes: int = 0
    """Held meanwhile."""
    gpus: int = 0
    why: str | None = None
    """Of what is lost or idle, and of the start that follows a failure: the kind of the failure."""

    @property
    def seconds(self) -> float:
        """How long it is."""
        return self.end - self.begin


def spans(course: Course, gpus: Callable[[int], int] = lambda _: 0) -> list[Span]:
    """The spans of a course, oldest first. `gpus` tells the GPUs of so many nodes."""
    causes = {(one.attempt, one.step): one.kind for one in interruptions(course)}
    made: list[Span] = []
    at, why = course.begin, None
    previous: Stint | None = None
    for stint in course.stints:
        made += _between(at, stint.begin, previous, course, why)
        held = stint.gpus if stint.gpus is not None else gpus(stint.nodes)
        within = list(_within(stint, causes, max(stint.begin, at), why))
        made += [span._replace(attempt=stint.name, nodes=stint.nodes, gpus=held) for span in within]
        last = stint.starts[-1].number if stint.starts else None
        at, previous, why = stint.end, stint, causes.get((stint.name, last))
    made += _between(at, course.end, previous, course, why)
    made = _with_losses(made, course, causes)
    for stint in course.stints:
        for start in stint.starts:
            made = _with_saving(made, start)
    return list(_joined(span for span in made if span.end > span.begin))


def _between(
    begin: float, end: float, previous: Stint | None, course: Course, why: str | None
) -> Iterator[Span]:
    """What lies between two attempts, or around them."""
    if end <= begin:
        return
    if previous is None:
        yield Span("queued", begin, end)
        return
    is_in_queue = course.state in WAITING_STATES | {"running"} or previous is not course.stints[-1]
    if why == "held" or not is_in_queue:
        yield Span("idle", begin, end, why=why)
    else:
        asked = _asked_again(begin, end, previous, course.events)
        if asked > begin:
            yield Span("idle", begin, asked, why=why)
        yield Span("queued", asked, end)


def _asked_again(begin: float, end: float, previous: Stint, events: Iterable[Event]) -> float:
    """When somebody asked Slurm for the next attempt; `begin` where the agent or Slurm itself had."""
    for event in (*events, *previous.events):
        at = event.time.timestamp()
        is_asking = event.kind in {"submitting", "requeueing"}
        if is_asking and begin < at < end:
            return at
    return begin


def _within(
    stint: Stint, causes: Mapping[tuple[str, int | None], str], begin: float, why: str | None
) -> Iterator[Span]:
    """The spans of one attempt, as if no work were lost."""
    at = begin
    for start in stint.starts:
        end = min(start.end if start.end is not None else stint.end, stint.end)
        computing = end if start.is_port_taken else min(max(start.computing_since, at), end)
        silent = min(max(start.hung.since, computing), end) if start.hung else end
        yield Span("starting", at, computing, why=why)
        yield Span("computing", computing, silent)
        yield Span("idle", silent, end, why="hung")
        at, why = max(at, end), causes.get((stint.name, start.number))
    # Of an attempt that came to no start, all is; what follows its last step is nobody's work.
    kind = "idle" if stint.starts and stint.has_ended else "starting"
    yield Span(kind, at, stint.end, why=why)


def _with_losses(
    made: list[Span], course: Course, causes: Mapping[tuple[str, int | None], str]
) -> list[Span]:
    """The spans with the work that failures threw away."""
    starts = [(stint, start) for stint in course.stints for start in stint.starts]
    marks: list[Mark] = []
    for index, (stint, start) in enumerate(starts):
        marks += start.marks
        following = starts[index + 1][1] if index + 1 < len(starts) else None
        end = start.end if start.end is not None else stint.end
        kept = _kept_until(course, stint, start, following, marks)
        if kept is not None and kept < end:
            why = causes.get((stint.name, start.number))
            made = [one for span in made for one in _lose(span, kept, end, why)]
    return made


def _kept_until(
    course: Course, stint: Stint, start: StepStart, following: StepStart | None, marks: Sequence[Mark]
) -> float | None:
    """Up to when the work so far counts after the end of a start; None: all of it does."""
    end = start.end if start.end is not None else stint.end
    if following is None:
        is_open = start.end is None and course.state in {"completed", "running"}
        if start.exit_code == 0 or is_open or not stint.has_ended:
            return None
    elif following.chosen is not None:
        return _saved_at(following.chosen, start, marks, course.begin, end)
    elif start.exit_code == 0:
        return None
    return marks[-1].at if marks else course.begin


def _saved_at(chosen: Event, start: StepStart, marks: Sequence[Mark], begin: float, end: float) -> float:
    """When the checkpoint was saved that the next start goes on from."""
    path, step = chosen.text("checkpoint"), chosen.number("at_step")
    if path is None:
        return begin
    for mark in reversed(marks):
        if mark.path == path or (step is not None and mark.at_step == step):
            return mark.at
    if (saved := real(chosen, "saved")) is not None:
        return min(max(saved, begin), end)
    # Nobody saw it being completed: the steps tell when it must have been.
    known = [(start.computing_since, start.from_step), *((mark.at, mark.at_step) for mark in start.marks)]
    known.append((end, start.at_step))
    if step is not None and start.at_step is not None and step >= start.at_step:
        return end
    anchors = [(at, number) for at, number in known if number is not None]
    for (left, low), (right, high) in pairwise(anchors):
        if step is not None and low <= step <= high and low < high:
            return left + (right - left) * (step - low) / (high - low)
    return marks[-1].at if marks else begin


def _lose(span: Span, kept: float, end: float, why: str | None) -> Iterator[Span]:
    """A span, of whose work nothing counts between `kept` and `end`."""
    if span.kind != "computing" or span.end <= kept or span.begin >= end:
        yield span
        return
    cut = max(span.begin, kept)
    yield span._replace(end=cut)
    yield span._replace(kind="lost", begin=cut, why=why)


def _with_saving(made: list[Span], start: StepStart) -> list[Span]:
    """The spans with what saving took: as much before each checkpoint, for only the sum is known."""
    if not start.saving or not start.marks:
        return made
    each, earlier = start.saving / len(start.marks), start.computing_since
    for mark in start.marks:
        begin = max(mark.at - each, earlier)
        made = [one for span in made for one in _save(span, begin, mark.at)]
        earlier = mark.at
    return made


def _save(span: Span, begin: float, end: float) -> Iterator[Span]:
    if span.kind != "computing" or span.end <= begin or span.begin >= end:
        yield span
        return
    begin, end = max(begin, span.begin), min(end, span.end)
    yield span._replace(end=begin)
    yield span._replace(kind="checkpointing", begin=begin, end=end)
    yield span._replace(begin=end)


def _joined(made: Iterable[Span]) -> Iterator[Span]:
    """Neighbours of the same kind as one."""
    last: Span | None = None
    for span in made:
        if last and last[:1] + last[3:] == span[:1] + span[3:]:
            last = last._replace(end=span.end)
            continue
        if last:
            yield last
        last = span
    if last:
        yield last
