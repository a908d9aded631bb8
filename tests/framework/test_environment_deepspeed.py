"""DeepSpeed itself finds its ranks, and does not go looking for MPI."""

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
    steps.needs("deepspeed", why="`pip install --no-build-isolation deepspeed`"),
]

PROGRAM = """
import sys, torch, deepspeed.comm
sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None  # would compile C++ at the start
deepspeed.comm.init_distributed(dist_backend="gloo")
total = torch.tensor([deepspeed.comm.get_rank() + 1])
deepspeed.comm.all_reduce(total)
tell(
    deepspeed.comm.get_rank(), deepspeed.comm.get_world_size(), deepspeed.comm.get_local_rank(), total.item()
)
"""


def test_four_ranks_meet_through_the_environment(slurm_testbed: Testbed, tmp_path: Path) -> None:
    variables = ["DS_ACCELERATOR=cpu", f"TORCH_EXTENSIONS_DIR={tmp_path}"]
    told = steps.run(slurm_testbed, tmp_path, PROGRAM, variables=variables)
    assert told == [[4, rank % 2, 10] for rank in range(4)]
