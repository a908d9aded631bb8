"""squeue: what to ask, and its answer as records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmkit.launch.hostlist import expand
from slurmkit.slurm.ids import JobId
from slurmkit.slurm.records import Job
from slurmkit.slurm.rows import DELIMITER, rows
from slurmkit.slurm.states import JobState
from slurmkit.slurm.times import parse_duration, parse_epoch

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from slurmkit.slurm.exitcode import ExitCode

# By name: squeue's letter. Free text stands last.
COLUMNS = {
    "id": "%i",
    "user": "%u",
    "account": "%a",
    "partition": "%P",
    "qos": "%q",
    "state": "%T",
    "submit": "%V",
    "start": "%S",
    "end": "%e",
    "elapsed": "%M",
    "limit": "%l",
    "node_count": "%D",
    "cpus": "%C",
    "nodes": "%N",
    "reason": "%r",
    "directory": "%Z",
    "comment": "%k",
    "name": "%j",
}


def arguments(*, ids: Iterable[JobId] | None = None, user: str | None = None) -> list[str]:
    """The options of squeue for jobs in any state, of those ids or of that user, or all."""
    asked = ["--noheader", "--states=all", f"--format={DELIMITER.join(COLUMNS.values())}"]
    if ids is not None:
        asked.append(f"--jobs={','.join(sorted({str(one.base) for one in ids}))}")
    if user is not None:
        asked.append(f"--user={user}")
    return asked


def parse(text: str, exit_codes: Mapping[JobId, ExitCode] | None = None) -> list[Job]:
    """Jobs as squeue lists them; `exit_codes` of ended ones, which squeue's text form lacks.

    Raises:
        ValueError: the text is not what squeue prints.
    """
    codes = exit_codes or {}
    return [_job(row, codes) for row in rows(text, list(COLUMNS))]


def _job(row: Mapping[str, str], codes: Mapping[JobId, ExitCode]) -> Job:
    job_id = JobId.parse(row["id"])
    state = JobState.parse(row["state"])
    started = parse_epoch(row["start"])
    return Job(
        id=job_id,
        name=row["name"],
        user=row["user"],
        account=_or_none(row["account"]),
        partition=_or_none(row["partition"]),
        qos=_or_none(row["qos"]),
        state=state,
        reason=_or_none(row["reason"]),
        exit_code=codes.get(job_id),
        submit_time=parse_epoch(row["submit"]),
        start_time=started,
        end_time=parse_epoch(row["end"]) if state.is_final else None,
        elapsed=parse_duration(row["elapsed"]) if started and not state.is_pending else None,
        time_limit=parse_duration(row["limit"]),
        nodes=tuple(expand(row["nodes"])),
        node_count=_number(row["node_count"]),
        cpus=_number(row["cpus"]),
        comment=_or_none(row["comment"]),
        working_directory=_or_none(row["directory"]),
    )


def _or_none(text: str) -> str | None:
    return None if text in {"", "(null)", "N/A", "None"} else text


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None
