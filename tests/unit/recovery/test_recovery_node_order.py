"""Neighbours in the network stand side by side, and the batch host stays first."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmkit.recovery.node_order import hostfile, node_of_rank, ordered, srun_options, switches, why_not
from slurmkit.spec.model import JobSpec, Launch, Parallel


def tree(text: str) -> dict[str, str]:
    """Addresses from `n1:leaf1 n2:leaf2`."""
    pairs = (word.split(":") for word in text.split())
    return {node: f"{path}.{node}" for node, path in pairs}


@pytest.mark.parametrize(
    ("nodes", "addresses", "order"),
    [
        # Two leaves, interleaved by name.
        ("n1 n2 n3 n4", "n1:s.a n2:s.b n3:s.a n4:s.b", "n1 n3 n2 n4"),
        # The batch host's leaf comes first, whatever its name.
        ("n1 n2 n3", "n1:s.z n2:s.a n3:s.z", "n1 n3 n2"),
        # Three levels: leaves of one core switch stand together.
        ("n1 n2 n3 n4", "n1:t.x.a n2:t.y.b n3:t.x.c n4:t.y.b", "n1 n3 n2 n4"),
        # Blocks.
        ("n1 n2 n3 n4", "n1:b1 n2:b2 n3:b1 n4:b2", "n1 n3 n2 n4"),
        # A node of which nothing is known keeps its place after what came before it.
        ("n1 n2 n3 n4", "n1:s.a n3:s.a n4:s.b", "n1 n3 n4 n2"),
        # What follows the network already stays.
        ("n1 n2 n3 n4", "n1:s.a n2:s.a n3:s.b n4:s.b", "n1 n2 n3 n4"),
    ],
)
def test_nodes_of_one_switch_stand_together(nodes: str, addresses: str, order: str) -> None:
    found = ordered(nodes.split(), tree(addresses))
    assert list(found.nodes) == order.split()
    assert found.changed == (nodes != order)


@pytest.mark.parametrize(
    ("nodes", "addresses", "by"),
    [
        ("n1 n2", {}, "Slurm's order: it knows nothing of the network"),
        ("n1 n2", {"n1": "n1", "n2": "n2"}, "Slurm's order: it knows nothing of the network"),
        ("n1 n2", tree("n1:s.a n2:s.a"), "Slurm's order: all nodes are on one switch, a (n[1-2])"),
        (
            "n1 n2 n3",
            tree("n1:s.a n2:s.a n3:s.b"),
            "Slurm's order, which follows the network: a (n[1-2]), b (n3)",
        ),
        ("n1 n2 n3", tree("n1:s.a n2:s.b n3:s.a"), "by switch: a (n[1,3]), b (n2)"),
        ("n1 n2 n3", tree("n1:s.a n3:s.a"), "by switch: a (n[1,3]), no switch known (n2)"),
    ],
)
def test_an_order_says_what_it_follows(nodes: str, addresses: dict[str, str], by: str) -> None:
    assert ordered(nodes.split(), addresses).by == by


def test_of_many_switches_the_first_ones_are_named() -> None:
    nodes = [f"n{number}" for number in range(40)]
    by = ordered(nodes, {node: f"s.leaf{number % 20}.{node}" for number, node in enumerate(nodes)}).by
    assert by.startswith("by switch: leaf0 (n[0,20]), leaf1 (n[1,21]), ")
    assert by.endswith(", leaf7 (n[7,27]) and 12 more")


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=20))
def test_an_order_is_a_permutation_that_keeps_the_first_node_and_neighbours(
    places: list[tuple[int, int]],
) -> None:
    nodes = [f"n{number}" for number in range(len(places))]
    addresses = {
        node: f"top.core{core}.leaf{core}{leaf}.{node}"
        for node, (core, leaf) in zip(nodes, places, strict=True)
    }
    found = ordered(nodes, addresses).nodes
    assert sorted(found) == sorted(nodes)
    assert found[0] == nodes[0]
    for depth in (2, 3):
        runs: list[tuple[str, ...]] = []
        for node in found:
            path = switches(node, addresses[node])[:depth]
            if not runs or runs[-1] != path:
                runs.append(path)
        assert len(runs) == len(set(runs))
    again = ordered(found, addresses)
    assert again.nodes == found
    assert not again.changed


@pytest.mark.parametrize(
    ("address", "above"),
    [
        ("spine.leaf1.n1", ("spine", "leaf1")),
        ("n1", ()),
        ("", ()),
        ("b1.n1", ("b1",)),
        ("s.leaf.other-name", ("s", "leaf")),
    ],
)
def test_an_address_names_the_switches_above_a_node(address: str, above: tuple[str, ...]) -> None:
    assert switches("n1", address) == above


def test_a_node_with_dots_in_its_name_is_no_switch() -> None:
    assert switches("n1.site.org", "spine.leaf.n1.site.org") == ("spine", "leaf")


def test_a_hostfile_has_a_line_for_each_rank() -> None:
    assert hostfile(["n3", "n1"], 2) == "n3\nn3\nn1\nn1\n"
    assert node_of_rank(["n3", "n1", "n2"], {"n1": 3, "n2": 1, "n3": 1}) == ["n3", "n1", "n1", "n1", "n2"]


def test_sruns_options_go_by_the_hostfile() -> None:
    given = (
        "--nodes=2",
        "--ntasks=4",
        "--ntasks-per-node=2",
        "--cpus-per-task=1",
        "--distribution=block",
        "--no-kill",
    )
    assert srun_options(given, 4) == (
        "--ntasks=4",
        "--distribution=arbitrary",
        "--cpus-per-task=1",
        "--no-kill",
    )


def job(**sections: Any) -> JobSpec:
    return JobSpec(name="x", command="true", **{"parallel": Parallel(tensor=2), **sections})


@pytest.mark.parametrize(
    ("spec", "environ", "why"),
    [
        (job(), {}, None),
        (job(resources={"distribution": "block"}), {}, None),
        (job(launch=Launch(srun=("--quiet", "--mem=0"))), {}, None),
        (
            job(parallel=None),
            {},
            "the job has no [parallel], so that no rank has neighbours to be near to",
        ),
        (job(resources={"distribution": "cyclic"}), {}, "the job asks for distribution = cyclic"),
        (job(resources={"distribution": "plane=2"}), {}, "the job asks for distribution = plane=2"),
        (job(resources={"distribution": "cyclic:block"}), {}, "the job asks for distribution = cyclic:block"),
        (
            job(resources={"distribution": "block:cyclic"}),
            {},
            "beside an order of nodes srun takes no choice of sockets, as in distribution = block:cyclic",
        ),
        (job(), {"SLURM_HOSTFILE": "mine"}, "SLURM_HOSTFILE is the job's own"),
        (
            job(launch=Launch(srun=("-m", "cyclic"))),
            {},
            "[launch] srun has -m, which places tasks itself",
        ),
        (
            job(launch=Launch(srun=("--nodelist=n1",))),
            {},
            "[launch] srun has --nodelist=n1, which places tasks itself",
        ),
        (
            job(resources={"ntasks_per_gpu": 1}),
            {},
            "tasks are counted by GPU, which srun takes in its own order alone",
        ),
    ],
)
def test_where_the_order_has_to_stay_slurms_a_sentence_says_why(
    spec: JobSpec, environ: dict[str, str], why: str | None
) -> None:
    assert why_not(spec, environ) == why
