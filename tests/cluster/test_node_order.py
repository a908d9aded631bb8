"""What srun makes of an order of nodes that is ours: facts on which the agent's order of nodes rests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from slurmkit.recovery.node_order import HOSTFILE, hostfile, ordered, srun_options
from slurmkit.slurm.commands import Commands
from slurmkit.testbed.native import down
from slurmkit.testbed.options import Options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from slurmkit.testbed.testbed import Testbed

pytestmark = pytest.mark.cluster

NAMES = (
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURMD_NODENAME",
    "SLURM_STEP_NODELIST",
    "SLURM_STEP_NUM_NODES",
    "SLURM_STEP_TASKS_PER_NODE",
    "SLURM_DISTRIBUTION",
    "SLURM_TOPOLOGY_ADDR",
    "CUDA_VISIBLE_DEVICES",
)
TELL = f"import json, os; print(json.dumps({{name: os.environ.get(name) for name in {NAMES}}}))"
OURS = ("n1", "n4", "n2", "n3")
"""The batch host first; then not as Slurm sorts them."""


@pytest.fixture(scope="module")
def testbed(make_testbed: Callable[[Options], Testbed]) -> Iterator[Testbed]:
    made = make_testbed(Options(gpus="a100:4", topology="tree:2", accounting=False))
    yield made
    down(made.root)


@pytest.fixture
def step(testbed: Testbed, tmp_path: Path) -> Callable[..., list[dict[str, str]]]:
    """Run a step of two tasks on each of four nodes in an allocation; what its ranks see, by rank."""

    def run(
        *options: str, nodes: tuple[str, ...] = OURS, tasks: int | Mapping[str, int] = 2
    ) -> list[dict[str, str]]:
        file = tmp_path / "hosts of 'ada' $HOME"
        file.write_text(hostfile(nodes, tasks))
        words = ["--nodes=4", "--ntasks-per-node=2", "--gpus-per-node=4", "--mem=100M", "-Q"]
        done = subprocess.run(
            ["salloc", *words, "env", f"{HOSTFILE}={file}", "srun", *options, sys.executable, "-c", TELL],
            env={**os.environ, **testbed.environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        told: list[dict[str, str]] = [json.loads(line) for line in done.stdout.splitlines()]
        return sorted(told, key=lambda one: int(one["SLURM_PROCID"]))

    return run


def column(told: list[dict[str, str]], name: str) -> list[str]:
    return [one[name] for one in told]


def test_ranks_go_by_the_hostfile_and_slurms_list_of_nodes_does_not(
    step: Callable[..., list[dict[str, str]]],
) -> None:
    given = ("--nodes=4", "--ntasks=8", "--ntasks-per-node=2", "--distribution=block")
    told = step(*srun_options(given, 8))
    assert column(told, "SLURMD_NODENAME") == ["n1", "n1", "n4", "n4", "n2", "n2", "n3", "n3"]
    assert column(told, "SLURM_LOCALID") == ["0", "1"] * 4
    # Slurm's number of a node, and its list, stay those of its own order: NODEID is not rank // 2 here.
    assert column(told, "SLURM_NODEID") == ["0", "0", "3", "3", "1", "1", "2", "2"]
    assert set(column(told, "SLURM_STEP_NODELIST")) == {"n[1-4]"}
    assert set(column(told, "SLURM_STEP_TASKS_PER_NODE")) == {"2(x4)"}
    assert set(column(told, "SLURM_STEP_NUM_NODES")) == {"4"}
    assert set(column(told, "CUDA_VISIBLE_DEVICES")) == {"0,1,2,3"}
    assert column(told, "SLURM_TOPOLOGY_ADDR")[2] == "spine.leaf2.n4"


def test_uneven_tasks_are_listed_in_slurms_order(step: Callable[..., list[dict[str, str]]]) -> None:
    tasks = {"n1": 1, "n4": 3, "n2": 2}
    told = step(*srun_options(("--nodes=3",), 6), nodes=("n1", "n4", "n2"), tasks=tasks)
    assert column(told, "SLURMD_NODENAME") == ["n1", "n4", "n4", "n4", "n2", "n2"]
    assert column(told, "SLURM_LOCALID") == ["0", "0", "1", "2", "0", "1"]
    assert set(column(told, "SLURM_STEP_NODELIST")) == {"n[1-2,4]"}
    assert set(column(told, "SLURM_STEP_TASKS_PER_NODE")) == {"1,2,3"}


def test_gpus_by_task_are_what_they_are_in_slurms_own_order(
    step: Callable[..., list[dict[str, str]]],
) -> None:
    ours = step(*srun_options(("--nodes=4", "--gpus-per-task=1"), 8))
    assert set(column(ours, "CUDA_VISIBLE_DEVICES")) == {"0"}


def test_a_hostfile_wins_over_every_option_so_that_no_other_step_may_see_it(
    step: Callable[..., list[dict[str, str]]],
) -> None:
    told = step("--overlap", "--nodes=4", "--ntasks=4", "--ntasks-per-node=1", "--distribution=block")
    assert column(told, "SLURMD_NODENAME") == ["n1", "n1", "n4", "n4"]
    assert set(column(told, "SLURM_DISTRIBUTION")) == {"arbitrary"}


def test_the_network_is_read_in_one_call_and_orders_nodes(testbed: Testbed) -> None:
    addresses = Commands(environment={**os.environ, **testbed.environment}).topology()
    assert addresses["n3"] == "spine.leaf2.n3"
    order = ordered(("n1", "n3", "n2", "n4"), addresses)
    assert order.nodes == ("n1", "n2", "n3", "n4")
    assert order.by == "by switch: leaf1 (n[1-2]), leaf2 (n[3-4])"


def test_where_there_is_no_network_to_follow_the_order_is_slurms(slurm_testbed: Testbed) -> None:
    addresses = Commands(environment={**os.environ, **slurm_testbed.environment}).topology()
    assert not ordered(("n1", "n2"), addresses).changed
