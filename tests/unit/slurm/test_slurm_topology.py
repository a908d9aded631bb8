"""Where nodes are in the network, from what scontrol prints of it."""

from __future__ import annotations

import pytest

from slurmkit.slurm.scontrol import parse_topology


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("", {}),
        (
            "SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n1,n2 \n"
            "SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=n3 \n"
            "SwitchName=spine Level=1 LinkSpeed=1 Nodes=n[1-3] Switches=leaf1,leaf2 \n",
            {"n1": "spine.leaf1.n1", "n2": "spine.leaf1.n2", "n3": "spine.leaf2.n3"},
        ),
        (
            "BlockName=b1 BlockIndex=0 Nodes=gpu[01-02] BlockSize=2\n"
            "BlockName=b2 BlockIndex=1 Nodes=gpu[03-04] BlockSize=2\n"
            "AggregatedBlock=b[1-2] BlockIndex=2 Nodes=gpu[01-04] BlockSize=4\n",
            {
                "gpu01": "b[1-2].b1.gpu01",
                "gpu02": "b[1-2].b1.gpu02",
                "gpu03": "b[1-2].b2.gpu03",
                "gpu04": "b[1-2].b2.gpu04",
            },
        ),
        ("SwitchName=s Level=0 LinkSpeed=1 Nodes=(null)\n", {}),
    ],
)
def test_a_node_is_under_its_switches_or_blocks(text: str, addresses: dict[str, str]) -> None:
    assert parse_topology(text) == addresses
