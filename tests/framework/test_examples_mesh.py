"""The example of a mesh as it stands, on two nodes with four ranks each: PyTorch's own DeviceMesh."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster import ranks
from tests.framework import examples

if TYPE_CHECKING:
    from pathlib import Path

    from slurmkit.testbed.testbed import Testbed

pytestmark = [pytest.mark.framework, pytest.mark.cluster]


def test_the_groups_of_pytorch_are_those_of_slurmkit(slurm_testbed: Testbed, tmp_path: Path) -> None:
    with examples.site_of(slurm_testbed, tmp_path, "mesh") as site:
        run = examples.run(site)
        for rank, text in enumerate(ranks.printed(site, run)):
            node, place = divmod(rank, 4)
            assert text.splitlines() == [
                f"rank {rank}: data {node} of {[place, 4 + place]}",
                f"rank {rank}: tensor {place} of {[4 * node + other for other in range(4)]}",
                f"rank {rank}: (8, 16) of (32, 16), gradients agree",
            ]
