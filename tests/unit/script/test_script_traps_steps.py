"""Steps that others started wrongly: what slurmkit's own say."""

from __future__ import annotations

from pathlib import Path

from slurmkit.script import render
from slurmkit.script.step import srun_arguments
from slurmkit.slurm.environment import strip
from slurmkit.spec.model import JobSpec

SPEC = JobSpec(name="x", command=("python", "train.py"), resources={"ntasks": 4, "cpus_per_task": 16})


def test_trap_061_the_step_says_its_cpus_per_task_itself(tmp_path: Path) -> None:
    assert "--cpus-per-task=16" in srun_arguments(SPEC)
    rendered = render(SPEC, run_directory=tmp_path, run_id="r-1", directory=tmp_path, template="plain")
    (line,) = [line for line in rendered.text.splitlines() if "srun " in line and "--cpus-per-task" in line]
    assert "--cpus-per-task=16" in line


def test_trap_062_counts_of_an_outer_job_do_not_reach_srun() -> None:
    outer = {"SLURM_CPUS_PER_TASK": "4", "SLURM_TRES_PER_TASK": "cpu:4", "SRUN_CPUS_PER_TASK": "4"}
    assert strip({**outer, "SLURM_CONF": "/etc/slurm.conf"})[0] == {"SLURM_CONF": "/etc/slurm.conf"}
