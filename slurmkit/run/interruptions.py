"""What interrupted a run, why, and what followed. Pure; times in epoch seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from slurmkit.run import sentences

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from slurmkit.run.course import Course, StepStart, Stint
    from slurmkit.run.events import Event

DONE = frozenset({"finished"})
PLANNED = frozenset(
    {"time-limit", "preempted", "requeued", "told-to-end", "cancelled", "held", "never-starts"}
)
"""Kinds of ends that are nobody's failure: Slurm, the site or the user wanted them."""


class Interruption(NamedTuple):
    """One end before the work was done. The fields are those of the events `diagnosed` and `decided`."""

    at: float
    attempt: str
    step: int | None
    """The number of the step start."""
    kind: str
    sentence: str
    rank: int | None = None
    host: str | None = None
    nodes: tuple[str, ...] = ()
    at_step: int | None = None
    checkpoint_step: int | None = None
    advice: str | None = None
    action: str | None = None
    """What was decided: "restart", "requeue", "resubmit", "stop", "leave"."""
    reason: str | None = None

    @property
    def is_failure(self) -> bool:
        """Whether something went wrong, so that it counts for the time between failures."""
        return self.kind not in PLANNED


def interruptions(course: Course) -> list[Interruption]:
    """Oldest first; one for each start of the step that did not end well."""
    return [one for stint in course.stints for one in _of_stint(stint, course)]


def _of_stint(stint: Stint, course: Course) -> Iterator[Interruption]:
    told = _diagnosed(stint)
    is_last = stint is course.stints[-1]
    for start in stint.starts:
        if start.number in told:
            if told[start.number].kind not in DONE:
                yield told[start.number]
        elif start.end is not None and start.exit_code and not start.is_port_taken:
            yield _undiagnosed(stint, start, course)
    numbers = {start.number for start in stint.starts}
    yield from (one for number, one in told.items() if number not in numbers and one.kind not in DONE)
    lacks_word = stint.has_ended and stint.exit_code is None and not told
    if lacks_word and not (is_last and course.state in {"completed", "running", "pending"}):
        number = stint.starts[-1].number if stint.starts else None
        if not (stint.starts and stint.starts[-1].exit_code):
            kind = _kind_without_word(stint, course)
            yield Interruption(stint.end, stint.name, number, kind, "the attempt ended without a last word")


def _diagnosed(stint: Stint) -> Mapping[int | None, Interruption]:
    """What was diagnosed, by number of the step start; what was said last counts, and the last decision."""
    told: dict[int | None, Interruption] = {}
    last: int | None = None
    running: int | None = None
    for event in stint.events:
        if event.kind == "step-started":
            running = event.number("step")
        elif event.kind == "diagnosed":
            number = event.number("step")
            last = running if number is None else number
            told[last] = _of_event(event, stint.name, last)
        elif event.kind == "decided" and last in told:
            told[last] = told[last]._replace(action=event.text("action"), reason=event.text("reason"))
    return told


def _of_event(event: Event, attempt: str, number: int | None) -> Interruption:
    nodes = event.fields.get("nodes")
    kind = event.text("kind") or "unknown"
    return Interruption(
        at=event.time.timestamp(),
        attempt=attempt,
        step=number,
        kind=kind,
        sentence=event.text("sentence") or kind,
        rank=event.number("rank"),
        host=event.text("host"),
        nodes=tuple(map(str, nodes)) if isinstance(nodes, list) else (),
        at_step=event.number("at_step"),
        checkpoint_step=event.number("checkpoint_step"),
        advice=event.text("advice"),
    )


def _undiagnosed(stint: Stint, start: StepStart, course: Course) -> Interruption:
    """As far as the end of the step tells by itself: an agent that diagnosed nothing wrote it."""
    ended = next(
        event
        for event in reversed(stint.events)
        if event.kind == "step-ended" and event.time.timestamp() == start.end
    )
    first = ended.fields.get("first_failure")
    if isinstance(first, dict):
        kind, sentence = "crashed", sentences.failure(first) + sentences.why(first)
    else:
        kind, sentence = "unknown", f"the step ended with exit code {start.exit_code}"
    if start.hung:
        kind, sentence = "hung", "no rank made progress"
    elif ended.fields.get("received"):
        kind = _kind_without_word(stint, course)
    return Interruption(
        at=ended.time.timestamp(), attempt=stint.name, step=start.number, kind=kind, sentence=sentence
    )


def _kind_without_word(stint: Stint, course: Course) -> str:
    """What is known of an end that Slurm or somebody brought about."""
    is_last = stint is course.stints[-1]
    is_cancelled = any(event.kind == "cancel-requested" for event in course.events)
    return "cancelled" if is_last and (is_cancelled or course.state == "cancelled") else "unknown"
