"""The course of a run: its attempts, the starts of its step, what was saved when. Pure; in epoch seconds.

A run has one course; an array has one for each of its tasks, as these go on side by side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from slurmkit.run.events import Event
    from slurmkit.slurm.records import Job

WAITING_STATES = frozenset({"submitting", "pending", "blocked"})
"""States of a run in which its job is in the queue."""

GOING_STATES = WAITING_STATES | {"running", "interrupted"}
"""States of a run whose time goes on."""

ENDS = frozenset({"job-ended", "run-ended", "attempt-ended", "not-submitted"})


class Heard(NamedTuple):
    """What the ranks told of one start of the step, beyond the events; `updated` is when they last did."""

    updated: float
    step: int | None = None
    computing_since: float | None = None
    saving: float | None = None
    """Seconds for which saving checkpoints stopped the training."""


class Mark(NamedTuple):
    """A complete checkpoint."""

    at: float
    at_step: int | None
    path: str


class Hung(NamedTuple):
    """When the last progress was, and when that was noticed."""

    since: float
    noticed: float


class StepStart(NamedTuple):
    """One start of the step. Without an end, it ended with its attempt, or goes on."""

    number: int
    begin: float
    computing_since: float
    end: float | None = None
    exit_code: int | None = None
    is_port_taken: bool = False
    from_step: int | None = None
    at_step: int | None = None
    saving: float | None = None
    hung: Hung | None = None
    marks: tuple[Mark, ...] = ()
    chosen: Event | None = None
    """The checkpoint that it started from, as the agent chose it."""


class Stint(NamedTuple):
    """One attempt. Where its agent left no last word, `end` is when it was last known to live."""

    name: str
    job_id: str | None
    begin: float
    end: float
    nodes: int
    gpus: int | None
    """As accounting has them; None where it does not."""
    starts: tuple[StepStart, ...]
    events: tuple[Event, ...]
    exit_code: int | None = None
    has_ended: bool = True
    """False of one that goes on."""


class Course(NamedTuple):
    """One line of attempts; `events` are those of the run as a whole."""

    begin: float
    end: float
    stints: tuple[Stint, ...]
    events: tuple[Event, ...]
    state: str


class _Known(NamedTuple):
    """All that is known of a run beside the events of its attempts."""

    events: tuple[Event, ...]
    """Those of no attempt."""
    jobs: tuple[Job, ...]
    heard: Mapping[str, Heard]
    state: str
    end: float


def courses(
    events: Sequence[Event],
    jobs: Iterable[Job] = (),
    *,
    state: str,
    now: float,
    heard: Mapping[str, Heard] | None = None,
) -> list[Course]:
    """The courses of a run in `state`. `jobs` are its attempts as accounting has them, one record each."""
    common = tuple(event for event in events if event.text("attempt") is None)
    known = _Known(common, tuple(jobs), heard or {}, state, _end(events, state, now))
    groups: dict[str, dict[str, list[Event]]] = {}
    course_of: dict[str, str] = {}
    for event in events:
        name = event.text("attempt")
        if name is None:
            continue
        if event.kind == "attempt-started":
            key = (event.text("job_id") or name) if event.text("array_job_id") else ""
            course_of[name] = key
            groups.setdefault(key, {}).setdefault(name, [])
        if name in course_of:
            groups[course_of[name]][name].append(event)
    if not groups and events:
        begin = events[0].time.timestamp()
        return [Course(begin, max(known.end, begin), (), common, state)]
    return [_course(own, known) for own in groups.values()]


def _end(events: Sequence[Event], state: str, now: float) -> float:
    """When the run ended; now, where it goes on or waits."""
    if state in GOING_STATES:
        return now
    ends = [event for event in events if event.kind in ENDS] or list(events)
    if not ends:
        return now
    # Of the end of the job, the event was written when somebody saw it.
    told = real(ends[-1], "ended")
    return ends[-1].time.timestamp() if told is None else told


def _course(own: Mapping[str, list[Event]], known: _Known) -> Course:
    names = list(own)
    firsts = [own[name][0].time.timestamp() for name in names]
    stints: list[Stint] = []
    for index, name in enumerate(names):
        is_last = index + 1 == len(names)
        latest = known.end if is_last else firsts[index + 1]
        earliest = stints[-1].end if stints else 0.0
        is_going = is_last and known.state == "running"
        stints.append(_stint(own[name], known, (earliest, latest), is_going=is_going))
    begin, end = stints[0].begin, stints[-1].end
    if known.events:
        begin = min(begin, known.events[0].time.timestamp())
    if known.state in GOING_STATES:
        # Of one that has ended, Slurm's end is cut to the second, and who found it came perhaps much later.
        end = max(end, known.end)
    return Course(begin, end, tuple(stints), known.events, known.state)


def _stint(events: list[Event], known: _Known, bounds: tuple[float, float], *, is_going: bool) -> Stint:
    """One attempt, which lies within `bounds`."""
    started = next(event for event in events if event.kind == "attempt-started")
    word = next((event for event in reversed(events) if event.kind == "attempt-ended"), None)
    name = started.text("attempt") or ""
    heard = known.heard.get(name)
    begin, (earliest, latest) = started.time.timestamp(), bounds
    job = _record_of(known.jobs, started.text("job_id"), begin)
    # What became of it the next attempt's agent, or the supervisor, may say much later.
    own = [event for event in events if event.kind not in {"diagnosed", "decided", "requeueing", "requeued"}]
    signs = [own[-1].time.timestamp(), heard.updated if heard else begin]
    if job and job.end_time:
        signs.append(job.end_time.timestamp())
    end = word.time.timestamp() if word else latest if is_going else min(max(signs), latest)
    if job and job.start_time:
        begin = max(min(begin, job.start_time.timestamp()), earliest)
    nodes = started.fields.get("nodes")
    return Stint(
        name=name,
        job_id=started.text("job_id"),
        begin=begin,
        end=max(end, begin),
        nodes=len(nodes) if isinstance(nodes, list) and nodes else 1,
        gpus=job.tres.gpus if job and job.tres else None,
        starts=tuple(_starts(own, heard)),
        events=tuple(events),
        exit_code=word.number("exit_code") if word else None,
        has_ended=word is not None or not is_going,
    )


def _record_of(jobs: Iterable[Job], job_id: str | None, begin: float) -> Job | None:
    """Accounting's record of an attempt: of the requeues of a job, the one that had begun by then."""
    found = [
        (job.start_time, job)
        for job in jobs
        if str(job.id) == job_id
        and job.start_time is not None
        and job.start_time.timestamp() <= begin
        and (job.end_time is None or job.end_time.timestamp() + 1 >= begin)
    ]
    return max(found, key=lambda one: one[0])[1] if found else None


def _starts(events: Sequence[Event], heard: Heard | None) -> Iterator[StepStart]:
    """The starts of the step in one attempt."""
    chosen: Event | None = None
    groups: list[tuple[Event, Event | None, list[Event]]] = []
    for event in events:
        if event.kind == "checkpoint-chosen":
            chosen = event
        elif event.kind == "step-started":
            groups.append((event, chosen, []))
            chosen = None
        elif groups:
            groups[-1][2].append(event)
    for index, (first, choice, rest) in enumerate(groups):
        number = first.number("step")
        number = index if number is None else number
        told = heard if heard and heard.step in {number, None} and index == len(groups) - 1 else None
        yield _start(number, first, choice, rest, told)


def _start(
    number: int, first: Event, chosen: Event | None, events: Iterable[Event], heard: Heard | None
) -> StepStart:
    begin = first.time.timestamp()
    since = heard.computing_since if heard else None
    start = StepStart(
        number=number,
        begin=begin,
        computing_since=begin,
        from_step=first.number("from_step"),
        saving=heard.saving if heard else None,
        chosen=chosen,
    )
    marks: list[Mark] = []
    for event in events:
        at = event.time.timestamp()
        match event.kind:
            case "checkpoint-complete":
                saved = real(event, "saved") or at
                path = event.text("checkpoint") or ""
                marks.append(Mark(min(max(saved, begin), at), event.number("at_step"), path))
            case "hung":
                silent = real(event, "since")
                start = start._replace(hung=Hung(at if silent is None else min(max(silent, begin), at), at))
            case "step-ended":
                since = real(event, "computing_since") or since
                saving = real(event, "saving")
                start = start._replace(
                    end=at,
                    exit_code=event.number("exit_code"),
                    at_step=event.number("at_step"),
                    is_port_taken=event.fields.get("port_taken") is True,
                    saving=start.saving if saving is None else saving,
                )
    latest = start.hung.since if start.hung else start.end
    if since is not None and since > begin:
        start = start._replace(computing_since=since if latest is None else min(since, latest))
    return start._replace(marks=tuple(sorted(marks, key=lambda mark: mark.at)))


def real(event: Event, name: str) -> float | None:
    """A field of an event as a number, or None where it is none."""
    value = event.fields.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
