"""What srun makes of an order of nodes that is ours: facts on which the agent's order of nodes rests."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from slurmkit.recovery.node_order import HOSTFILE, hostfile, ordered, srun_options
from slurmkit.slurm.commands import Commands
from slurmkit.spec.mesh import node_of_rank
from slurmkit.spec.model import JobSpec
from slurmkit.testbed.native import down
from slurmkit.testbed.options import Options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from slurmkit.spec.model import OptionValue
    from slurmkit.testbed.testbed import Testbed

    Step = Callable[..., list[dict[str, str]]]

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


@pytest.fixture(scope="module")
def allocation(testbed: Testbed) -> dict[str, str]:
    """The environment of srun in an allocation of four nodes; it ends with the testbed."""
    words = ["--no-shell", "--nodes=4", "--ntasks-per-node=2", "--gpus-per-node=4", "--mem=100M"]
    told = testbed.command(["salloc", *words]).stderr
    (number,) = re.findall(r"Granted job allocation (\d+)", told)
    return {**os.environ, **testbed.environment, "SLURM_JOB_ID": number}


@pytest.fixture
def step(allocation: dict[str, str], tmp_path: Path) -> Step:
    """Run a step by a hostfile, where there are nodes for one; what its ranks see, by rank."""

    def run(
        *options: str, nodes: tuple[str, ...] = OURS, tasks: int | Mapping[str, int] = 2
    ) -> list[dict[str, str]]:
        file = tmp_path / "hosts of 'ada' $HOME"
        file.write_text(hostfile(nodes, tasks))
        done = subprocess.run(
            ["srun", *options, sys.executable, "-I", "-S", "-c", TELL],
            env={**allocation, **({HOSTFILE: str(file)} if nodes else {})},
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
    step: Step,
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


def test_uneven_tasks_are_listed_in_slurms_order(step: Step) -> None:
    tasks = {"n1": 1, "n4": 3, "n2": 2}
    told = step(*srun_options(("--nodes=3",), 6), nodes=("n1", "n4", "n2"), tasks=tasks)
    assert column(told, "SLURMD_NODENAME") == ["n1", "n4", "n4", "n4", "n2", "n2"]
    assert column(told, "SLURM_LOCALID") == ["0", "0", "1", "2", "0", "1"]
    assert set(column(told, "SLURM_STEP_NODELIST")) == {"n[1-2,4]"}
    assert set(column(told, "SLURM_STEP_TASKS_PER_NODE")) == {"1,2,3"}


def test_one_task_on_each_of_fewer_nodes_than_the_job_has(step: Step) -> None:
    told = step(*srun_options(("--nodes=3",), 3), nodes=("n4", "n1", "n2"), tasks=1)
    assert column(told, "SLURMD_NODENAME") == ["n4", "n1", "n2"]
    assert set(column(told, "SLURM_STEP_NUM_NODES")) == {"3"}


def test_gpus_by_task_are_what_they_are_in_slurms_own_order(
    step: Step,
) -> None:
    ours = step(*srun_options(("--nodes=4", "--gpus-per-task=1"), 8))
    assert set(column(ours, "CUDA_VISIBLE_DEVICES")) == {"0"}


def test_a_hostfile_wins_over_every_option_so_that_no_other_step_may_see_it(
    step: Step,
) -> None:
    # --nodes is heard, too, from 24.11: srun refuses it beside a hostfile.
    told = step("--overlap", "--ntasks=4", "--ntasks-per-node=1", "--distribution=block")
    assert column(told, "SLURMD_NODENAME") == ["n1", "n1", "n4", "n4"]
    assert set(column(told, "SLURM_DISTRIBUTION")) == {"arbitrary"}


@pytest.mark.parametrize("distribution", ["block", "cyclic", "plane=2"])
def test_without_a_hostfile_ranks_lie_as_the_check_of_the_job_file_foresees(
    step: Step, distribution: str
) -> None:
    resources: dict[str, OptionValue] = {"nodes": 4, "ntasks_per_node": 4, "distribution": distribution}
    foreseen = node_of_rank(JobSpec(name="x", command="true", resources=resources), 16)
    options = ("--nodes=4", "--ntasks-per-node=4", f"--distribution={distribution}", "--overcommit")
    told = step(*options, nodes=())
    assert foreseen is not None
    assert column(told, "SLURM_NODEID") == list(map(str, foreseen))


def test_the_network_is_read_in_one_call_and_orders_nodes(testbed: Testbed) -> None:
    addresses = Commands(environment={**os.environ, **testbed.environment}).topology()
    assert addresses["n3"] == "spine.leaf2.n3"
    order = ordered(("n1", "n3", "n2", "n4"), addresses)
    assert order.nodes == ("n1", "n2", "n3", "n4")
    assert order.by == "by switch: leaf1 (n[1-2]), leaf2 (n[3-4])"


def test_where_there_is_no_network_to_follow_the_order_is_slurms(slurm_testbed: Testbed) -> None:
    addresses = Commands(environment={**os.environ, **slurm_testbed.environment}).topology()
    assert not ordered(("n1", "n2"), addresses).changed
