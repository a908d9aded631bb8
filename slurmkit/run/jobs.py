"""The state of a run as the records of its jobs make it. Pure."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING

from slurmkit.run import ending
from slurmkit.run.state import LISTING_GRACE, age
from slurmkit.slurm.ids import TaskSet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slurmkit.run.history import History
    from slurmkit.run.record import RunRecord
    from slurmkit.run.state import RunState, Sight
    from slurmkit.slurm.ids import JobId
    from slurmkit.slurm.records import Job

NEVER = "DependencyNeverSatisfied"
CANCEL_GRACE = timedelta(minutes=1)


def from_jobs(known: RunState, record: RunRecord | None, history: History, sight: Sight) -> RunState:
    """`known`, completed by the records of its jobs, of which there is at least one."""
    expected = len(TaskSet.parse(record.array)) if record and record.array else 1
    jobs = sight.jobs
    tasks = _count(jobs)
    starts = [job.start_time for job in jobs if job.start_time and not job.state.is_pending]
    known = known._replace(
        tasks=tasks if expected > 1 else {},
        started=known.started or min(starts, default=None),
        attempts=known.attempts or int(bool(starts)),  # without an agent nobody wrote them down
        nodes=tuple(dict.fromkeys(node for job in jobs for node in job.nodes)) or known.nodes,
        cluster=known.cluster or jobs[0].cluster,
    )
    going = [job for job in jobs if not job.state.is_final]
    if going:
        state = _going(known, going, is_leaving=_is_leaving(history, sight))
        if state.state == "pending" and not sight.queue and history.is_running:
            # slurmdbd hears of a start later than the agent, and not at all while slurmctld is away.
            return state._replace(state="running", reason="slurmctld does not answer")
        return state
    seen = sum(tasks.values())
    if seen < expected:
        return _partly_seen(known, sight, f"{seen} of {expected} tasks have ended")
    worst = max(jobs, key=lambda job: job.state.severity)
    success = worst.state.is_success
    return known._replace(
        state=ending.run_state(worst),
        job_state=worst.state.name,
        reason=None if success else ending.reason(worst, history.attempt),
        exit_code=0 if success else ending.exit_code(jobs),
        ended=max((job.end_time for job in jobs if job.end_time), default=None),
    )


def _count(jobs: Sequence[Job]) -> dict[str, int]:
    """How many jobs, or tasks of an array, are in which state; each counted once, whatever lists it twice."""
    states: dict[JobId | int, str] = {}
    # Records of several tasks first: a task that has one of its own is no more among them.
    for job in sorted(jobs, key=lambda job: job.id.tasks is None):
        task = job.id.task
        for one in job.id.tasks or [job.id if task is None else task]:
            states[one] = job.state.name
    return dict(Counter(states.values()))


def _is_leaving(history: History, sight: Sight) -> bool:
    """Whether the job was cancelled a moment ago, so that what Slurm told of it may be older."""
    asked = history.cancel_requested
    return asked is not None and sight.at - asked < CANCEL_GRACE


def _going(known: RunState, going: Sequence[Job], *, is_leaving: bool) -> RunState:
    """Something is in the queue: one job that has started speaks for all."""
    active = [job for job in going if not job.state.is_pending]
    if not active:
        reasons = dict.fromkeys(job.reason for job in going if job.reason and job.reason != "None")
        state = "blocked" if list(reasons) == [NEVER] and not is_leaving else "pending"
        word = going[0].state.name
        text = ", ".join(reasons) or (None if word == "PENDING" else word)
        exit_code = 1 if state == "blocked" else None
        return known._replace(state=state, job_state=word, reason=text, exit_code=exit_code)
    first = next((job for job in active if job.state.name == "RUNNING"), active[0])
    word = str(first.state)
    if not first.state.is_known:
        word += ", a state that slurmkit does not know"
    return known._replace(
        state="running",
        job_state=first.state.name,
        reason=None if word == "RUNNING" else word,
    )


def _partly_seen(known: RunState, sight: Sight, text: str) -> RunState:
    """Tasks of an array are in no listing: they are not over for that (trap 160)."""
    if sight.accounting is None and age(known, sight) > LISTING_GRACE:
        return known._replace(
            state="lost", exit_code=1, reason=f"{text}; accounting is off, the rest is lost"
        )
    return known._replace(state="running", reason=f"{text}, the others are not listed yet")
