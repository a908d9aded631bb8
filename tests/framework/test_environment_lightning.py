"""Lightning's own reading of Slurm's variables accepts every step, and agrees with ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.framework import steps

if TYPE_CHECKING:
    from pathlib import Path

    from slurmkit.testbed.testbed import Testbed

pytestmark = [
    pytest.mark.framework,
    pytest.mark.cluster,
    steps.needs("lightning", why="the test of Lightning runs in the environment for frameworks"),
]

PROGRAM = """
from lightning.fabric.plugins.environments import SLURMEnvironment, TorchElasticEnvironment
assert SLURMEnvironment.detect() and not TorchElasticEnvironment.detect()
here = SLURMEnvironment()
here.validate_settings(num_devices=int(os.environ["LOCAL_WORLD_SIZE"]), num_nodes=2)
names = ["RANK", "WORLD_SIZE", "LOCAL_RANK", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT"]
ours = [os.environ[name] for name in names]
theirs = [
    here.global_rank(), here.world_size(), here.local_rank(), here.node_rank(),
    here.main_address, here.main_port,
]
tell(here.global_rank(), list(map(str, theirs)) == ours, os.environ["SLURM_NTASKS_PER_NODE"])
"""
FABRIC = """
from lightning.fabric import Fabric
fabric = Fabric(accelerator="cpu", devices=2, num_nodes=2, strategy="ddp")
fabric.launch()
import torch
total = fabric.all_reduce(torch.tensor([fabric.global_rank + 1.0]), reduce_op="sum")
tell(fabric.global_rank, fabric.world_size, fabric.local_rank, fabric.node_rank, total.item())
"""
UNEVEN = ("--nodes=2", "--ntasks=3", "--distribution=block")


def test_a_step_by_ntasks_alone_and_an_uneven_one_are_accepted(
    slurm_testbed: Testbed, tmp_path: Path
) -> None:
    """Lightning alone says of them: `--ntasks` is not supported."""
    assert steps.run(slurm_testbed, tmp_path, PROGRAM, srun=UNEVEN) == [[True, "2"], [True, "2"], [True, "1"]]


def test_a_step_that_is_smaller_than_its_job_is_accepted(slurm_testbed: Testbed, tmp_path: Path) -> None:
    """Lightning alone believes the job's tasks on each node."""
    job = ["salloc", "--quiet", "--nodes=2", "--ntasks-per-node=4", "--mem=4G", "--job-name=train"]
    step = ["--nodes=2", "--ntasks=2", "--distribution=cyclic"]
    told = steps.run(slurm_testbed, tmp_path, PROGRAM, srun=step, prefix=job)
    assert told == [[True, "1"], [True, "1"]]


def test_fabric_launches_nothing_itself_and_reduces_over_all(slurm_testbed: Testbed, tmp_path: Path) -> None:
    told = steps.run(slurm_testbed, tmp_path, FABRIC)
    assert told == [[4, rank % 2, rank // 2, 10.0] for rank in range(4)]
