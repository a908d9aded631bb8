"""sacct: what to ask, and its answer as records."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from slurmkit.launch.hostlist import expand
from slurmkit.slurm.exitcode import ExitCode
from slurmkit.slurm.ids import JobId, StepId
from slurmkit.slurm.records import Job, Step
from slurmkit.slurm.rows import DELIMITER, rows
from slurmkit.slurm.states import JobState, cancelled_by
from slurmkit.slurm.times import parse_epoch, parse_minutes, parse_seconds
from slurmkit.slurm.tres import Tres, parse_memory

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import datetime

FIELDS = (
    "JobID", "State", "ExitCode", "User", "Account", "Partition", "QOS", "Cluster", "Submit", "Eligible",
    "Start", "End", "ElapsedRaw", "TimelimitRaw", "NNodes", "NTasks", "AllocCPUS", "AllocTRES", "ReqTRES",
    "MaxRSS", "Restarts", "NodeList", "Reason", "WorkDir", "SubmitLine", "Comment", "JobName",
)  # fmt: skip
"""In the order of the answer: what may hold any text stands last. `Restarts` is there since 24.11."""


def fields(known: Collection[str]) -> tuple[str, ...]:
    """The fields to ask for: those of ours that `sacct --helpformat` names, in any case."""
    names = {name.lower() for name in known}
    return tuple(name for name in FIELDS if name.lower() in names)


def arguments(
    asked: Sequence[str],
    *,
    ids: Iterable[JobId] | None,
    since: datetime,
    until: datetime,
    user: str | None,
    duplicates: bool,
    steps: bool,
) -> list[str]:
    """The options of sacct; the zone of times is UTC, as `environment.for_reading` sets it."""
    given = [
        "--noheader",
        "--parsable2",
        "--noconvert",
        f"--delimiter={DELIMITER}",
        f"--format={','.join(asked)}",
        f"--starttime={since:%Y-%m-%dT%H:%M:%S}",
        f"--endtime={until:%Y-%m-%dT%H:%M:%S}",
    ]
    if ids is not None:
        given.append(f"--jobs={','.join(sorted({str(one.base) for one in ids}))}")
    given.append(f"--user={user}" if user else "--allusers")
    if duplicates:
        given.append("--duplicates")
    if not steps:
        given.append("--allocations")
    return given


def parse(text: str, asked: Sequence[str]) -> list[Job]:
    """Job records with their steps, in sacct's order.

    Raises:
        ValueError: the text is not what sacct prints.
    """
    jobs: list[Job] = []
    steps: list[list[Step]] = []
    for row in rows(text, asked):
        if "." not in row["JobID"]:
            jobs.append(_job(row))
            steps.append([])
        elif jobs:
            steps[-1].append(_step(row))
    return [replace(job, steps=tuple(own)) for job, own in zip(jobs, steps, strict=True)]


def _job(row: Mapping[str, str]) -> Job:
    return Job(
        id=JobId.parse(row["JobID"]),
        name=row["JobName"],
        user=row["User"],
        account=row["Account"] or None,
        partition=row["Partition"] or None,
        qos=row["QOS"] or None,
        cluster=row["Cluster"] or None,
        state=JobState.parse(row["State"]),
        reason=None if row["Reason"] in {"", "None"} else row["Reason"],
        cancelled_by=cancelled_by(row["State"]),
        exit_code=ExitCode.parse(row["ExitCode"]),
        submit_time=parse_epoch(row["Submit"]),
        eligible_time=parse_epoch(row["Eligible"]),
        start_time=parse_epoch(row["Start"]),
        end_time=parse_epoch(row["End"]),
        elapsed=parse_seconds(row["ElapsedRaw"]),
        time_limit=parse_minutes(row["TimelimitRaw"]),
        nodes=_nodes(row["NodeList"]),
        node_count=_number(row["NNodes"]),
        cpus=_number(row["AllocCPUS"]),
        tres=_tres(row["AllocTRES"]),
        requested_tres=_tres(row["ReqTRES"]),
        comment=row["Comment"] or None,
        working_directory=row["WorkDir"] or None,
        submit_line=row.get("SubmitLine") or None,
        restarts=_number(row.get("Restarts", "")),
    )


def _step(row: Mapping[str, str]) -> Step:
    return Step(
        id=StepId.parse(row["JobID"]),
        name=row["JobName"],
        state=JobState.parse(row["State"]),
        exit_code=ExitCode.parse(row["ExitCode"]),
        start_time=parse_epoch(row["Start"]),
        end_time=parse_epoch(row["End"]),
        elapsed=parse_seconds(row["ElapsedRaw"]),
        nodes=_nodes(row["NodeList"]),
        tasks=_number(row["NTasks"]),
        tres=_tres(row["AllocTRES"]),
        max_rss=parse_memory(row["MaxRSS"]),
    )


def _nodes(text: str) -> tuple[str, ...]:
    return () if text in {"", "None assigned", "(null)"} else tuple(expand(text))


def _tres(text: str) -> Tres | None:
    return Tres.parse(text) if text else None


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None
