"""The fabric check through the real torch over gloo, three ranks on this host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from slurmkit.inventory import fabric_program
from slurmkit.inventory.fabric import from_json
from tests.unit.inventory.test_fabric_program import free_port

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.framework

PYTHON = os.environ.get("SLURMKIT_FRAMEWORKS_PYTHON", sys.executable)
RANKS = 3


@pytest.fixture
def with_torch() -> str:
    done = subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, check=False)
    assert done.returncode == 0, f"{PYTHON} has no torch; SLURMKIT_FRAMEWORKS_PYTHON names one that has"
    return PYTHON


def test_torch_measures_over_gloo_and_its_sums_are_right(with_torch: str, tmp_path: Path) -> None:
    port = free_port()
    common = {
        "WORLD_SIZE": str(RANKS),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "SLURMKIT_RUN_DIRECTORY": str(tmp_path),
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
    }
    ranks = [
        subprocess.Popen(
            [with_torch, fabric_program.__file__, "--largest=65536", "--pair-bytes=65536"],
            env={
                **os.environ,
                **common,
                "RANK": str(rank),
                "NODE_RANK": str(rank),
                "SLURMD_NODENAME": f"n{rank}",
            },
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(RANKS)
    ]
    said = [rank.communicate(timeout=200)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * RANKS, said
    fabric = from_json(json.loads((tmp_path / fabric_program.RESULT).read_text()))
    assert (fabric.is_complete, fabric.adds_up, len(fabric.links)) == (True, True, 3)
    assert fabric.transport in {"gloo", "nccl"}
    assert fabric.torch is not None
    assert all(one.error is None and one.bandwidth for one in fabric.links)
