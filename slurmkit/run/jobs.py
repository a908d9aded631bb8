"""The state of a run as the records of its jobs make it. Pure."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING

from slurmkit.run import ending, waiting
from slurmkit.run.history import REPLACED
from slurmkit.run.state import LISTING_GRACE, age, goes_on, interrupted
from slurmkit.slurm.ids import TaskSet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slurmkit.run.history import History
    from slurmkit.run.record import RunRecord
    from slurmkit.run.state import RunState, Sight
    from slurmkit.slurm.ids import JobId
    from slurmkit.slurm.records import Job

CANCEL_GRACE = timedelta(minutes=1)
REQUEUE_GRACE = timedelta(minutes=2)
"""How long after the intent of a requeue the job may still show as ended."""

NOT_INTERRUPTED = frozenset({"CANCELLED", "DEADLINE", "REVOKED", "COMPLETED"})
"""Ends that are somebody's will, or after which there is nothing left to do."""


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
        state = _going(known, going, history, sight)
        if state.state == "pending" and not sight.queue and history.is_running:
            # slurmdbd hears of a start later than the agent, and not at all while slurmctld is away.
            return state._replace(state="running", reason="slurmctld does not answer")
        return state
    seen = sum(tasks.values())
    if seen < expected:
        return _partly_seen(known, history, sight, f"{seen} of {expected} tasks have ended")
    return _ended(known, record, history, sight)


def _ended(known: RunState, record: RunRecord | None, history: History, sight: Sight) -> RunState:
    """All jobs are over: the run as well, or not."""
    worst = max(sight.jobs, key=lambda job: job.state.severity)
    success = worst.state.is_success
    told = history.run_ended.text("reason") if history.run_ended else None
    state = known._replace(
        state=ending.run_state(worst),
        job_state=worst.state.name,
        reason=None if success else told or ending.reason(worst, history.attempt),
        exit_code=0 if success else ending.exit_code(sight.jobs),
        ended=max((job.end_time for job in sight.jobs if job.end_time), default=None),
    )
    if not goes_on(record, history):
        return state
    intent = history.requeueing
    if intent is not None and sight.at - intent.time < REQUEUE_GRACE:
        return known._replace(state="pending", job_state=worst.state.name, reason="being requeued")
    meant = history.attempt.next if history.attempt else None
    is_moving = meant in {"requeue", "resubmit"} and worst.state.name != "CANCELLED"
    if worst.state.name not in NOT_INTERRUPTED or is_moving or meant == REPLACED:
        return interrupted(state, state.reason or "the job has ended before it was submitted again")
    return state


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


def _going(known: RunState, going: Sequence[Job], history: History, sight: Sight) -> RunState:
    """Something is in the queue: one job that has started speaks for all."""
    active = [job for job in going if not job.state.is_pending]
    if not active:
        return _waiting(known, going, history, sight)
    first = next((job for job in active if job.state.name == "RUNNING"), active[0])
    word = str(first.state)
    if not first.state.is_known:
        word += ", a state that slurmkit does not know"
    return known._replace(
        state="running",
        job_state=first.state.name,
        reason=None if word == "RUNNING" else word,
    )


def _waiting(known: RunState, going: Sequence[Job], history: History, sight: Sight) -> RunState:
    """All that is left waits in the queue: for its turn, or for what does not come by itself."""
    word = going[0].state.name
    known = known._replace(job_state=word)
    if not _is_leaving(history, sight):
        why = {waiting.stuck(job, history, sight.at) for job in going}
        if None not in why:
            return known._replace(state="blocked", reason="; ".join(sorted(filter(None, why))), exit_code=1)
    words = dict.fromkeys(filter(None, (waiting.in_words(job, history) for job in going)))
    text = ", ".join(words) or (None if word == "PENDING" else word)
    return known._replace(state="pending", reason=text)


def _partly_seen(known: RunState, history: History, sight: Sight, text: str) -> RunState:
    """Tasks of an array are in no listing: they are not over for that (trap 160)."""
    if sight.accounting is None and age(known, history, sight) > LISTING_GRACE:
        return known._replace(
            state="lost", exit_code=1, reason=f"{text}; accounting is off, the rest is lost"
        )
    return known._replace(state="running", reason=f"{text}, the others are not listed yet")
