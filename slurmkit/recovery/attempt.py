"""Which start of the run this is: what Slurm's variables tell the batch script."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, count
from typing import TYPE_CHECKING

from slurmkit.errors import UsageError
from slurmkit.launch.hostlist import expand
from slurmkit.run.paths import attempt_name

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One start of the run by Slurm."""

    name: str
    job_id: str
    """As Slurm prints it: a task of an array is `1234_7`."""
    array_job_id: str | None
    number: int
    """The job id proper, of which each task of an array has its own."""
    restart: int
    nodes: tuple[str, ...]
    """In Slurm's order: the first one is this host."""
    host: str


def current_attempt(environ: Mapping[str, str], known: Collection[str] = ()) -> Attempt:
    """The attempt whose batch script has this environment; its name is none of the `known` ones.

    Slurm counts no restart where it starts a job again because the start itself was lost.

    Raises:
        UsageError: it is none of a Slurm job.
    """
    try:
        number = int(environ["SLURM_JOB_ID"])
        nodes = tuple(expand(environ["SLURM_JOB_NODELIST"]))
        # Not set at the first start, on most versions.
        restart = int(environ.get("SLURM_RESTART_COUNT") or 0)
    except (KeyError, ValueError) as error:
        raise UsageError(
            f"this is not the batch script of a Slurm job: {error}",
            hint="the agent is started by the script that `slurmkit submit` makes",
        ) from error
    array_job_id = environ.get("SLURM_ARRAY_JOB_ID")
    job_id = f"{array_job_id}_{environ.get('SLURM_ARRAY_TASK_ID')}" if array_job_id else str(number)
    return Attempt(
        name=_unused(attempt_name(job_id, restart), known),
        job_id=job_id,
        array_job_id=array_job_id,
        number=number,
        restart=restart,
        nodes=nodes,
        host=environ.get("SLURMD_NODENAME") or nodes[0],
    )


def _unused(name: str, known: Collection[str]) -> str:
    more = (f"{name}.{number}" for number in count(2))
    return next(one for one in chain([name], more) if one not in known)


def restart_of(name: str) -> int:
    """The restart count in the name of an attempt."""
    return int(name.rpartition("-")[2].partition(".")[0] or 0)
