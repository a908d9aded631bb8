"""A testbed runs real jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from slurmkit.testbed.testbed import Testbed

pytestmark = pytest.mark.cluster


def test_a_gpu_job_sees_its_gpus(slurm_testbed: Testbed) -> None:
    done = slurm_testbed.command(
        ["srun", "-N2", "--gpus-per-node=2", "sh", "-c", "echo $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES"]
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split("\n")) == ["", "n1 0,1", "n2 0,1"]
