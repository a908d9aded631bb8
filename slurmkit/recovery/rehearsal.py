"""What a rehearsal has shown so far, and what is to be done next. Pure; times are seconds since 1970.

The program makes a complete checkpoint, is asked for another one, is ended as by a fault and started again:
it has to go on where it was, and the loss with it.
"""

from __future__ import annotations

from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from slurmkit.spec.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from slurmkit.run.course import Mark, StepStart, Stint
    from slurmkit.run.events import Event

RISE = 0.25
"""The part of itself that the loss may rise by from one telling to the next, over a resume."""
NOISE = 2.0
"""Or so many times the largest rise that was seen between two tellings before it."""

Outcome = Literal["ok", "failed", "warning", "not checked"]


class Check(NamedTuple):
    """One thing that was looked at: `checkpoint`, `signal`, `resume` or `loss`."""

    name: str
    outcome: Outcome
    text: str


class Sample(NamedTuple):
    """What progress.json told of one start of the step."""

    start: tuple[str, int]
    """The attempt, and the number of the start in it."""
    step: int
    first_step: int | None = None
    loss: float | None = None


class Start(NamedTuple):
    """One start of the step, and what is known of its end."""

    key: tuple[str, int]
    step: StepStart
    sentence: str | None = None
    """Why it ended, as it was diagnosed."""
    follows: str | None = None
    """What was decided then, and why."""
    is_time_over: bool = False

    @property
    def has_ended(self) -> bool:
        """Whether it is over."""
        return self.step.end is not None


class Asked(NamedTuple):
    """When the ranks were asked for a checkpoint, and how many of how many catch the signal, if known."""

    at: float
    signal: str
    catching: int | None = None
    ranks: int = 0


class Limits(NamedTuple):
    """In seconds: for each of the two waits, between the request and the end of the step, of the job."""

    timeout: float
    lead: float
    job: float


class View(NamedTuple):
    """All that is known at one moment."""

    now: float
    limits: Limits
    starts: Sequence[Start] = ()
    samples: Sequence[Sample] = ()
    asked: Asked | None = None
    interrupted: float | None = None
    ended: str | None = None
    """Why the run has ended, where it has."""
    anew: str | None = None
    """A checkpoint that the resumed start has written though it lies before the one it was to resume from."""


class Verdict(NamedTuple):
    """Whether the job came through, and if not, why."""

    passed: bool
    reason: str
    checks: tuple[Check, ...] = ()


Move = Literal["wait", "ask", "interrupt"] | Verdict


def starts_of(stints: Iterable[Stint]) -> list[Start]:
    """The starts of the step in which the program had its chance."""
    return [
        _start_of(stint, index, step)
        for stint in stints
        for index, step in enumerate(stint.starts)
        if not step.is_port_taken
    ]


def _start_of(stint: Stint, index: int, step: StepStart) -> Start:
    until = stint.starts[index + 1].begin if index + 1 < len(stint.starts) else float("inf")
    own = [event for event in stint.events if step.begin <= event.time.timestamp() < until]
    asked = [event for event in own if event.kind == "checkpoint-requested"]
    return Start(
        (stint.name, step.number),
        step if step.end is not None or not stint.has_ended else step._replace(end=stint.end),
        sentence=_last(own, "diagnosed", "sentence"),
        follows=_last(own, "decided", "reason"),
        is_time_over=any(event.text("why") == "time-limit" for event in asked),
    )


def _last(events: Iterable[Event], kind: str, name: str) -> str | None:
    found = [event.text(name) for event in events if event.kind == kind]
    return found[-1] if found else None


def next_move(view: View) -> Move:
    """What is to be done now, or the verdict."""
    if view.interrupted is None:
        return _before(view)
    return _after(view, view.interrupted)


def _before(view: View) -> Move:
    """Up to the end that the rehearsal makes."""
    if why := _why_not_before(view):
        return failed(view, why, "checkpoint")
    if not view.starts:
        return "wait"
    mark = _newest(view.starts[0])
    if view.asked is None:
        waited = view.now - view.starts[0].step.begin
        return "ask" if mark or waited >= view.limits.timeout / 2 else "wait"
    if mark is None:
        return "wait"
    is_heeded = mark.at >= view.asked.at
    return "interrupt" if is_heeded or view.now - view.asked.at >= view.limits.lead else "wait"


def _why_not_before(view: View) -> str | None:
    """Why it does not come to that end."""
    if not view.starts:
        return f"the program was not started: {view.ended}" if view.ended else None
    start = view.starts[0]
    mark = _newest(start)
    when = f"right after {_name(mark)}" if mark else "before its first checkpoint was complete"
    if why := _why_ended(view, start):
        return f"it ended by itself, {when}: {why}"
    if start.is_time_over:
        return _time_is_over(view, when)
    if mark is None and view.now - start.step.begin > view.limits.timeout:
        though = ", though every rank was asked for one" if view.asked else ""
        return f"no checkpoint was complete within {_span(view.limits.timeout)}{though}"
    return None


def _why_ended(view: View, start: Start) -> str | None:
    """Why a start is over, once that is known: the agent says it a moment after the end itself."""
    if start.sentence:
        return start.sentence
    if view.ended and start.step.exit_code == 0:
        return "its work was done"
    return view.ended


def _after(view: View, interrupted: float) -> Move:
    """From there to where the program has gone on, or has not."""
    if len(view.starts) < 2:
        why = _why_not_again(view, interrupted)
        return failed(view, why, "resume") if why else "wait"
    again = view.starts[1]
    why = _began_anew(view, again)
    if why is None and _has_gone_on(view, again):
        return _verdict(view, again)
    why = why or _why_not_on(view, again)
    return failed(view, why, "resume") if why else "wait"


def _why_not_again(view: View, interrupted: float) -> str | None:
    """Why there is no second start."""
    if view.ended:
        follows = view.starts[0].follows if view.starts else None
        return f"it was not started again: {follows or view.ended}"
    if view.now - interrupted > view.limits.timeout:
        return f"it was not started again within {_span(view.limits.timeout)}"
    return None


def _why_not_on(view: View, again: Start) -> str | None:
    """Why the second start does not come to anything."""
    name = _chosen_name(again)
    if why := _why_ended(view, again):
        return f"it ended after the resume from {name}: {why}"
    if again.is_time_over:
        return _time_is_over(view, f"after the resume from {name}, before the program had gone on")
    if view.now - again.step.begin > view.limits.timeout:
        what = "no step" if _of(view, view.starts[0]) else "no further checkpoint"
        return f"{what} within {_span(view.limits.timeout)} after the resume from {name}"
    return None


def _began_anew(view: View, again: Start) -> str | None:
    """Why the program surely did not resume from a checkpoint."""
    chosen = again.step.chosen.text("checkpoint") if again.step.chosen else None
    if chosen is None:
        was = _name(_newest(view.starts[0]))
        return f"it started from its beginning: {was} was no complete checkpoint any more"
    name, at_step = Path(chosen).name, again.step.from_step
    first = min((one.first_step for one in _of(view, again) if one.first_step is not None), default=None)
    before = _of(view, view.starts[0])
    if first is not None and before:
        began = min((one.first_step for one in before if one.first_step is not None), default=None)
        is_anew = began is not None and first <= began and first != _told(view, at_step)
        is_behind = _told(view, at_step) is not None and first < (at_step or 0)
        if is_anew or is_behind:
            return f"resumed at step {max(first - 1, 0)} although checkpoint {name} was there"
    # Where the program tells its steps, these are what counts: it may well save once more what it was given.
    if view.anew is not None and not before:
        return f"saved {view.anew} once more although checkpoint {name} was there: it did not go on from it"
    return None


def _told(view: View, at_step: int | None) -> int | None:
    """The step of a checkpoint, where the program counts its steps as the checkpoint does."""
    before, start = _of(view, view.starts[0]), view.starts[0].step
    if at_step is None or not before:
        return None
    last = max([one.step for one in before] + ([start.at_step] if start.at_step is not None else []))
    first = min(one.step if one.first_step is None else one.first_step for one in before)
    return at_step if first - 1 <= at_step <= last else None


def _has_gone_on(view: View, again: Start) -> bool:
    """Whether the resumed program has made a step of its own, or where it tells none, a checkpoint."""
    if _of(view, view.starts[0]):
        steps = [one.step for one in _of(view, again)]
        if again.step.at_step is not None and again.has_ended:
            steps.append(again.step.at_step)
        beyond = _told(view, again.step.from_step)
        return bool(steps) and (beyond is None or max(steps) > beyond)
    from_step = again.step.from_step
    return any(
        one.at_step is None or from_step is None or one.at_step > from_step for one in again.step.marks
    )


def _verdict(view: View, again: Start) -> Verdict:
    """It has gone on: what is left is whether it went on well."""
    checks = _checks(view)
    bad = next((one for one in checks if one.outcome == "failed"), None)
    name = _chosen_name(again)
    return Verdict(bad is None, bad.text if bad else f"it went on from {name}", checks)


def failed(view: View, reason: str, what: str) -> Verdict:
    """The verdict where it did not come through one of the checks, with those before that."""
    checks = [one for one in _checks(view) if one.name not in {what, "loss"}]
    return Verdict(passed=False, reason=reason, checks=(*checks, Check(what, "failed", reason)))


def _checks(view: View) -> tuple[Check, ...]:
    found: list[Check | None] = [_checkpoint(view), _signal(view), _resume(view), _loss(view)]
    return tuple(one for one in found if one is not None)


def _checkpoint(view: View) -> Check | None:
    if not view.starts:
        return None
    start = view.starts[0].step
    first = min(start.marks, key=lambda mark: mark.at, default=None)
    if first is None:
        return None
    took = max(first.at - start.begin, 0.0)
    return Check("checkpoint", "ok", f"{_name(first)} was complete {took:.0f} s after the start")


def _signal(view: View) -> Check | None:
    """What became of the request: what a run that is ended at its time limit, or preempted, depends on."""
    asked = view.asked
    if asked is None:
        return None
    marks = [mark for mark in view.starts[0].step.marks if mark.at >= asked.at] if view.starts else []
    none_catches = asked.ranks > 0 and asked.catching == 0
    if marks:
        took = f"{_name(marks[0])} was complete {marks[0].at - asked.at:.1f} s after the request"
        besides = f"; no rank catches {asked.signal}: it saves often enough without" if none_catches else ""
        return Check("signal", "ok", took + besides)
    if view.interrupted is None:
        return None
    who = f"no rank catches {asked.signal}, and " if none_catches else ""
    text = (
        f"the program took no notice of the request: {who}no checkpoint came within "
        f"{_span(view.limits.lead)}; at a time limit, the work since its last checkpoint is lost"
    )
    return Check("signal", "warning", text)


def _resume(view: View) -> Check | None:
    if len(view.starts) < 2 or view.starts[1].step.chosen is None or view.interrupted is None:
        return None
    again = view.starts[1]
    pause = again.step.begin - view.interrupted
    took = f"started again from {_chosen_name(again)}, {pause:.1f} s after it was ended"
    firsts = [one.first_step for one in _of(view, again) if one.first_step is not None]
    if firsts:
        return Check("resume", "ok", f"{took}; its first step was {min(firsts)}")
    marks = again.step.marks
    return Check("resume", "ok", f"{took}; it has saved {_name(marks[-1])} since" if marks else took)


def _loss(view: View) -> Check | None:
    """Whether the loss went on where it was."""
    if len(view.starts) < 2:
        return None
    before = [one for one in _of(view, view.starts[0]) if one.loss is not None]
    after = next((one for one in _of(view, view.starts[1]) if one.loss is not None), None)
    if not before or after is None or after.loss is None:
        told = "the program tells none" if not before else "the program has told none since"
        return Check("loss", "not checked", told)
    # A start that goes back to its checkpoint makes some steps once more: they are compared with themselves.
    last = next((one for one in reversed(before) if one.step <= after.step), before[0])
    was = last.loss if last.loss is not None else 0.0
    if not isfinite(was):
        return Check("loss", "not checked", f"it was {was} before the resume already")
    rises = [(b.loss or 0.0) - (a.loss or 0.0) for a, b in pairwise(before)]
    allowed = max(RISE * abs(was), NOISE * max([0.0, *filter(isfinite, rises)]))
    if not isfinite(after.loss) or after.loss > was + allowed:
        return Check("loss", "failed", f"loss went from {was:.4g} to {after.loss:.4g} after the resume")
    text = f"{was:.4g} at step {last.step}, {after.loss:.4g} at step {after.step} after the resume"
    return Check("loss", "ok", text)


def _of(view: View, start: Start) -> list[Sample]:
    return [one for one in view.samples if one.start == start.key]


def _newest(start: Start) -> Mark | None:
    return start.step.marks[-1] if start.step.marks else None


def _name(mark: Mark | None) -> str:
    return Path(mark.path).name if mark else "the checkpoint"


def _chosen_name(start: Start) -> str:
    path = start.step.chosen.text("checkpoint") if start.step.chosen else None
    return Path(path).name if path else "its beginning"


def _time_is_over(view: View, when: str) -> str:
    return f"the {_span(view.limits.job)} of the job were over {when}; --time gives it more"


def _span(seconds: float) -> str:
    return format_duration(round(seconds))
