"""What the events of a run add up to, without asking Slurm. Pure: events in, facts out.

Later events overrule earlier ones: an attempt that starts takes back an end that was written before it,
as when an admin requeues a job that had ended.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from slurmkit.run.events import Event

USER = "user"
"""Who submits a run again by hand; others are `agent` and `supervisor`."""


REPLACED = "replaced"
"""What comes next for an attempt whose job is cancelled because it has lost its agent."""


class Attempt(NamedTuple):
    """One start of the run by Slurm, as its agent wrote it down."""

    name: str
    started: datetime
    job_id: str | None = None
    host: str | None = None
    nodes: tuple[str, ...] = ()
    ended: datetime | None = None
    exit_code: int | None = None
    signal: int | None = None
    step: int | None = None
    """Number of the last step start, from 0."""
    first_failure: Mapping[str, object] | None = None
    """The rank that failed first in the last step: `rank`, `host`, `exit_code` or `signal`, `stderr_tail`."""
    reason: str | None = None
    """Why the agent ended it, where no rank is to blame: it hung, nodes were unfit."""
    next: str | None = None
    """What the agent meant to come next: `requeue`, `resubmit`, `stop`, `done`, `leave`."""


class History(NamedTuple):
    """The facts of a run's event log. What has not happened is None."""

    submitting: datetime | None = None
    submitted: datetime | None = None
    job_id: str | None = None
    """The run's job, of several the last one."""
    cluster: str | None = None
    job_submitted: datetime | None = None
    """When the receipt of this job came."""
    submits: int = 0
    """How often sbatch was to be called for this run."""
    resubmitting: Event | None = None
    """The intent of a later submit, until its receipt is there, or it is known that there is no job."""
    options: Mapping[str, str] = MappingProxyType({})
    """Options of sbatch in which the last job differs from the job file."""
    requeueing: Event | None = None
    """The intent of a requeue, until its receipt is there, or the job starts again."""
    not_submitted: str | None = None
    """Why Slurm has no job of this run."""
    cancel_requested: datetime | None = None
    attempts: tuple[Attempt, ...] = ()
    run_ended: Event | None = None
    """The agent's word on the end."""
    job_ended: Event | None = None
    """Slurm's word on the end, kept so that nobody has to ask again."""
    last: datetime | None = None

    @property
    def attempt(self) -> Attempt | None:
        """The attempt that started last."""
        return self.attempts[-1] if self.attempts else None

    @property
    def is_running(self) -> bool:
        """Whether an attempt of the last job has started whose end nobody wrote."""
        attempt = self.attempt
        return attempt is not None and attempt.ended is None and _is_of(attempt, self.job_id)

    @property
    def is_submitting(self) -> bool:
        """Whether a submit was begun whose job is neither known nor known not to be."""
        if self.resubmitting is not None:
            return True
        return self.submits > 0 and self.job_id is None and self.not_submitted is None

    @property
    def was_told_to_stop(self) -> bool:
        """Whether the run is at its end by somebody's word: its agent's, the supervisor's or a user's."""
        return self.run_ended is not None or self.cancel_requested is not None


def fold(events: Iterable[Event]) -> History:
    """The facts after all `events`; kinds that this version does not know change nothing."""
    facts: dict[str, Any] = {}
    attempts: dict[str, Attempt] = {}
    for event in events:
        facts["last"] = event.time
        _note(facts, event)
        if event.kind == "attempt-started":
            attempt = _attempt(event)
            attempts[attempt.name] = attempt
            # The job itself is the best receipt: it counts where sbatch's was lost.
            facts.setdefault("job_id", event.text("array_job_id") or attempt.job_id)
        elif changes := _changes(event):
            # Tasks of an array interleave, so the event says which attempt it is about.
            name = event.text("attempt") or next(reversed(attempts), "")
            if name in attempts:
                attempts[name] = attempts[name]._replace(**changes)
    return History(**facts, attempts=tuple(attempts.values()))


def _note(facts: dict[str, Any], event: Event) -> None:
    """Write down what an event says about the run as a whole, and take back what it overrules."""
    match event.kind:
        case "submitting":
            _note_intent(facts, event)
        case "submitted" | "adopted":
            facts.setdefault("submitted", event.time)
            facts |= {"job_id": event.text("job_id"), "cluster": event.text("cluster")}
            _note_receipt(facts, event.time)
        case "not-submitted":
            facts["not_submitted"] = event.text("reason") or "sbatch was not carried out"
            facts.pop("resubmitting", None)
        case "attempt-started" if _is_by_resubmit(facts, event):
            # The job itself is the best receipt: it counts where sbatch's was lost.
            facts["job_id"] = event.text("job_id")
            _note_receipt(facts, event.time)
        case "attempt-started" | "requeued":
            facts.pop("requeueing", None)
        case "requeueing":
            facts["requeueing"] = event
        case "run-ended":
            facts["run_ended"] = event
            # Slurm's word was that the job is over; now somebody has said that the run is.
            facts.pop("job_ended", None)
        case "job-ended" if event.text("job_id") in {None, facts.get("job_id")}:
            facts["job_ended"] = event
        case "cancel-requested":
            facts["cancel_requested"] = event.time
    if event.kind in {"submitted", "adopted", "attempt-started"}:
        for end in ("not_submitted", "run_ended", "job_ended"):
            facts.pop(end, None)


def _note_intent(facts: dict[str, Any], event: Event) -> None:
    number = event.number("number") or 1
    facts["submits"] = max(number, facts.get("submits", 0))
    if number == 1:
        facts["submitting"] = event.time
        return
    facts["resubmitting"] = event
    if event.text("by") == USER:
        facts.pop("cancel_requested", None)


def _note_receipt(facts: dict[str, Any], at: datetime) -> None:
    facts["job_submitted"] = at
    facts.pop("requeueing", None)
    if (intent := facts.pop("resubmitting", None)) is not None:
        facts["options"] = intent.fields.get("options") or {}


def _is_by_resubmit(facts: Mapping[str, Any], event: Event) -> bool:
    """Whether the attempt is one of a job that was submitted again, and whose receipt is not there."""
    return "resubmitting" in facts and event.text("job_id") != facts.get("job_id")


def _is_of(attempt: Attempt, job_id: str | None) -> bool:
    """Whether an attempt is one of the job, or of a task of it."""
    return job_id is None or attempt.job_id is None or attempt.job_id.partition("_")[0] == job_id


def _attempt(event: Event) -> Attempt:
    job_id = event.text("job_id")
    return Attempt(
        name=event.text("attempt") or f"{job_id}-0",
        started=event.time,
        job_id=job_id,
        host=event.text("host"),
        nodes=tuple(map(str, event.fields.get("nodes") or ())),
    )


def _changes(event: Event) -> dict[str, Any]:
    """What an event changes about its attempt."""
    match event.kind:
        case "step-started":
            return {"step": event.number("step"), "first_failure": None}
        case "step-ended":
            return {"first_failure": event.fields.get("first_failure")}
        case "attempt-ended":
            exit_code, signal = event.number("exit_code"), event.number("signal")
            reason = event.text("reason")
            return {
                "ended": event.time,
                "exit_code": exit_code,
                "signal": signal,
                "reason": reason,
                "next": event.text("next"),
            }
    return {}
