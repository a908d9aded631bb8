"""Having the run start again elsewhere: its job is requeued once, or the run submitted again.

Whatever becomes of Slurm's answers, nothing is done twice; nodes are excluded without a race.
"""

from __future__ import annotations

import signal
from datetime import timedelta
from math import ceil
from typing import TYPE_CHECKING

from slurmkit.errors import Refused, SlurmError, SlurmkitError
from slurmkit.recovery import report
from slurmkit.recovery.limit import end_of_job, is_requeued, live_job
from slurmkit.recovery.policy import retry_of
from slurmkit.run import events
from slurmkit.run.resubmit import resubmit, waiting_for_lock
from slurmkit.run.suspects import bad_nodes
from slurmkit.slurm.ids import JobId
from slurmkit.spec.units import format_memory, parse_memory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slurmkit.recovery.policy import Decision
    from slurmkit.recovery.setting import Setting
    from slurmkit.slurm.protocol import Slurm
    from slurmkit.spec.model import JobSpec

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 15.0


AFTER_TOLD = 20.0
"""Seconds, of the 30 that Slurm leaves after SIGTERM, for a request that may need to be made again."""
WITHOUT_END = 1800.0
"""Seconds for the requests of a job that Slurm would not end."""
BEFORE_END = 3.0


def move_on(setting: Setting, decision: Decision) -> None:
    """Have the run start in another allocation; what Slurm does not take is left to the supervisor."""
    is_moved = (
        decision.action == "requeue"
        and not has_lost_a_node(setting)
        and requeue(setting, exclude=decision.without, delay=decision.delay, until=_last_moment(setting))
    )
    if is_moved:
        return
    options = more_memory(setting.spec, decision.memory) if decision.memory else {}
    if decision.delay >= 1:
        options["begin"] = f"now+{decision.delay:.0f}"
    try:
        with waiting_for_lock(setting.paths, setting.clock):
            made = resubmit(
                setting.paths,
                slurm=setting.connect(),
                clock=setting.clock,
                by="agent",
                instead_of=setting.attempt.job_id,
                exclude=excluded(setting, decision),
                options=options,
            )
    except SlurmkitError as error:
        report.say(f"{error}\n  the run is left to the supervisor: slurmkit supervise, or slurmkit resume")
        return
    report.say(f"the run goes on as job {made.id}")


def has_lost_a_node(setting: Setting) -> bool:
    """Whether the job has fewer nodes than at its start: Slurm 22.05 loses count of its GPUs at a requeue."""
    job = live_job(setting)
    return job is not None and 0 < len(job.nodes) < len(setting.attempt.nodes)


def excluded(setting: Setting, decision: Decision) -> tuple[str, ...]:
    """The nodes that a new job must not have: a requeued one would remember those of earlier decisions."""
    earlier = bad_nodes(events.read(setting.paths), now=setting.clock.now().timestamp())
    is_wanted = retry_of(setting.spec).exclude_bad_nodes
    return tuple(dict.fromkeys((*decision.without, *(earlier if is_wanted else ()))))


def _last_moment(setting: Setting) -> float:
    now = setting.clock.now().timestamp()
    if signal.SIGTERM in signal.sigpending():
        return now + AFTER_TOLD
    ends_by = end_of_job(setting)
    return now + WITHOUT_END if ends_by is None else max(ends_by - BEFORE_END, now)


def more_memory(spec: JobSpec, factor: float) -> dict[str, str]:
    """The job's request of memory, by whichever option it makes it, so many times as much."""
    for name in ("mem", "mem_per_cpu", "mem_per_gpu"):
        asked = spec.resources.get(name)
        if asked is not None:
            return {name: format_memory(ceil(parse_memory(str(asked)) * factor))}
    return {}


def requeue(setting: Setting, *, exclude: Sequence[str], until: float, delay: float = 0.0) -> bool:
    """Have Slurm requeue this job, without some nodes; whether it did, `until` that moment at the latest.

    It starts after `delay` seconds, or when Slurm lets a requeued job start, if that is later. With nodes to
    exclude it is held first: their list can be set only while the job waits. The intent is on disk before, so
    that a supervisor finishes what is cut short.
    """
    job = JobId.parse(setting.attempt.job_id)
    setting.note(
        "requeueing", job_id=setting.attempt.job_id, hold=bool(exclude) or None, exclude=list(exclude) or None
    )
    slurm = setting.connect()
    pause = FIRST_PAUSE
    while not is_requeued(setting):
        try:
            _ask(slurm, job, hold=bool(exclude))
            break
        except Refused as error:
            if is_requeued(setting):
                break
            if not error.passing:
                report.say(f"Slurm does not requeue the job: {error.what}")
                return False
            why = error.what
        except SlurmError as error:
            why = error.what
        if setting.clock.now().timestamp() + pause >= until:
            report.say(f"the job could not be requeued in time: {why}")
            return False
        report.say(f"requeue: {why}; tried again in {pause:.0f} s")
        setting.clock.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)
    if exclude:
        _exclude_and_release(slurm, job, exclude)
    if delay >= 1:
        _put_off(setting, slurm, job, delay)
    setting.note("requeued", job_id=setting.attempt.job_id)
    return True


def _ask(slurm: Slurm, job: JobId, *, hold: bool) -> None:
    """One request; a job that was submitted with --no-requeue is first allowed it: its owner may.

    Raises:
        SlurmError: it was not carried out, or may have been.
    """
    try:
        slurm.requeue(job, hold=hold)
    except Refused as error:
        if error.passing:
            raise
        slurm.update(job, {"Requeue": "1"})
        slurm.requeue(job, hold=hold)


def _put_off(setting: Setting, slurm: Slurm, job: JobId, delay: float) -> None:
    """Have the job start later; a start that Slurm itself has put off further stays."""
    live = live_job(setting)
    begin = setting.clock.now() + timedelta(seconds=delay)
    if live is not None and live.eligible_time is not None and live.eligible_time >= begin:
        return
    try:
        slurm.update(job, {"StartTime": f"now+{delay:.0f}"})
    except SlurmError as error:
        report.say(f"the start could not be put off by {delay:.0f} s: {error.what}")


def _exclude_and_release(slurm: Slurm, job: JobId, exclude: Sequence[str]) -> None:
    """The job starts again only after this; what fails here is for the supervisor to finish."""
    try:
        slurm.exclude(job, exclude)
    except SlurmError as error:
        report.say(f"the nodes could not be excluded: {error.what}")
    try:
        slurm.release(job)
    except SlurmError as error:
        report.say(f"the job is requeued and still held: {error.what}; try: scontrol release {job}")
