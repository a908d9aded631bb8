"""pyslurm's objects as the rows that squeue and sacct print, so that the same code makes the same records.

Where pyslurm 25.11 has lost what the commands tell, the row is doubtful, and the commands have to be asked:
it takes 128 off an exit code of 128 or more, so that 137 and 9 look alike; a step that was ended with its
node, by its limit or by hand may have no exit code, which looks like 0; and a user whom this machine does
not know has a number for a name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmkit.slurm.ids import TaskSet

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyslurm

Row = dict[str, str]
_PLAIN = ("cpu", "mem", "node", "billing", "energy", "pages", "vmem")


def live(job: pyslurm.Job, user: str, now: float) -> tuple[Row, bool]:
    """A job of the queue as `squeue.COLUMNS`, and whether its exit code is doubtful.

    `user` is its `user_name`, which pyslurm looks up anew for each job; `now` in seconds since 1970.
    """
    has_no_end = job.time_limit is None and (job.end_time or 0) > now
    tres = job.allocated_tres or job.requested_tres
    row = {
        "JobArrayID": str(job.id) if _is_remainder(job) else _job_id(job, job.array_tasks_waiting),
        "JobID": str(job.id),
        "State": job.state,
        "Reason": job.state_reason or "",
        "exit_code": str(job.exit_code << 8 | job.exit_code_signal),
        "RestartCnt": str(job.requeue_count),
        "UserName": user,
        "Account": job.account or "",
        "Partition": job.partition or "",
        "QOS": job.qos or "",
        "Cluster": job.cluster or "",
        "SubmitTime": _number(job.submit_time),
        "EligibleTime": _number(job.eligible_time),
        "StartTime": _number(job.start_time),
        # Of a job without a limit, slurmctld has a time that lies a century ahead; squeue says NONE.
        "EndTime": "" if has_no_end else _number(job.end_time),
        "TimeUsed": f"{job.run_time // 60}:{job.run_time % 60}",
        # None is UNLIMITED: of a job that named no limit, slurmctld tells the partition's.
        "TimeLimit": "UNLIMITED" if job.time_limit is None else f"{job.time_limit}:00",
        "NodeList": job.allocated_nodes or "",
        "NumNodes": _number(job.num_nodes),
        "NumCPUs": str(job.cpus),
        "tres-alloc": _tres(tres),
        "WorkDir": job.working_directory or "",
        "Comment": job.comment or "",
        "Name": job.name or "",
    }
    return row, job.exit_code > 0


def accounted(job: pyslurm.db.Job) -> tuple[Row, bool]:
    """A job of accounting as `sacct.FIELDS`, and whether it is doubtful, its steps included."""
    by = job.cancelled_by if job.state == "CANCELLED" else None
    requested = job.requested_tres
    nodes = (job.allocated_tres and job.allocated_tres.node) or (requested and requested.node)
    unlimited = "UNLIMITED" if job.time_limit is None else "Partition_Limit"
    row = {
        "JobID": _job_id(job, _tasks(job.array_tasks_waiting)),
        "JobIDRaw": str(job.id),
        "State": job.state if by is None else f"{job.state} by {_uid(by)}",
        "ExitCode": f"{job.exit_code}:{job.exit_code_signal}",
        "User": job.user_name,
        "Account": job.account or "",
        "Partition": job.partition or "",
        "QOS": job.qos or "",
        "Cluster": job.cluster or "",
        "Submit": _number(job.submit_time),
        "Eligible": _number(job.eligible_time),
        "Start": _number(job.start_time),
        "End": _number(job.end_time),
        "ElapsedRaw": str(job.elapsed_time or 0),
        "TimelimitRaw": str(job.time_limit) if isinstance(job.time_limit, int) else unlimited,
        "NNodes": str(nodes.count) if nodes else "",
        "AllocCPUS": str(job.cpus),
        "AllocTRES": _tres(job.allocated_tres),
        "ReqTRES": _tres(requested),
        "Restarts": str(job.requeue_count),
        "NodeList": job.nodelist or "",
        "Reason": job.state_reason or "",
        "WorkDir": job.working_directory or "",
        "SubmitLine": job.submit_command or "",
        "Comment": job.comment or "",
        "JobName": job.name or "",
    }
    doubtful = job.exit_code > 0 or job.user_name == str(job.user_id)
    return row, doubtful or any(_is_doubtful(step) for step in job.steps.values())


def step_rows(job: pyslurm.db.Job, job_id: str) -> Iterator[Row]:
    """The steps of a job of accounting as `sacct.FIELDS`."""
    for step in job.steps.values():
        yield {
            "JobID": f"{job_id}.{step.id}",
            "JobName": step.name or "",
            "State": step.state,
            "ExitCode": f"{step.exit_code}:{step.exit_code_signal}",
            "Start": _number(step.start_time),
            "End": _number(step.end_time),
            "ElapsedRaw": str(step.elapsed_time or 0),
            "NodeList": step.nodelist or "",
            "NTasks": _number(step.ntasks),
            "AllocTRES": _tres(step.tres),
            "MaxRSS": str(step.stats.max_resident_memory),
        }


def _is_doubtful(step: pyslurm.db.JobStep) -> bool:
    has_code = step.exit_code or step.exit_code_signal
    return step.exit_code > 0 or (step.state not in {"COMPLETED", "RUNNING"} and not has_code)


def _job_id(job: pyslurm.Job | pyslurm.db.Job, tasks: str | None) -> str:
    if job.array_id is not None:
        if tasks:
            limit = f"%{job.array_tasks_parallel}" if job.array_tasks_parallel else ""
            return f"{job.array_id}_[{tasks}{limit}]"
        return f"{job.array_id}_{job.array_task_id or 0}"  # pyslurm has no task 0
    if job.heterogeneous_id is not None:
        return f"{job.heterogeneous_id}+{job.heterogeneous_offset or 0}"
    return str(job.id)


def _is_remainder(job: pyslurm.Job) -> bool:
    """Whether it is what was left of an array that was cancelled in parts: squeue has the bare number for it.

    The last task to start has the array's number, too. One of index 0 is told from it by having started.
    """
    is_task = job.array_task_id or job.array_tasks_waiting or job.allocated_nodes or job.requeue_count
    return job.id == job.array_id and job.state == "CANCELLED" and not is_task


def _tasks(text: str | None) -> str | None:
    """The tasks in accounting's bit mask, `0xE` for 1-3, or in the text of a list."""
    if text is None or not text.startswith("0x"):
        return text
    bits = int(text, 16)
    return str(TaskSet(tuple(bit for bit in range(bits.bit_length()) if bits >> bit & 1)))


def _tres(tres: pyslurm.db.TrackableResources | None) -> str:
    """As Slurm writes resources; memory in MiB, as pyslurm has it."""
    if tres is None:
        return ""
    plain = (tres.cpu, tres.mem, tres.node, tres.billing, tres.energy, tres.pages, tres.vmem)
    found = [f"{name}={one.count}" for name, one in zip(_PLAIN, plain, strict=True) if one is not None]
    for many in (tres.gres, tres.fs, tres.interconnect, tres.license, tres.other):
        if many:
            found += [f"{one.type_and_name}={one.count}" for one in many.values()]
    return ",".join(found)


def _uid(name: str) -> int:
    if name.isdigit():
        return int(name)
    from pwd import getpwnam

    return getpwnam(name).pw_uid


def _number(value: int | None) -> str:
    return "" if value is None else str(value)
