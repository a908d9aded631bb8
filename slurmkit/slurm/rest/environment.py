"""The variables of a job that is submitted through slurmrestd: what sbatch would have made of them.

slurmrestd hands on only what it is given. sbatch adds the job's shape, which srun reads inside the job.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from slurmkit.slurm.environment import TOKEN

if TYPE_CHECKING:
    from collections.abc import Mapping

PLAIN_PATH = "/usr/local/bin:/usr/bin:/bin"
"""Where nothing else is known of the cluster."""

LAUNCHERS = {
    "HYDRA_BOOTSTRAP": "slurm",
    "HYDRA_LAUNCHER_EXTRA_ARGS": "--external-launcher",
    "I_MPI_HYDRA_BOOTSTRAP": "slurm",
    "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": "--external-launcher",
    "OMPI_MCA_plm_slurm_args": "--external-launcher",
    "PRTE_MCA_plm_slurm_args": "--external-launcher",
}
"""By these mpirun knows srun as its launcher, and srun mpirun."""

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
    given: Mapping[str, str], options: Mapping[str, str | None], directory: str, *, umask: int
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
    made = {
        "PATH": PLAIN_PATH,
        **exported,
        **shape,
        "SLURM_SUBMIT_DIR": directory,
        "SLURM_UMASK": f"{umask:04o}",
    }
    return {name: value for name, value in made.items() if name != TOKEN and "\0" not in value}


def since_2411(options: Mapping[str, str | None]) -> dict[str, str]:
    """What newer versions of sbatch add: how MPI programs of others find srun, and the shape in TRES."""
    made = dict(LAUNCHERS)
    if tres := tres_per_task(options):
        made["SLURM_TRES_PER_TASK"] = tres
    if bind := implied_binding(options):
        made["SLURM_TRES_BIND"] = bind
    return made


def tres_per_task(options: Mapping[str, str | None]) -> str:
    """What each task has, in the words that srun reads."""
    gpus = options.get("gpus-per-task") or ""
    kind, _, count = gpus.rpartition(":")
    parts = [
        options.get("tres-per-task") or "",
        f"cpu={options['cpus-per-task']}" if options.get("cpus-per-task") else "",
        f"gres/gpu{f':{kind}' if kind else ''}={count}" if gpus else "",
    ]
    return ",".join(filter(None, parts))


def implied_binding(options: Mapping[str, str | None]) -> str:
    """GPUs that are asked for by task are bound to it, unless the job says how."""
    gpus = (options.get("gpus-per-task") or "").rpartition(":")[2]
    if not gpus.isdigit() or {"gpu-bind", "tres-bind"} & options.keys():
        return ""
    return f"gres/gpu:per_task:{gpus}"


def current_umask() -> int:
    """The umask of this process: the job's files are as private as those that are made here."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


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
