"""PyTorch itself finds its ranks: `env://` and torchrun."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.framework import steps

if TYPE_CHECKING:
    from pathlib import Path

    from slurmkit.testbed.testbed import Testbed

pytestmark = [pytest.mark.framework, pytest.mark.cluster]

PROGRAM = """
import torch, torch.distributed as dist
from slurmkit.launch import rank_from_env
dist.init_process_group("gloo")
total = torch.tensor([dist.get_rank() + 1])
dist.all_reduce(total)
here = rank_from_env()
tell(
    dist.get_rank(), dist.get_world_size(), total.item(), here.rank, here.local_rank, here.node_rank,
    here.device, os.environ["SLURMD_NODENAME"],
)
dist.destroy_process_group()
"""


def test_four_ranks_meet_through_the_environment(slurm_testbed: Testbed, tmp_path: Path) -> None:
    told = steps.run(slurm_testbed, tmp_path, PROGRAM, srun=[*steps.FOUR_RANKS, "--gpus-per-node=2"])
    nodes = [found.pop() for found in told]
    assert told == [[4, 10, rank, rank % 2, rank // 2, rank % 2] for rank in range(4)]
    assert len(set(nodes)) == 2


@pytest.mark.parametrize(
    ("command", "gpus"),
    [
        (["torchrun"], "--gpus-per-node=2"),
        (["bash", "-c", 'exec python -m torch.distributed.run --nproc-per-node=2 "$0"'], "--gpus-per-node=0"),
        (
            ["bash", "-c", 'torchrun --nnodes=2 --node-rank="$RANK" --nproc-per-node=2 '
             '--rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT" "$0"'],
            "--gpus-per-node=2",
        ),
    ],
    ids=["bare", "nproc given", "all given"],
)  # fmt: skip
def test_trap_086_one_torchrun_on_each_node_is_one_world(
    slurm_testbed: Testbed, tmp_path: Path, command: list[str], gpus: str
) -> None:
    srun = ["--nodes=2", "--ntasks-per-node=1", *([] if gpus.endswith("=0") else [gpus])]
    told = steps.run(slurm_testbed, tmp_path, PROGRAM, srun=srun, before=command)
    nodes = [found.pop() for found in told]
    devices = [found.pop() for found in told]
    assert told == [[4, 10, rank, rank % 2, rank // 2] for rank in range(4)]
    assert devices == ([None] * 4 if gpus.endswith("=0") else [0, 1, 0, 1])
    assert len(set(nodes)) == 2
