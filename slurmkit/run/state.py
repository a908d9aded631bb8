"""The state of a run: its events and Slurm's answers put together. Pure; each state has its reason."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.run import ending
from slurmkit.slurm.ids import TaskSet

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

NEVER = "DependencyNeverSatisfied"


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
    "failed": Meaning("the job ended, and not well", is_end=True),
    "cancelled": Meaning("somebody cancelled the job", is_end=True),
    "blocked": Meaning("the job waits for what can never happen", is_end=True),
    "lost": Meaning("Slurm knows the job no more, and nothing tells how it ended", is_end=True),
}
"""Every state of a run in the order of its life, what it means, and whether anything more will happen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What Slurm answered about one run: `jobs` are its own, from the queue where that has them.

    `queue` and `accounting` say whether squeue and sacct answered; `accounting` is None where it is off.
    `at` is when they were asked: a grace is over only where Slurm was asked after it.
    """

    jobs: Sequence[Job] = ()
    queue: bool = False
    accounting: bool | None = False
    at: datetime = field(default=datetime.max.replace(tzinfo=UTC), compare=False)

    @property
    def is_blind(self) -> bool:
        """Whether nothing was seen because one of them did not answer."""
        return not self.jobs and (not self.queue or self.accounting is False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
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
    tasks: Mapping[str, int] = field(default_factory=dict)
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
    )
    if sight.jobs:
        expected = len(TaskSet.parse(record.array)) if record and record.array else 1
        return _from_jobs(known, history, sight, expected)
    if history.job_ended:
        return _from_job_ended(known, history.job_ended)
    if history.run_ended:
        return _from_run_ended(known, history, history.run_ended)
    if history.job_id is None:
        return _without_job(known, history, sight)
    return _without_listing(known, history, sight)


def _from_jobs(known: RunState, history: History, sight: Sight, expected: int) -> RunState:
    jobs = sight.jobs
    tasks = _count(jobs)
    starts = [job.start_time for job in jobs if job.start_time and not job.state.is_pending]
    known = replace(
        known,
        tasks=tasks if expected > 1 else {},
        started=known.started or min(starts, default=None),
        nodes=tuple(dict.fromkeys(node for job in jobs for node in job.nodes)) or known.nodes,
        cluster=known.cluster or jobs[0].cluster,
    )
    going = [job for job in jobs if not job.state.is_final]
    if going:
        return _going(known, going)
    seen = sum(tasks.values())
    if seen < expected:
        return _partly_seen(known, sight, f"{seen} of {expected} tasks have ended")
    worst = max(jobs, key=lambda job: job.state.severity)
    success = worst.state.is_success
    return replace(
        known,
        state=ending.run_state(worst),
        job_state=worst.state.name,
        reason=None if success else ending.reason(worst, history.attempt),
        exit_code=0 if success else ending.exit_code(jobs),
        ended=max((job.end_time for job in jobs if job.end_time), default=None),
    )


def _count(jobs: Sequence[Job]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for job in jobs:
        number = len(job.id.tasks) if job.id.tasks else 1
        counts[job.state.name] = counts.get(job.state.name, 0) + number
    return counts


def _going(known: RunState, going: Sequence[Job]) -> RunState:
    """Something is in the queue: one job that has started speaks for all."""
    active = [job for job in going if not job.state.is_pending]
    if not active:
        reasons = dict.fromkeys(job.reason for job in going if job.reason and job.reason != "None")
        state = "blocked" if list(reasons) == [NEVER] else "pending"
        word = going[0].state.name
        text = ", ".join(reasons) or (None if word == "PENDING" else word)
        exit_code = 1 if state == "blocked" else None
        return replace(known, state=state, job_state=word, reason=text, exit_code=exit_code)
    first = next((job for job in active if job.state.name == "RUNNING"), active[0])
    word = str(first.state)
    if not first.state.is_known:
        word += ", a state that slurmkit does not know"
    return replace(
        known,
        state="running",
        job_state=first.state.name,
        reason=None if word == "RUNNING" else word,
    )


def _partly_seen(known: RunState, sight: Sight, text: str) -> RunState:
    """Tasks of an array are in no listing: they are not over for that (trap 160)."""
    if sight.accounting is None and _age(known, sight) > LISTING_GRACE:
        return replace(
            known, state="lost", exit_code=1, reason=f"{text}; accounting is off, the rest is lost"
        )
    return replace(known, state="running", reason=f"{text}, the others are not listed yet")


def _from_job_ended(known: RunState, event: Event) -> RunState:
    return replace(
        known,
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
    seconds = event.number(name)
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def _from_run_ended(known: RunState, history: History, event: Event) -> RunState:
    """Slurm has nothing (any more), but the agent wrote how it ended."""
    exit_code = event.number("exit_code") or 0
    return replace(
        known,
        state="failed" if exit_code else "completed",
        reason=ending.exit_reason(exit_code, history.attempt) if exit_code else None,
        exit_code=exit_code,
        ended=event.time,
    )


def _without_job(known: RunState, history: History, sight: Sight) -> RunState:
    if history.not_submitted:
        return replace(known, state="not-submitted", reason=history.not_submitted, exit_code=1)
    if not sight.queue:
        return replace(known, reason=f"sbatch's answer was lost, and {_silent(sight)}")
    if _age(known, sight) <= SUBMIT_GRACE:
        return replace(
            known, reason="sbatch's answer is not there yet; Slurm lists no job of this run so far"
        )
    if sight.accounting is False:
        return replace(known, reason=f"sbatch's answer was lost, and {_silent(sight)}")
    reason = "the submit was interrupted before Slurm took the job"
    if sight.accounting is None:
        reason = "the submit was interrupted and the queue has no job of this run (accounting is off)"
    return replace(known, state="not-submitted", reason=reason, exit_code=1)


def _without_listing(known: RunState, history: History, sight: Sight) -> RunState:
    """Slurm gave a job id, and now lists nothing under it: absent is not finished."""
    last_known = "running" if history.is_running else "pending"
    if sight.is_blind:
        return replace(known, state=last_known, reason=f"last known; {_silent(sight)}")
    if _age(known, sight) <= LISTING_GRACE:
        return replace(known, state=last_known, reason="Slurm does not list the job yet")
    reason = "neither squeue nor sacct has the job any more"
    if sight.accounting is None:
        reason = "squeue has the job no more, and accounting is off"
    return replace(known, state="lost", reason=reason, exit_code=1)


def _silent(sight: Sight) -> str:
    return "accounting does not answer" if sight.queue else "Slurm does not answer"


def _age(known: RunState, sight: Sight) -> timedelta:
    return sight.at - known.submitted if known.submitted else timedelta.max
