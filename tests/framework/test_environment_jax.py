"""JAX itself finds its processes and its coordinator, with no argument to `initialize`."""

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
    steps.needs("jax", why="the test of JAX runs in the environment for frameworks"),
]

PROGRAM = """
import jax
jax.distributed.initialize(initialization_timeout=60)
from jax._src import distributed
from jax.experimental import multihost_utils
everyone = multihost_utils.process_allgather(jax.numpy.array([jax.process_index()])).ravel().tolist()
meeting = "{MASTER_ADDR}:{MASTER_PORT}".format(**os.environ)
tell(
    jax.process_index(), jax.process_count(), everyone,
    distributed.global_state.coordinator_address == meeting,
    os.environ.get("JAX_LOCAL_DEVICE_IDS"),
)
"""


def test_four_processes_meet_at_the_port_of_the_step(slurm_testbed: Testbed, tmp_path: Path) -> None:
    """JAX alone takes its port from the job id, so that two steps of a job meet each other."""
    srun = [*steps.FOUR_RANKS, "--gpus-per-node=4"]
    told = steps.run(slurm_testbed, tmp_path, PROGRAM, srun=srun, variables=["JAX_PLATFORMS=cpu"])
    assert told == [[4, [0, 1, 2, 3], True, ids] for ids in ["0,1", "2,3"] * 2]
