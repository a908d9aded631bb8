"""Jobs of slurmctld as slurmrestd tells them, as records: the same that squeue's text makes."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from slurmkit.launch.hostlist import expand
from slurmkit.slurm.ids import JobId, TaskSet
from slurmkit.slurm.records import Job
from slurmkit.slurm.rest import wire
from slurmkit.slurm.rows import by_base, is_wanted
from slurmkit.slurm.times import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

CUT = "..."
"""Where slurmrestd leaves out the rest of an array's tasks; squeue is asked for all of them."""


def parse(
    answer: Mapping[str, Any], now: datetime, ids: Collection[JobId] | None = None, *, user: str | None = None
) -> list[Job]:
    """The jobs of an answer, of those ids or all, of that user (a name or a uid) or all.

    Raises:
        ValueError: a field is missing or cannot be read; holds the job.
    """
    wanted = None if ids is None else by_base(ids)
    found = []
    for record in wire.records(answer, "jobs"):
        try:
            job_id = identity(record)
            raw = str(wire.need(record, "job_id"))
            if (wanted is None or is_wanted(job_id, raw, wanted)) and _is_of(record, user):
                found.append(_job(job_id, record, now))
        except ValueError as error:
            raise ValueError(f"job {record.get('job_id')}: {error}") from error
    return found


def identity(record: Mapping[str, Any]) -> JobId:
    """The id of a job as squeue writes it: task of an array, waiting rest of an array, or het component."""
    array, het = (wire.number(wire.look(record, name)) or 0 for name in ("array_job_id", "het_job_id"))
    if array:
        return array_id(array, record.get("array_task_id"), record.get("array_task_string"))
    if het:
        return JobId(het, het=wire.number(wire.look(record, "het_job_offset")) or 0)
    return JobId(wire.number(wire.need(record, "job_id")) or 0)


def array_id(array: int, task: object, waiting: object, throttle: object = None) -> JobId:
    """The id of one task of an array, or of those that wait; `throttle` where it is told apart from them."""
    index = wire.number(task)
    if index is not None:
        return JobId(array, task=index)
    tasks = wire.text(waiting)
    if tasks is None:
        return JobId(array)
    body, percent, limit = tasks.partition("%")
    if not percent and (at_once := wire.number(throttle)):
        percent, limit = "%", str(at_once)
    if body.startswith("0x"):
        body = _bits(body)
    if CUT in body:
        body = body.partition(CUT)[0].rpartition(",")[0]
    return JobId(array, tasks=TaskSet.parse(body + percent + limit)) if body else JobId(array)


def _bits(text: str) -> str:
    """Slurmdbd's own form of a list of tasks: one bit for each."""
    bits = int(text, 16)
    return ",".join(str(task) for task in range(bits.bit_length()) if bits >> task & 1)


def _is_of(record: Mapping[str, Any], user: str | None) -> bool:
    names = {str(record.get("user_name")), str(record.get("user_id"))}
    return user is None or not names.isdisjoint(user.split(","))


def _job(job_id: JobId, record: Mapping[str, Any], now: datetime) -> Job:
    state = wire.state(wire.need(record, "job_state"))
    nodes = tuple(expand(wire.text(wire.need(record, "nodes")) or ""))
    end = wire.moment(wire.need(record, "end_time"))
    limit = wire.minutes(wire.need(record, "time_limit"), null=UNLIMITED)
    # Without a limit Slurm reckons with a year, and squeue says NONE.
    is_bounded = limit != UNLIMITED or end is None or end <= now
    return Job(
        id=job_id,
        name=str(wire.need(record, "name") or ""),
        user=str(wire.look(record, "user_name") or wire.need(record, "user_id")),
        account=wire.text(record.get("account")),
        partition=wire.text(record.get("partition")),
        qos=wire.text(record.get("qos")),
        cluster=wire.text(record.get("cluster")),
        state=state,
        reason=wire.text(record.get("state_description")) or wire.text(record.get("state_reason")),
        exit_code=wire.exit_code(record.get("exit_code")) if state.is_final else None,
        submit_time=wire.moment(wire.need(record, "submit_time")),
        eligible_time=wire.moment(record.get("eligible_time")),
        # Without nodes these are Slurm's plans, or the moment at which a waiting job was cancelled.
        start_time=wire.moment(record.get("start_time")) if nodes else None,
        end_time=end if state.is_final else None,
        elapsed=_elapsed(record, state.name, end if state.is_final else now) if nodes else None,
        time_limit=limit,
        nodes=nodes,
        node_count=wire.number(record.get("node_count")),
        cpus=wire.number(record.get("cpus")) or _cpus(record, is_allocated=bool(nodes)),
        tres=wire.tres(record.get("tres_alloc_str")) if nodes else None,
        requested_tres=None if nodes else wire.tres(record.get("tres_req_str")),
        comment=wire.text(record.get("comment")),
        working_directory=wire.text(record.get("current_working_directory")),
        restarts=wire.number(record.get("restart_cnt")),
        ends_by=end if nodes and not state.is_final and is_bounded else None,
    )


def _cpus(record: Mapping[str, Any], *, is_allocated: bool) -> int | None:
    """v0.0.38 writes null where nobody asked for a number of tasks."""
    resources = wire.tres(record.get("tres_alloc_str" if is_allocated else "tres_req_str"))
    return (resources["cpu"] if resources else 0) or None


def _elapsed(record: Mapping[str, Any], state: str, until: datetime | None) -> timedelta | None:
    """As squeue reckons: without the time for which the job was suspended."""
    start = wire.moment(record.get("start_time"))
    resumed = wire.moment(record.get("suspend_time"))
    before = wire.seconds(record.get("pre_sus_time")) or timedelta()
    if state == "SUSPENDED":
        return before
    if start is None or until is None:
        return None
    spent = until - resumed + before if resumed else until - start
    return timedelta(seconds=max(0, round(spent.total_seconds())))
