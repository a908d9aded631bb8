"""When Slurm will end the job, and what it says of the job now: the agent's few questions to slurmctld."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmkit.errors import SlurmError
from slurmkit.slurm.ids import JobId

if TYPE_CHECKING:
    from slurmkit.recovery.setting import Setting
    from slurmkit.slurm.records import Job

UNSET = "4294967294"
KILL_WAIT, SLURMD_TIMEOUT = 30.0, 300.0
"""Slurm's defaults."""


def end_of_job(setting: Setting, *, ask: bool = False) -> float | None:
    """When Slurm will end this job, in seconds since 1970; None where it will not, or does not answer.

    Since 23.02 the job's own environment tells; with `ask`, slurmctld is asked all the same: a time limit can
    be changed, and a preemption's grace ends earlier.
    """
    told = setting.environ.get("SLURM_JOB_END_TIME", "")
    if told.isdigit() and told != UNSET and not ask:
        return float(told)
    job = live_job(setting)
    if job is None or job.ends_by is None:
        return float(told) if told.isdigit() and told != UNSET else None
    return job.ends_by.timestamp()


def kill_wait(setting: Setting) -> float:
    """Seconds between SIGTERM and SIGKILL, as the site has them."""
    return _configured(setting, "KillWait", KILL_WAIT)


def slurmd_timeout(setting: Setting) -> float:
    """Seconds after which a node that does not answer counts as lost."""
    return _configured(setting, "SlurmdTimeout", SLURMD_TIMEOUT)


def _configured(setting: Setting, name: str, default: float) -> float:
    try:
        words = setting.connect().config().get(name, "").split()
    except SlurmError:
        return default
    return float(words[0]) if words and words[0].isdigit() else default


def live_job(setting: Setting) -> Job | None:
    """This job as slurmctld has it now; None where it does not answer, or knows it no more."""
    try:
        jobs = setting.connect().jobs([JobId.parse(setting.attempt.job_id)])
    except SlurmError:
        return None
    return jobs[0] if jobs else None


def is_requeued(setting: Setting) -> bool:
    """Whether Slurm has the job for another start already."""
    job = live_job(setting)
    return job is not None and job.restarts is not None and job.restarts > setting.attempt.restart


def recorded_job(setting: Setting, restart: int | None = None) -> Job | None:
    """The record that accounting has of this attempt, or of an earlier one; None where it has none."""
    wanted = setting.attempt.restart if restart is None else restart
    try:
        jobs = setting.connect().accounting([JobId.parse(setting.attempt.job_id)], duplicates=True)
    except SlurmError:
        return None
    return next((job for job in jobs if job.restarts == wanted), None)


def pool(setting: Setting) -> int | None:
    """How many nodes the job could get: those of its partition; None where Slurm does not tell."""
    try:
        found = {one.name: len(one.nodes) for one in setting.connect().partitions()}
    except SlurmError:
        return None
    return found.get(setting.environ.get("SLURM_JOB_PARTITION", ""))


def nodes_down(setting: Setting) -> tuple[str, ...]:
    """Which of the job's nodes Slurm counts as lost."""
    try:
        nodes = setting.connect().nodes(setting.attempt.nodes)
    except SlurmError:
        return ()
    lost = {node.name for node in nodes if node.state.is_down}
    return tuple(node for node in setting.attempt.nodes if node in lost)
