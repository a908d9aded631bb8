"""squeue: what to ask, and its answer as records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmkit.launch.hostlist import expand
from slurmkit.slurm.exitcode import ExitCode
from slurmkit.slurm.ids import JobId
from slurmkit.slurm.records import Job
from slurmkit.slurm.rows import DELIMITER, by_base, is_wanted, number, rows, text_or_none
from slurmkit.slurm.states import JobState
from slurmkit.slurm.times import parse_duration, parse_epoch
from slurmkit.slurm.tres import Tres

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

COLUMNS = (
    "JobArrayID", "JobID", "State", "Reason", "exit_code", "RestartCnt", "UserName", "Account", "Partition",
    "QOS", "Cluster", "SubmitTime", "EligibleTime", "StartTime", "EndTime", "TimeUsed", "TimeLimit",
    "NodeList", "NumNodes", "NumCPUs", "tres-alloc", "WorkDir", "Comment", "Name",
)  # fmt: skip
"""As `--Format` names them, in the order of the answer: what may hold any text stands last."""


def arguments(*, ids: Collection[JobId] | None = None, user: str | None = None) -> list[str]:
    """The options of squeue for jobs in any state, of those ids or of that user, or all."""
    # A suffix in place of a width: the column is printed whole.
    layout = ",".join(f"{column}:{DELIMITER}" for column in COLUMNS)
    asked = ["--noheader", "--all", "--states=all", f"--Format={layout}"]
    if ids is not None:
        asked.append(f"--jobs={','.join(map(str, sorted(by_base(ids))))}")
    if user is not None:
        asked.append(f"--user={user}")
    return asked


def parse(text: str, ids: Collection[JobId] | None = None) -> list[Job]:
    """Jobs as squeue lists them, of those ids or all.

    Raises:
        ValueError: the text is not what squeue prints.
    """
    wanted = None if ids is None else by_base(ids)
    jobs = []
    for row in rows(text, COLUMNS):
        job_id = JobId.parse(row["JobArrayID"])
        if wanted is None or is_wanted(job_id, row["JobID"], wanted):
            jobs.append(to_job(job_id, row))
    return jobs


def written(found: Iterable[Mapping[str, str]]) -> str:
    """Rows as squeue would print them."""
    return "".join("".join(f"{row[column]}{DELIMITER}" for column in COLUMNS) + "\n" for row in found)


def to_job(job_id: JobId, row: Mapping[str, str]) -> Job:
    """The record of a row, whose columns are `COLUMNS`.

    Raises:
        ValueError: a column holds what squeue does not print there.
    """
    state = JobState.parse(row["State"])
    nodes = tuple(expand(text_or_none(row["NodeList"]) or ""))
    tres = Tres.parse(text_or_none(row["tres-alloc"]) or "")
    return Job(
        id=job_id,
        name=row["Name"],
        user=row["UserName"],
        account=text_or_none(row["Account"]),
        partition=text_or_none(row["Partition"]),
        qos=text_or_none(row["QOS"]),
        cluster=text_or_none(row["Cluster"]),
        state=state,
        reason=text_or_none(row["Reason"]),
        exit_code=_exit_code(row["exit_code"]) if state.is_final else None,
        submit_time=parse_epoch(row["SubmitTime"]),
        eligible_time=parse_epoch(row["EligibleTime"]),
        # Without nodes these are Slurm's plans, or the moment at which a waiting job was cancelled.
        start_time=parse_epoch(row["StartTime"]) if nodes else None,
        end_time=parse_epoch(row["EndTime"]) if state.is_final else None,
        elapsed=parse_duration(row["TimeUsed"]) if nodes else None,
        time_limit=parse_duration(row["TimeLimit"]),
        nodes=nodes,
        node_count=number(row["NumNodes"]),
        cpus=number(row["NumCPUs"]),
        tres=tres if nodes else None,
        requested_tres=None if nodes else tres,
        comment=text_or_none(row["Comment"]),
        working_directory=text_or_none(row["WorkDir"]),
        restarts=number(row["RestartCnt"]),
        ends_by=parse_epoch(row["EndTime"]) if nodes and not state.is_final else None,
    )


def _exit_code(text: str) -> ExitCode:
    # The status of wait(2): the code times 256, plus the signal.
    status = number(text)
    return ExitCode.parse(text) if status is None else ExitCode(status >> 8 & 255, status & 127)
