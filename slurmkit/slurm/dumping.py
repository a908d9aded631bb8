"""sacct's records of many jobs at once, into a file: nothing of them is held in memory.

One query runs at a time, for the caller waits for it; Slurm's manual asks not to do so in tight loops.
"""

from __future__ import annotations

import re
from datetime import UTC
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.errors import MissingRequirement
from slurmkit.slurm import process
from slurmkit.slurm.environment import for_reading
from slurmkit.slurm.refusals import is_fault, to_error
from slurmkit.slurm.rows import DELIMITER

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime
    from pathlib import Path

    from slurmkit.slurm.clock import Clock

FIELDS = (
    "JobID", "JobIDRaw", "Cluster", "User", "UID", "Account", "Partition", "QOS", "State", "ExitCode",
    "Submit", "Eligible", "Start", "End", "ElapsedRaw", "Suspended", "TimelimitRaw", "NNodes", "NodeList",
    "NTasks", "AllocCPUS", "AllocTRES", "AllocGRES", "ReqNodes", "ReqCPUS", "ReqMem", "ReqTRES", "ReqGRES",
    "TotalCPU", "MaxRSS", "TRESUsageInTot", "ConsumedEnergyRaw", "Restarts", "Reason", "WorkDir",
    "SubmitLine", "Comment", "JobName",
)  # fmt: skip
"""What is asked for as far as this sacct knows it; what may hold any text stands last."""


_OF_SLURMDBD = re.compile("error:.*(slurmdbd|database|DBD_|persist)", re.IGNORECASE)


class Query(NamedTuple):
    """Which records: of jobs that were there at some time of a window, or of these ids at any time."""

    since: datetime | None = None
    until: datetime | None = None
    ids: Collection[int] = ()


class Asked(NamedTuple):
    """How to ask: which fields, of which cluster, and for how many seconds at most."""

    fields: tuple[str, ...]
    cluster: str | None = None
    timeout: float = 600.0


def known_fields(environ: Mapping[str, str], clock: Clock) -> tuple[str, ...]:
    """Those of `FIELDS` that this machine's sacct knows.

    Raises:
        SlurmkitError: sacct cannot be asked.
    """
    answer = process.run(["sacct", "--helpformat"], environment=for_reading(environ), clock=clock)
    known = {name.lower() for name in process.check("sacct", answer).stdout.split()}
    return tuple(name for name in FIELDS if name.lower() in known)


def arguments(query: Query, asked: Asked) -> list[str]:
    """The options of sacct, every attempt with its steps. Times are UTC, as `for_reading` has it.

    Without `--array`: Slurm 22.05 does not know it, and later it tells the tasks of an array that wait apart,
    which have no number of their own yet.
    """
    where = [f"--clusters={asked.cluster}"] if asked.cluster else []
    which = [f"--jobs={','.join(map(str, sorted(query.ids)))}"] if query.ids else []
    span = [
        f"--{name}={moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S}"
        for name, moment in (("starttime", query.since), ("endtime", query.until))
        if moment is not None
    ]
    return [
        "sacct",
        *where,
        "--allusers",
        "--duplicates",
        "--parsable",
        "--noconvert",
        f"--delimiter={DELIMITER}",
        f"--format={','.join(asked.fields)}",
        *span,
        *which,
    ]


def dump(query: Query, asked: Asked, target: Path, *, environ: Mapping[str, str]) -> bool:
    """Let sacct write records into a file, with a header; whether it ended within its time.

    Raises:
        MissingRequirement: there is no sacct.
        SlurmError: sacct failed, or was ended; what it has written is not all of it.
        OSError: the file cannot be written.
    """
    import subprocess

    argv = arguments(query, asked)
    environment = for_reading(environ)
    program = process.find_program("sacct", environment.get("PATH"))
    with target.open("wb") as file, target.with_suffix(".err").open("w+b") as errors:
        try:
            child = subprocess.Popen(
                argv,
                executable=program,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=errors,
                process_group=0,
            )
        except OSError as error:
            raise MissingRequirement(f"sacct cannot be started: {error.strerror}", where=program) from error
        with child:
            try:
                code = child.wait(asked.timeout)
            except subprocess.TimeoutExpired:
                child.kill()
                return False
            except BaseException:
                child.kill()
                raise
        errors.seek(0)
        said = errors.read().decode("utf-8", "replace")
    _check(code, said)
    return True


def _check(code: int, said: str) -> None:
    """That sacct has written all there is; older ones say with code 0 that slurmdbd is away."""
    if code < 0:
        raise to_error("sacct", f"sacct: ended by signal {-code}", repeatable=True)
    if code or is_fault(said) or _OF_SLURMDBD.search(said):
        raise to_error("sacct", said, repeatable=True)
