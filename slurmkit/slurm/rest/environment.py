"""The variables of a job that is submitted through slurmrestd: what sbatch would have made of them.

slurmrestd hands on only what it is given. sbatch adds the job's shape, which srun reads inside the job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmkit.slurm.rest.token import VARIABLE as TOKEN

if TYPE_CHECKING:
    from collections.abc import Mapping

PLAIN_PATH = "/usr/local/bin:/usr/bin:/bin"
"""Where nothing else is known of the cluster."""

SHAPE = {
    "ntasks": ("SLURM_NTASKS", "SLURM_NPROCS"),
    "ntasks-per-node": ("SLURM_NTASKS_PER_NODE",),
    "cpus-per-task": ("SLURM_CPUS_PER_TASK",),
    "gpus": ("SLURM_GPUS",),
    "gpus-per-node": ("SLURM_GPUS_PER_NODE",),
    "gpus-per-task": ("SLURM_GPUS_PER_TASK",),
    "gpus-per-socket": ("SLURM_GPUS_PER_SOCKET",),
    "cpus-per-gpu": ("SLURM_CPUS_PER_GPU",),
    "ntasks-per-gpu": ("SLURM_NTASKS_PER_GPU",),
    "distribution": ("SLURM_DISTRIBUTION",),
    "job-name": ("SLURM_JOB_NAME",),
}


def job_environment(
    given: Mapping[str, str], options: Mapping[str, str | None], directory: str
) -> dict[str, str]:
    """The variables of a job; the token is none of them, whoever set it."""
    exported = _exported(given, options.get("export") or "ALL")
    if "get-user-env" in options:
        exported["SLURM_GET_USER_ENV"] = "1"
    shape = {
        variable: value
        for name, variables in SHAPE.items()
        if (value := options.get(name)) is not None
        for variable in variables
    }
    made = {"PATH": PLAIN_PATH, **exported, **shape, "SLURM_SUBMIT_DIR": directory}
    return {name: value for name, value in made.items() if name != TOKEN and "\0" not in value}


def _exported(given: Mapping[str, str], export: str) -> dict[str, str]:
    """As `--export` has it: all, none, or those named; where not all, the user's login shell adds its own."""
    words = export.split(",")
    if export in {"NONE", "NIL"}:
        return {"SLURM_GET_USER_ENV": "1"} if export == "NONE" else {}
    kept = dict(given) if "ALL" in words else {"SLURM_GET_USER_ENV": "1"}
    for word in words:
        name, equals, value = word.partition("=")
        if equals:
            kept[name] = value
        elif name in given:
            kept[name] = given[name]
    return kept
