"""What must not leak from the submitting shell into a job, and what must stay.

A submit from inside another job, or from a shell in which a module set SBATCH_* variables, gives the same
job as one from a clean shell: sbatch reads its own variables before the script's directives, srun inside
the job reads SLURM_* of the outer one, and a pinned or hidden GPU stays pinned and hidden.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

TOKEN = "SLURM_JWT"  # noqa: S105 - its name, not its text
"""The variable of a JSON Web Token: a password, which no job and no file gets."""

WHERE_SLURM_IS = ("SLURM_CONF", "SLURM_CONF_SERVER", TOKEN, "SLURM_CLUSTERS")
"""Stay: they say which Slurm to talk to, as whom, and which of its clusters; they ask for nothing."""

LEAKING_PREFIXES = (
    "SLURM_",  # the outer job's shape: SLURM_NTASKS, SLURM_CPU_BIND, SLURM_MEM_PER_CPU, SLURM_EXPORT_ENV ...
    "SLURMD_",
    "SBATCH_",  # beat the script's directives
    "SRUN_",
    "SALLOC_",
    "PMI_",  # a rank of an outer MPI program: the inner one would join it, or wait for it
    "PMI2_",
    "PMIX_",
    "OMPI_COMM_WORLD_",
    "PALS_",
    "HYDRA_",
    "TORCHELASTIC_",
    "SLURMKIT_",  # an outer run of our own
)

LEAKING_NAMES = frozenset(
    {
        # Devices that Slurm gave to the outer job.
        "CUDA_VISIBLE_DEVICES",
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
        "ROCR_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
        "GPU_DEVICE_ORDINAL",
        "ZE_AFFINITY_MASK",
        # Which rank of an outer program this shell is.
        "RANK",
        "LOCAL_RANK",
        "GROUP_RANK",
        "ROLE_RANK",
        "ROLE_NAME",
        "NODE_RANK",
        "WORLD_SIZE",
        "LOCAL_WORLD_SIZE",
        "GROUP_WORLD_SIZE",
        "ROLE_WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
        "PMI_RANK",
        "OMPI_MCA_orte_hnp_uri",
    }
)

CLIENT_PREFIXES = ("SQUEUE_", "SACCT_", "SINFO_", "SCANCEL_", "SCONTROL_", "SACCTMGR_")
"""Change what a command prints or asks; harmless in a job, but not in the calls that we read."""


def strip(environ: Mapping[str, str], keep: Collection[str] = ()) -> tuple[dict[str, str], tuple[str, ...]]:
    """The environment without what would leak into a job, and the names that were taken out, sorted.

    `keep` names variables that stay all the same.
    """
    staying = {*WHERE_SLURM_IS, *keep}
    gone = {name for name in environ if _leaks(name) and name not in staying}
    return {name: value for name, value in environ.items() if name not in gone}, tuple(sorted(gone))


def for_reading(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a command whose output is parsed: the same text for every user and zone."""
    clean = {name: value for name, value in strip(environ)[0].items() if not name.startswith(CLIENT_PREFIXES)}
    # Times are epoch seconds, -S and -E are read as UTC, and a long array's tasks are not cut at 64 bytes.
    return clean | {"LC_ALL": "C", "TZ": "UTC", "SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0"}


def _leaks(name: str) -> bool:
    return name in LEAKING_NAMES or name.startswith(LEAKING_PREFIXES)
