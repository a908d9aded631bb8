"""Jobs of slurmdbd as slurmrestd tells them, as records: the same that sacct's text makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slurmkit.launch.hostlist import expand
from slurmkit.slurm.ids import JobId, StepId
from slurmkit.slurm.records import Job, Step
from slurmkit.slurm.rest import wire
from slurmkit.slurm.rest.jobs import array_id
from slurmkit.slurm.rows import by_base, is_wanted
from slurmkit.slurm.times import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from slurmkit.slurm.exitcode import ExitCode
    from slurmkit.slurm.rest.versions import Api
    from slurmkit.slurm.states import JobState

_GOING = frozenset({"PENDING", "RUNNING", "SUSPENDED"})
ROOT = {"root": 0}
"""Names whose uid is the same everywhere; of the others only a number is taken."""


def parse(
    answer: Mapping[str, Any],
    api: Api,
    ids: Collection[JobId] | None = None,
    *,
    user: str | None = None,
    uids: Mapping[str, int] = ROOT,
) -> list[Job]:
    """The job records of an answer, every attempt, of those ids or all, of those users (with commas) or all.

    `uids` are those of users that slurmctld has told: slurmdbd's answers have names in their place.

    Raises:
        ValueError: a field is missing or cannot be read; holds the job.
    """
    wanted = None if ids is None else by_base(ids)
    found = []
    for record in wire.records(answer, "jobs"):
        try:
            job_id = identity(record)
            raw = str(wire.need(record, "job_id"))
            names = {str(record.get("user")), str(uids.get(str(record.get("user"))))}
            is_of = user is None or not names.isdisjoint(user.split(","))
            if is_of and (wanted is None or is_wanted(job_id, raw, wanted)):
                found.append(_job(job_id, record, api, uids))
        except ValueError as error:
            raise ValueError(f"job {record.get('job_id')}: {error}") from error
    return found


def last_attempts(jobs: Sequence[Job]) -> list[Job]:
    """Of each job the record of its last attempt, as sacct has it without `--duplicates`."""
    last: dict[JobId, Job] = {}
    for job in jobs:
        known = last.get(job.id)
        if (
            known is None
            or known.submit_time is None
            or (job.submit_time is not None and job.submit_time >= known.submit_time)
        ):
            last[job.id] = job
    return list(last.values())


def identity(record: Mapping[str, Any]) -> JobId:
    """The id of a job as sacct writes it."""
    array = wire.number(wire.look(record, "array", "job_id")) or 0
    if array:
        throttle = wire.look(record, "array", "limits", "max", "running", "tasks")
        return array_id(
            array, wire.look(record, "array", "task_id"), wire.look(record, "array", "task"), throttle
        )
    het = wire.number(wire.look(record, "het", "job_id")) or 0
    if het:
        return JobId(het, het=wire.number(wire.look(record, "het", "job_offset")) or 0)
    return JobId(wire.number(wire.need(record, "job_id")) or 0)


def _job(job_id: JobId, record: Mapping[str, Any], api: Api, uids: Mapping[str, int]) -> Job:
    state = wire.state(wire.need(record, "state", "current"))
    ended = wire.moment(wire.need(record, "time", "end")) if state.name not in _GOING else None
    nodes = tuple(expand(wire.text(wire.need(record, "nodes")) or ""))
    start = wire.moment(wire.need(record, "time", "start")) if nodes else None
    allocated, requested = (wire.tres(wire.look(record, "tres", name)) for name in ("allocated", "requested"))
    cpus = allocated["cpu"] if allocated else 0
    if api.is_plain and not cpus:  # so does the sacct of its time, for jobs that never ran
        cpus = wire.number(wire.look(record, "required", "CPUs")) or 0
    steps = wire.records(record, "steps") if record.get("steps") else []
    return Job(
        id=job_id,
        name=str(wire.need(record, "name") or ""),
        user=str(record.get("user") or ""),
        account=wire.text(record.get("account")),
        partition=wire.text(record.get("partition")),
        qos=wire.text(record.get("qos")),
        cluster=wire.text(record.get("cluster")),
        state=state,
        reason=wire.text(wire.look(record, "state", "reason")),
        cancelled_by=_cancelled_by(record, state, uids),
        exit_code=_exit_code(record.get("exit_code"), state, has_run=start is not None) if ended else None,
        submit_time=wire.moment(wire.need(record, "time", "submission")),
        eligible_time=wire.moment(wire.look(record, "time", "eligible")),
        start_time=start,
        end_time=ended,
        elapsed=wire.seconds(wire.look(record, "time", "elapsed")),
        # v0.0.38 writes null for UNLIMITED as well as for "not set", which no job is that has started.
        time_limit=wire.minutes(wire.look(record, "time", "limit"), null=UNLIMITED if start else None),
        nodes=nodes,
        node_count=wire.number(record.get("allocation_nodes")) or (requested["node"] if requested else None),
        cpus=cpus,
        tres=allocated,
        requested_tres=requested,
        comment=wire.text(wire.look(record, "comment", "job")),
        working_directory=wire.text(record.get("working_directory")),
        submit_line=wire.text(record.get("submit_line")),
        restarts=wire.number(record.get("restart_cnt")),
        steps=tuple(_step(job_id, step) for step in steps),
    )


def _step(job_id: JobId, record: Mapping[str, Any]) -> Step:
    state = wire.state(wire.need(record, "state"))
    ended = wire.moment(wire.need(record, "time", "end")) if state.name not in _GOING else None
    return Step(
        id=StepId(job_id, str(wire.need(record, "step", "id")).rpartition(".")[2]),
        name=str(wire.need(record, "step", "name") or ""),
        state=state,
        exit_code=_exit_code(record.get("exit_code"), state, has_run=True) if ended else None,
        start_time=wire.moment(wire.look(record, "time", "start")),
        end_time=ended,
        elapsed=wire.seconds(wire.look(record, "time", "elapsed")),
        nodes=tuple(expand(wire.text(wire.look(record, "nodes", "range")) or "")),
        tasks=wire.number(wire.look(record, "tasks", "count")),
        tres=wire.tres(wire.look(record, "tres", "allocated")),
        max_rss=_max_rss(record),
    )


def _max_rss(record: Mapping[str, Any]) -> int | None:
    """Bytes; here memory does not count in MiB. 0 is what Slurm has where it never looked."""
    told = wire.look(record, "tres", "requested", "max")
    for one in told if isinstance(told, list) else ():
        if wire.look(one, "type") == "mem":
            return wire.number(wire.look(one, "count")) or None
    return None


def _exit_code(value: object, state: JobState, *, has_run: bool) -> ExitCode | None:
    """v0.0.38 writes `SUCCESS` and 0 for every program that ended by itself, whatever its code was."""
    is_told = state.name == "COMPLETED" or (state.name == "CANCELLED" and not has_run)
    is_blind = isinstance(value, dict) and value.get("status") == "SUCCESS"
    return None if is_blind and not is_told else wire.exit_code(value)


def _cancelled_by(record: Mapping[str, Any], state: JobState, uids: Mapping[str, int]) -> int | None:
    if state.name != "CANCELLED":
        return None
    name = wire.text(record.get("kill_request_user"))
    if name is None:
        return None
    return int(name) if name.isascii() and name.isdigit() else uids.get(name)
