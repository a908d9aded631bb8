"""MPI gets its ranks from srun through PMI, past the parent, and they are the ones that we tell."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.framework import steps

if TYPE_CHECKING:
    from slurmkit.testbed.testbed import Testbed

LIBRARY = Path(sys.prefix) / "lib" / "libmpi.so.12"
pytestmark = [
    pytest.mark.framework,
    pytest.mark.cluster,
    steps.needs("mpi4py", why="`pip install mpi4py mpich`"),
    pytest.mark.skipif(not LIBRARY.exists(), reason="MPICH not installed: `pip install mpich`"),
]

PROGRAM = """
from mpi4py import MPI
world = MPI.COMM_WORLD
tell(world.rank, world.size, world.allreduce(world.rank + 1), os.environ["RANK"], os.environ["WORLD_SIZE"])
"""


def test_mpich_over_pmi2_has_the_same_ranks(slurm_testbed: Testbed, tmp_path: Path) -> None:
    variables = ["MPI4PY_MPIABI=mpich", f"LD_LIBRARY_PATH={LIBRARY.parent}"]
    srun = [*steps.FOUR_RANKS, "--mpi=pmi2"]
    told = steps.run(slurm_testbed, tmp_path, PROGRAM, srun=srun, variables=variables)
    assert told == [[4, 10, str(rank), "4"] for rank in range(4)]
