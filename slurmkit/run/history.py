"""What the events of a run add up to, without asking Slurm. Pure: events in, facts out.

Later events overrule earlier ones: an attempt that starts takes back an end that was written before it,
as when an admin requeues a job that had ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from slurmkit.run.events import Event


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


class History(NamedTuple):
    """The facts of a run's event log. What has not happened is None."""

    submitting: datetime | None = None
    submitted: datetime | None = None
    job_id: str | None = None
    cluster: str | None = None
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
        """Whether an attempt has started whose end nobody wrote."""
        return self.attempt is not None and self.attempt.ended is None


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
            facts["submitting"] = event.time
        case "submitted" | "adopted":
            facts.setdefault("submitted", event.time)
            facts |= {"job_id": event.text("job_id"), "cluster": event.text("cluster")}
        case "not-submitted":
            facts["not_submitted"] = event.text("reason") or "sbatch was not carried out"
        case "run-ended":
            facts["run_ended"] = event
        case "job-ended":
            facts["job_ended"] = event
        case "cancel-requested":
            facts["cancel_requested"] = event.time
    if event.kind in {"submitting", "submitted", "adopted", "attempt-started"}:
        for end in ("not_submitted", "run_ended", "job_ended"):
            facts.pop(end, None)


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
            return {"ended": event.time, "exit_code": exit_code, "signal": signal, "reason": reason}
    return {}
