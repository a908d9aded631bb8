from __future__ import annotations

import pytest

from slurmkit.slurm.environment import for_reading, strip


@pytest.mark.parametrize(
    "name",
    [
        "SLURM_MEM_PER_CPU",
        "SLURM_JOB_ID",
        "SLURMD_NODENAME",
        "SBATCH_PARTITION",
        "SBATCH_CLUSTERS",
        "SRUN_CPUS_PER_TASK",
        "SALLOC_ACCOUNT",
        "PMI_RANK",
        "PMIX_NAMESPACE",
        "OMPI_COMM_WORLD_RANK",
        "CUDA_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
        "ZE_AFFINITY_MASK",
        "MASTER_ADDR",
        "TORCHELASTIC_RUN_ID",
        "SLURMKIT_RUN_DIRECTORY",
    ],
)
def test_what_an_outer_job_sets_does_not_leak(name: str) -> None:
    assert strip({name: "x", "HOME": "/h"}) == ({"HOME": "/h"}, (name,))


@pytest.mark.parametrize("name", ["SLURM_CONF", "SLURM_JWT", "SLURM_CLUSTERS", "SLURM_CONF_SERVER"])
def test_what_says_where_slurm_is_stays(name: str) -> None:
    assert strip({name: "x"}) == ({name: "x"}, ())


@pytest.mark.parametrize("name", ["PATH", "NCCL_DEBUG", "OMP_NUM_THREADS", "OMPI_MCA_btl", "SLURMY", "PMIX"])
def test_the_users_own_settings_stay(name: str) -> None:
    assert strip({name: "a,'b\"\n$`é"}) == ({name: "a,'b\"\n$`é"}, ())


def test_trap_064_submitting_from_inside_a_job_says_what_it_left_out() -> None:
    outer = {"SLURM_MEM_PER_CPU": "50", "SLURM_CPU_BIND": "quiet", "PATH": "/bin"}
    assert strip(outer)[1] == ("SLURM_CPU_BIND", "SLURM_MEM_PER_CPU")


def test_trap_067_a_variable_that_is_kept_by_name_stays() -> None:
    assert strip({"SBATCH_TIMELIMIT": "7", "SBATCH_GRES": "g"}, keep=["SBATCH_GRES"]) == (
        {"SBATCH_GRES": "g"},
        ("SBATCH_TIMELIMIT",),
    )


def test_trap_041_the_users_environment_does_not_change_what_a_command_prints() -> None:
    user = {
        "SLURM_TIME_FORMAT": "relative",
        "SQUEUE_FORMAT": "%i",
        "SACCT_FORMAT": "jobid",
        "SCANCEL_INTERACTIVE": "1",
        "LC_ALL": "de_DE",
        "TZ": "America/New_York",
        "SLURM_CONF": "/c",
    }
    assert for_reading(user) == {
        "SLURM_CONF": "/c",
        "LC_ALL": "C",
        "TZ": "UTC",
        "SLURM_TIME_FORMAT": "%s",
        "SLURM_BITSTR_LEN": "0",
    }
