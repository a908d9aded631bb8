"""The state of a run: its events and Slurm's answers put together. Pure; each state has its reason."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from slurmkit.run.events import Event
    from slurmkit.run.history import History
    from slurmkit.run.record import RunRecord
    from slurmkit.slurm.records import Job

SUBMIT_GRACE = timedelta(minutes=5)
"""How long after an intent its job may still turn up: sbatch and slurmctld give a request up earlier."""

LISTING_GRACE = timedelta(minutes=2)
"""How long after its receipt a job may be in no listing: slurmdbd learns of it late (trap 150)."""


_NOT_YET = "sbatch's answer is not there yet; Slurm lists no job of this run so far"


class Meaning(NamedTuple):
    """What a state of a run means."""

    text: str
    is_end: bool = False


STATES: Mapping[str, Meaning] = {
    "submitting": Meaning("sbatch has been called and has not answered yet"),
    "not-submitted": Meaning("Slurm has no job of this run", is_end=True),
    "pending": Meaning("the job waits in the queue"),
    "running": Meaning("the job holds its nodes"),
    "completed": Meaning("the job ended with exit code 0", is_end=True),
    "interrupted": Meaning("the job is gone, the work is not done and nobody has said stop", is_end=True),
    "failed": Meaning("the job ended, and not well", is_end=True),
    "cancelled": Meaning("somebody cancelled the job", is_end=True),
    "blocked": Meaning("the job waits for what can never happen", is_end=True),
    "lost": Meaning("Slurm knows the job no more, and nothing tells how it ended", is_end=True),
}
"""Every state of a run in the order of its life, what it means, and whether anything more will happen."""


class Sight(NamedTuple):
    """What Slurm answered about one run: `jobs` are its own, from the queue where that has them.

    `queue` and `accounting` say whether squeue and sacct answered; `accounting` is None where it is off.
    `at` is when they were asked: a grace is over only where Slurm was asked after it.
    """

    jobs: Sequence[Job] = ()
    queue: bool = False
    accounting: bool | None = False
    at: datetime = datetime.max.replace(tzinfo=UTC)

    @property
    def is_blind(self) -> bool:
        """Whether nothing was seen because one of them did not answer."""
        return not self.jobs and (not self.queue or self.accounting is False)


class RunState(NamedTuple):
    """Where a run stands, and why."""

    id: str
    state: str
    reason: str | None = None
    name: str | None = None
    job_id: str | None = None
    cluster: str | None = None
    job_state: str | None = None
    """Slurm's own word; of an array that has ended, the worst."""
    exit_code: int | None = None
    """As a shell would report it, once the run has ended."""
    submitted: datetime | None = None
    started: datetime | None = None
    ended: datetime | None = None
    nodes: tuple[str, ...] = ()
    attempts: int = 0
    attempt: str | None = None
    """Name of the last attempt whose agent has written; of an array, that of one of its tasks."""
    tasks: Mapping[str, int] = MappingProxyType({})
    """Of an array: how many tasks are in which of Slurm's states."""

    @property
    def is_end(self) -> bool:
        """Whether nothing more is to be expected of this run."""
        return STATES[self.state].is_end

    @property
    def is_success(self) -> bool:
        """Whether the run ended, and well."""
        return self.state == "completed"


def judge(run_id: str, record: RunRecord | None, history: History, sight: Sight) -> RunState:
    """The state of a run from all that is known of it. Slurm's word goes before the events'."""
    attempt = history.attempt
    known = RunState(
        id=run_id,
        state="submitting",
        name=record.name if record else None,
        job_id=history.job_id,
        cluster=history.cluster,
        submitted=history.submitted or history.submitting or (record.created if record else None),
        started=history.attempts[0].started if history.attempts else None,
        nodes=attempt.nodes if attempt else (),
        attempts=len(history.attempts),
        attempt=attempt.name if attempt else None,
    )
    if history.resubmitting:
        return known._replace(state="submitting", reason=_resubmitting(history, sight))
    state = _judge(known, record, history, sight)
    if state.state == "interrupted" and history.cancel_requested:
        return state._replace(state="cancelled", reason="cancelled while it had no job")
    return state


def _judge(known: RunState, record: RunRecord | None, history: History, sight: Sight) -> RunState:
    if sight.jobs:
        from slurmkit.run.jobs import from_jobs

        return from_jobs(known, record, history, sight)
    if history.job_ended:
        return _from_job_ended(known, history.job_ended)
    if history.run_ended:
        return _from_run_ended(known, history, history.run_ended)
    if history.job_id is None:
        return _without_job(known, history, sight)
    return _without_listing(known, record, history, sight)


def goes_on(record: RunRecord | None, history: History) -> bool:
    """Whether a run whose job is gone has work left that nobody has called off."""
    return record is not None and record.recovers and record.array is None and history.run_ended is None


def interrupted(state: RunState, why: str) -> RunState:
    """The state of a run whose job is gone while its work is not done; says what to do."""
    advice = f"`slurmkit supervise` or `slurmkit resume {state.id}` carries on"
    return state._replace(state="interrupted", reason=f"{why}; {advice}", exit_code=state.exit_code or 1)


def _from_job_ended(known: RunState, event: Event) -> RunState:
    return known._replace(
        state=event.text("run_state") or "failed",
        job_state=event.text("state"),
        reason=event.text("reason"),
        exit_code=event.number("exit_code"),
        started=known.started or _time(event, "started"),
        ended=_time(event, "ended"),
        nodes=tuple(map(str, event.fields.get("nodes") or known.nodes)),
        tasks=event.fields.get("tasks") or {},
    )


def _time(event: Event, name: str) -> datetime | None:
    seconds = event.fields.get(name)
    return datetime.fromtimestamp(seconds, UTC) if isinstance(seconds, int | float) else None


def _from_run_ended(known: RunState, history: History, event: Event) -> RunState:
    """Slurm has nothing (any more), but the agent wrote how it ended."""
    from slurmkit.run.ending import exit_reason

    exit_code = event.number("exit_code") or 0
    outcome = event.text("outcome") or ""
    return known._replace(
        state=outcome if outcome in STATES else "failed" if exit_code else "completed",
        reason=event.text("reason") or exit_reason(exit_code, history.attempt) if exit_code else None,
        exit_code=exit_code,
        ended=event.time,
    )


def _without_job(known: RunState, history: History, sight: Sight) -> RunState:
    if history.not_submitted:
        return known._replace(state="not-submitted", reason=history.not_submitted, exit_code=1)
    if not sight.queue:
        return known._replace(reason=f"sbatch's answer was lost, and {_silent(sight)}")
    if age(known, history, sight) <= SUBMIT_GRACE:
        return known._replace(reason=_NOT_YET)
    if sight.accounting is False:
        return known._replace(reason=f"sbatch's answer was lost, and {_silent(sight)}")
    reason = "the submit was interrupted before Slurm took the job"
    if sight.accounting is None:
        reason = "the submit was interrupted and the queue has no job of this run (accounting is off)"
    return known._replace(state="not-submitted", reason=reason, exit_code=1)


def _resubmitting(history: History, sight: Sight) -> str:
    """Why it is not known whether there is a job of a later submit."""
    if not sight.queue or is_given_up(history, sight._replace(accounting=True)):
        return f"sbatch's answer was lost, and {_silent(sight)}"
    return _NOT_YET


def is_given_up(history: History, sight: Sight) -> bool:
    """Whether a later submit surely made no job: Slurm answers, and lists none after the grace."""
    intent = history.resubmitting
    if intent is None or not sight.queue or sight.accounting is False:
        return False
    return sight.at - intent.time > SUBMIT_GRACE


def _without_listing(known: RunState, record: RunRecord | None, history: History, sight: Sight) -> RunState:
    """Slurm gave a job id, and now lists nothing under it: absent is not finished."""
    last_known = "running" if history.is_running else "pending"
    if sight.is_blind:
        return known._replace(state=last_known, reason=f"last known; {_silent(sight)}")
    if age(known, history, sight) <= LISTING_GRACE:
        return known._replace(state=last_known, reason="Slurm does not list the job yet")
    reason = "neither squeue nor sacct has the job any more"
    if sight.accounting is None:
        reason = "squeue has the job no more, and accounting is off"
    if goes_on(record, history):
        return interrupted(known, reason)
    return known._replace(state="lost", reason=reason, exit_code=1)


def _silent(sight: Sight) -> str:
    return "accounting does not answer" if sight.queue else "Slurm does not answer"


def age(known: RunState, history: History, sight: Sight) -> timedelta:
    """How old the run's last submit was when Slurm was asked."""
    submitted = history.job_submitted or known.submitted
    return sight.at - submitted if submitted else timedelta.max
