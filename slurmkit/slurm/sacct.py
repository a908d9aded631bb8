"""sacct: what to ask, and its answer as records."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from slurmkit.launch.hostlist import expand
from slurmkit.slurm.exitcode import ExitCode
from slurmkit.slurm.ids import JobId, StepId
from slurmkit.slurm.records import Job, Step
from slurmkit.slurm.rows import DELIMITER, by_base, is_wanted, number, rows, text_or_none
from slurmkit.slurm.states import JobState, cancelled_by
from slurmkit.slurm.times import parse_epoch, parse_minutes, parse_seconds
from slurmkit.slurm.tres import Tres, parse_memory

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

FIELDS = (
    "JobID", "JobIDRaw", "State", "ExitCode", "User", "Account", "Partition", "QOS", "Cluster", "Submit",
    "Eligible", "Start", "End", "ElapsedRaw", "TimelimitRaw", "NNodes", "NTasks", "AllocCPUS", "AllocTRES",
    "ReqTRES", "MaxRSS", "Restarts", "NodeList", "Reason", "WorkDir", "SubmitLine", "Comment", "JobName",
)  # fmt: skip
"""In the order of the answer: what may hold any text stands last. `Restarts` is there since 24.11."""


def fields(known: Collection[str]) -> tuple[str, ...]:
    """The fields to ask for: those of ours that `sacct --helpformat` names, in any case."""
    names = {name.lower() for name in known}
    return tuple(name for name in FIELDS if name.lower() in names)


def arguments(
    asked: Sequence[str],
    *,
    ids: Collection[JobId] | None,
    since: datetime | None,
    until: datetime | None,
    user: str | None,
    duplicates: bool,
    steps: bool,
) -> list[str]:
    """The options of sacct. Without `since`, which only ids may go without, sacct searches all time."""
    given = [
        "--noheader",
        "--parsable",
        "--noconvert",
        f"--delimiter={DELIMITER}",
        f"--format={','.join(asked)}",
        f"--endtime={_time(until) if until else 'now'}",
        f"--user={user}" if user else "--allusers",
    ]
    if since is not None:
        given.append(f"--starttime={_time(since)}")
    if ids is not None:
        given.append(f"--jobs={','.join(map(str, sorted(by_base(ids))))}")
    if duplicates:
        given.append("--duplicates")
    if not steps:
        given.append("--allocations")
    return given


def parse(text: str, asked: Sequence[str], ids: Collection[JobId] | None = None) -> list[Job]:
    """Job records with their steps, of those ids or all, in sacct's order.

    Raises:
        ValueError: the text is not what sacct prints.
    """
    wanted = None if ids is None else by_base(ids)
    found: list[tuple[Job, list[Step]]] = []
    own: list[Step] | None = None
    for row in rows(text, asked):
        if "." in row["JobID"]:
            # Steps follow the record of their own attempt.
            if own is not None:
                own.append(to_step(row))
            continue
        job_id = JobId.parse(row["JobID"])
        own = None
        if wanted is None or is_wanted(job_id, row["JobIDRaw"], wanted):
            own = []
            found.append((to_job(job_id, row), own))
    return [job._replace(steps=tuple(steps)) if steps else job for job, steps in found]


def count_restarts(jobs: Sequence[Job]) -> list[Job]:
    """Attempts of one job numbered by their submit times, where this Slurm does not number them itself."""
    submits: dict[JobId, list[datetime]] = {}
    for job in jobs:
        if job.submit_time is not None:
            submits.setdefault(job.id, []).append(job.submit_time)

    def earlier(job: Job) -> int:
        return sum(1 for time in submits.get(job.id, ()) if job.submit_time and time < job.submit_time)

    return [job._replace(restarts=earlier(job)) if job.restarts is None else job for job in jobs]


def _time(moment: datetime) -> str:
    """As sacct reads it: `environment.for_reading` sets its zone to UTC."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S}"


def to_job(job_id: JobId, row: Mapping[str, str]) -> Job:
    """The record of a job's row, whose columns are `FIELDS`; its steps are rows of their own.

    Raises:
        ValueError: a column holds what sacct does not print there.
    """
    ended = parse_epoch(row["End"])
    nodes = _nodes(row["NodeList"])
    return Job(
        id=job_id,
        name=row["JobName"],
        user=row["User"],
        account=text_or_none(row["Account"]),
        partition=text_or_none(row["Partition"]),
        qos=text_or_none(row["QOS"]),
        cluster=text_or_none(row["Cluster"]),
        state=JobState.parse(row["State"]),
        reason=text_or_none(row["Reason"]),
        cancelled_by=cancelled_by(row["State"]),
        exit_code=_exit_code(row["ExitCode"]) if ended else None,
        submit_time=parse_epoch(row["Submit"]),
        eligible_time=parse_epoch(row["Eligible"]),
        # Without nodes it is the moment at which a waiting job was cancelled.
        start_time=parse_epoch(row["Start"]) if nodes else None,
        end_time=ended,
        elapsed=parse_seconds(row["ElapsedRaw"]),
        time_limit=parse_minutes(row["TimelimitRaw"]),
        nodes=nodes,
        node_count=number(row["NNodes"]),
        cpus=number(row["AllocCPUS"]),
        tres=_tres(row["AllocTRES"]),
        requested_tres=_tres(row["ReqTRES"]),
        comment=text_or_none(row["Comment"]),
        working_directory=text_or_none(row["WorkDir"]),
        submit_line=text_or_none(row["SubmitLine"]),
        restarts=number(row.get("Restarts")),
    )


def to_step(row: Mapping[str, str]) -> Step:
    """The record of a step's row.

    Raises:
        ValueError: a column holds what sacct does not print there.
    """
    ended = parse_epoch(row["End"])
    return Step(
        id=StepId.parse(row["JobID"]),
        name=row["JobName"],
        state=JobState.parse(row["State"]),
        exit_code=_exit_code(row["ExitCode"]) if ended else None,
        start_time=parse_epoch(row["Start"]),
        end_time=ended,
        elapsed=parse_seconds(row["ElapsedRaw"]),
        nodes=_nodes(row["NodeList"]),
        tasks=number(row["NTasks"]),
        tres=_tres(row["AllocTRES"]),
        # No process has no memory: 0 is what Slurm has where it never looked.
        max_rss=parse_memory(row["MaxRSS"]) or None,
    )


def _exit_code(text: str) -> ExitCode | None:
    return ExitCode.parse(text) if text else None  # a step that was cancelled may have none


def _nodes(text: str) -> tuple[str, ...]:
    return tuple(expand(text_or_none(text) or ""))


def _tres(text: str) -> Tres | None:
    return Tres.parse(text) if text else None
