"""Why a job of a run waits in the queue, and whether it does so for ever. Pure."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from slurmkit.run.history import History
    from slurmkit.slurm.records import Job

NEVER = "DependencyNeverSatisfied"
HOLD_GRACE = timedelta(minutes=2)
"""How long a requeue may keep its job held: the agent gives it another list of nodes meanwhile."""

HELD_BY_SLURM: Mapping[str, str] = {
    "jobholdmaxrequeue": "Slurm holds the job: it was requeued as often as the cluster allows",
    "launch failed requeued held": "Slurm holds the job: its launch on a node failed, and it was requeued",
    "jobheldadmin": "the job is held after a requeue",
}
"""Slurm's reasons, without the spelling: a job under them starts only after somebody has acted."""


def stuck(job: Job, history: History, now: datetime) -> str | None:
    """Why a job does not start unless somebody acts, with what to do; None where it may."""
    if job.reason == NEVER:
        return NEVER
    held = held_by_slurm(job)
    if held is not None:
        return f"{held}; scontrol release {job.id}"
    if is_held_by_requeue(job, history) and not _is_fresh(history, now):
        return f"a requeue was left half done; slurmkit supervise, or scontrol release {job.id}"
    return None


def held_by_slurm(job: Job) -> str | None:
    """What Slurm holds a job for that was requeued; None where it does not."""
    sentence = HELD_BY_SLURM.get(spelled(job.reason))
    if spelled(job.reason) == "jobheldadmin" and not job.restarts:
        return None  # an administrator's own doing, before the first start
    return sentence


def is_held_by_requeue(job: Job, history: History) -> bool:
    """Whether a requeue of slurmkit's holds the job and has not let it go."""
    intent = history.requeueing
    return intent is not None and spelled(job.reason) == "jobhelduser"


def in_words(job: Job, history: History) -> str | None:
    """Why a job waits, where that is to be explained; else as Slurm has it."""
    if is_held_by_requeue(job, history):
        return "held while it is requeued"
    if job.reason == "BeginTime" and job.restarts:
        when = f"until {job.eligible_time.astimezone():%H:%M:%S}" if job.eligible_time else "for two minutes"
        return f"requeued: Slurm keeps a requeued job back {when}, till its old credentials have expired"
    return None if job.reason in {None, "None"} else job.reason


def spelled(reason: str | None) -> str:
    """A reason of Slurm's without what releases and commands spell differently."""
    return (reason or "").strip("() ").replace("_", " ").lower()


def _is_fresh(history: History, now: datetime) -> bool:
    return history.requeueing is not None and now - history.requeueing.time < HOLD_GRACE
