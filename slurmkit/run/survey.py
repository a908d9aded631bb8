"""Where many runs stand, with one squeue and one sacct however many they are.

What Slurm told is kept: a job found for a submit whose answer was lost is adopted, and an end is written
down, so that nobody has to ask for it again. Nothing is ever submitted here.
"""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.errors import AccountingOff, MissingRequirement, SlurmError
from slurmkit.run import events, history, record
from slurmkit.run.identity import read_tag
from slurmkit.run.state import Sight, is_given_up, judge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from slurmkit.run.paths import RunPaths
    from slurmkit.run.state import RunState
    from slurmkit.slurm.clock import Clock
    from slurmkit.slurm.ids import JobId
    from slurmkit.slurm.protocol import Slurm
    from slurmkit.slurm.records import Job

    Connect = Callable[[str | None], Slurm]
    """Gives the client of a cluster; None is the usual one. Where all runs have ended, none is made."""

MARGIN = timedelta(minutes=5)
"""Between the clocks of this machine and of slurmctld."""


class Dossier(NamedTuple):
    """What a run directory holds on its run."""

    paths: RunPaths
    record: record.RunRecord | None
    history: history.History

    @property
    def job_id(self) -> JobId | None:
        """The run's job; None while there is no receipt, or one that cannot be read."""
        from slurmkit.slurm.ids import JobId

        try:
            return JobId.parse(self.history.job_id or "")
        except ValueError:
            return None

    @property
    def cluster(self) -> str | None:
        """The cluster that took the job, or else those that it was offered to; None is the usual one."""
        if self.record and self.record.remote:
            from slurmkit.run.clients import elsewhere

            return elsewhere(self.record.remote)
        return self.history.cluster or (self.record.clusters if self.record else None)

    @property
    def needs_slurm(self) -> bool:
        """Whether Slurm has something to add. Of a success it has not; of a failure it may know more."""
        told = self.history
        if told.resubmitting:
            return True
        if told.job_ended or (told.not_submitted and not told.job_id):
            return False
        return _is_array(self) or told.run_ended is None or bool(told.run_ended.number("exit_code"))


def open_dossier(paths: RunPaths) -> Dossier:
    """Read a run directory."""
    return Dossier(paths, record.load(paths), history.fold(events.read(paths)))


def survey(
    runs: Iterable[RunPaths], connect: Connect, clock: Clock, *, max_age: float = 0.0
) -> list[RunState]:
    """The states of runs, in their order; answers of Slurm's up to `max_age` seconds old will do."""
    dossiers = [open_dossier(paths) for paths in runs]
    return settle(dossiers, ask(dossiers, connect, clock.now(), max_age), clock.now())


def ask(
    dossiers: Iterable[Dossier], connect: Connect, now: datetime, max_age: float = 0.0
) -> dict[str, Sight]:
    """What Slurm says of the runs that need it, by run id; one question for all runs of a cluster."""
    groups: dict[str | None, list[Dossier]] = {}
    for dossier in dossiers:
        if dossier.needs_slurm:
            groups.setdefault(dossier.cluster, []).append(dossier)
    sights: dict[str, Sight] = {}
    for cluster, group in groups.items():
        sights |= _ask(group, connect(cluster), now, min(max_age, _since_submits(group, now)))
    return sights


def _since_submits(asking: Iterable[Dossier], now: datetime) -> float:
    """Seconds since the last of the runs was submitted: an older answer says nothing of its job."""
    times = [
        time
        for told in (dossier.history for dossier in asking)
        for time in (told.submitting, told.resubmitting and told.resubmitting.time, told.job_submitted)
        if time
    ]
    return max((now - max(times)).total_seconds(), 0.0) if times else math.inf


def _ask(asking: Sequence[Dossier], slurm: Slurm, now: datetime, max_age: float) -> dict[str, Sight]:
    """Ask squeue, then sacct for what that does not settle."""
    queue = True
    live: list[Job] = []
    try:
        live = _queue(asking, slurm, max_age)
    except SlurmError:
        queue = False
    queued = _Listing(live)
    found = {dossier.paths.run_id: queued.of(dossier) for dossier in asking}
    unsettled = [dossier for dossier in asking if not _is_settled(dossier, found[dossier.paths.run_id])]
    accounting: bool | None = True
    past: Sequence[Job] = ()
    if unsettled:
        try:
            past = _accounting(unsettled, slurm, now, max_age)
        except (AccountingOff, MissingRequirement):
            accounting = None
        except SlurmError:
            accounting = False
    accounted = _Listing(past)
    for dossier in unsettled:
        run_id = dossier.paths.run_id
        found[run_id] = _merged(found[run_id], accounted.of(dossier))
    at = now - timedelta(seconds=max_age)
    return {
        run_id: Sight(jobs=jobs, queue=queue, accounting=accounting, at=at) for run_id, jobs in found.items()
    }


def settle(dossiers: Iterable[Dossier], sights: Mapping[str, Sight], now: datetime) -> list[RunState]:
    """The states that follow from what Slurm said; what is final, or was found, is written down."""
    return [_settle(dossier, sights.get(dossier.paths.run_id, Sight()), now) for dossier in dossiers]


def _is_settled(dossier: Dossier, jobs: Sequence[Job]) -> bool:
    """Whether accounting has nothing to add: the job goes on, or it did well and stands for the whole run."""
    if dossier.history.resubmitting and not any(_is_by_resubmit(dossier, job) for job in jobs):
        return False
    if any(not job.state.is_final for job in jobs):
        return True
    return bool(jobs) and not _is_array(dossier) and all(job.state.is_success for job in jobs)


def _is_array(dossier: Dossier) -> bool:
    return dossier.record is not None and dossier.record.array is not None


def _merged(live: Sequence[Job], past: Sequence[Job]) -> list[Job]:
    """One record per job: accounting tells more of an end, but learns of it later and may lack its code."""
    told = {job.id: job for job in past}
    for job in live:
        if job.id not in told or not told[job.id].state.is_final:
            told[job.id] = job
        elif told[job.id].exit_code is None:
            told[job.id] = told[job.id]._replace(exit_code=job.exit_code)
    return list(told.values())


def _queue(asking: Sequence[Dossier], slurm: Slurm, max_age: float) -> list[Job]:
    users = {_user_of(dossier) for dossier in asking}
    if len(users) == 1 and (user := users.pop()):
        # All of the user's jobs: the same question from every process, so that one answer serves them all.
        return slurm.jobs(user=user, max_age=max_age)
    return slurm.jobs([job_id for dossier in asking if (job_id := dossier.job_id)], max_age=max_age)


def _accounting(asking: Sequence[Dossier], slurm: Slurm, now: datetime, max_age: float) -> list[Job]:
    starts = [start for dossier in asking if (start := _start(dossier))]
    since = min(starts, default=now - timedelta(days=1)) - MARGIN
    ids = [one.job_id for one in asking if one.job_id and not one.history.resubmitting]
    if len(ids) == len(asking):
        return slurm.accounting(ids, since=since, max_age=max_age)
    users = {user for dossier in asking if (user := _user_of(dossier))}
    return slurm.accounting(since=since, user=",".join(sorted(users)) or None, max_age=max_age)


def _user_of(dossier: Dossier) -> str | None:
    """Whose jobs are looked through; nobody knows here what the user is called on a cluster elsewhere."""
    return dossier.record.user if dossier.record and dossier.record.remote is None else None


def _start(dossier: Dossier) -> datetime | None:
    return dossier.record.created if dossier.record else dossier.history.submitting


class _Listing:
    """Jobs by their numbers and by the runs that they say they are of: many runs look for theirs."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._by_number: dict[int, list[Job]] = {}
        self._by_run: dict[str | None, list[Job]] = {}
        for job in jobs:
            self._by_number.setdefault(job.id.job, []).append(job)
            self._by_run.setdefault(_run_of(job), []).append(job)

    def of(self, dossier: Dossier) -> list[Job]:
        """The jobs of a run: by id, and while none is known, by what they say themselves."""
        job_id = dossier.job_id
        marked = self._by_run.get(dossier.paths.run_id, [])
        if job_id is None:
            return marked
        if dossier.history.resubmitting and (new := [job for job in marked if _is_by_resubmit(dossier, job)]):
            return new
        jobs = self._by_number.get(job_id.job, [])
        return [job for job in jobs if job_id.covers(job.id) and _is_own(dossier, job)]


def _is_own(dossier: Dossier, job: Job) -> bool:
    """Whether a job with the number of the run's is the run's: Slurm uses its numbers again."""
    if _is_array(dossier) and job.id == job.id.base:
        # For some seconds slurmdbd has the last task under the array's own id, and the others not at all.
        return False
    run_id = _run_of(job)
    if run_id is not None:
        return run_id == dossier.paths.run_id
    start = _start(dossier)
    return start is None or job.submit_time is None or job.submit_time > start - MARGIN


def _is_by_resubmit(dossier: Dossier, job: Job) -> bool:
    """Whether a job is the one that the submit has made whose receipt is missing."""
    intent = dossier.history.resubmitting
    tag = _tag_of(job)
    if intent is None or tag is None:
        return False
    return read_tag(tag) == (dossier.paths.run_id, intent.number("number"))


def _run_of(job: Job) -> str | None:
    """The run that a job says it is of."""
    tag = _tag_of(job)
    return None if tag is None else read_tag(tag)[0]


def _tag_of(job: Job) -> str | None:
    """The tag in a job's comment, or in the path of its script, which the submit line keeps."""
    _, mark, rest = (job.comment or "").rpartition("slurmkit:")
    if mark and (words := rest.split()):
        return words[0]
    folder, script, _ = (job.submit_line or "").rpartition("/job.sbatch")
    return folder.rpartition("/")[2] if script else None


def _settle(dossier: Dossier, sight: Sight, now: datetime) -> RunState:
    told = dossier.history
    if told.resubmitting or told.job_id is None:
        found = [job for job in sight.jobs if told.job_id is None or _is_by_resubmit(dossier, job)]
        if found:
            _keep(dossier, "adopted", now, job_id=str(found[0].id.base), cluster=None, **_number(told))
            dossier = open_dossier(dossier.paths)
        elif told.resubmitting and is_given_up(told, sight):
            _keep(dossier, "not-submitted", now, reason="the submit was interrupted", **_number(told))
            dossier = open_dossier(dossier.paths)
    sight = sight._replace(jobs=[job for job in sight.jobs if _is_current(dossier, job)])
    state = judge(dossier.paths.run_id, dossier.record, dossier.history, sight)
    told = dossier.history
    if state.is_end and sight.jobs and state.state != "blocked" and not told.job_ended:
        _keep_end(dossier, state, now)
    elif state.state == "not-submitted" and told.not_submitted is None and sight.accounting:
        _keep(dossier, "not-submitted", now, reason=state.reason)
    return state


def _number(told: history.History) -> dict[str, int | None]:
    return {"number": told.resubmitting.number("number")} if told.resubmitting else {}


def _is_current(dossier: Dossier, job: Job) -> bool:
    """Whether a job is of the run's last submit: the run may have got another one since Slurm was asked."""
    job_id = dossier.job_id
    return job_id is None or job_id.covers(job.id)


def _keep_end(dossier: Dossier, state: RunState, now: datetime) -> None:
    if open_dossier(dossier.paths).history != dossier.history:
        return  # the run has gone on while Slurm was asked
    _keep(
        dossier,
        "job-ended",
        now,
        job_id=state.job_id,
        run_state=state.state,
        state=state.job_state,
        reason=state.reason,
        exit_code=state.exit_code,
        started=state.started.timestamp() if state.started else None,
        ended=state.ended.timestamp() if state.ended else None,
        nodes=list(state.nodes),
        tasks=dict(state.tasks),
    )


def _keep(dossier: Dossier, kind: str, now: datetime, **fields: object) -> None:
    """Write an event where that can be done: to look at another user's run must not fail for want of it."""
    try:
        events.append(dossier.paths, kind, at=now, **fields)
    except OSError:
        return
