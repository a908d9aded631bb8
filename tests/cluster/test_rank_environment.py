"""Ranks of steps that srun starts by itself: every shape in which Slurm's numbers mislead."""

from __future__ import annotations

import json
import shlex
import sys
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from slurmkit.launch import archive
from slurmkit.script.step import srun_arguments
from slurmkit.spec.model import JobSpec
from tests.cluster import ranks

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from slurmkit.testbed.testbed import Testbed

pytestmark = pytest.mark.cluster

Worlds = list[list[dict[str, str]]]
TELL = """\
import json, os
with open("step-{SLURM_STEP_ID}-{SLURM_PROCID}.json".format(**os.environ), "x") as file:
    json.dump(dict(os.environ), file)
"""


@pytest.fixture(scope="module")
def tell(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A rank that writes its environment where it is started."""
    directory = tmp_path_factory.mktemp("launch")
    archive.build(directory / "launch.pyz")
    argv = [sys.executable, "-I", "-S", str(directory / "launch.pyz"), "--", *ranks.python(TELL)]
    script = directory / "tell"
    script.write_text(f"#!/bin/bash\nexec {shlex.join(argv)}\n")
    script.chmod(0o755)
    return str(script)


@pytest.fixture
def steps(slurm_testbed: Testbed, tell: str, tmp_path: Path) -> Callable[..., Worlds]:
    """Run lines of bash in an allocation, $TELL being what srun starts; each step's environments, by rank."""

    def run(allocation: str, *lines: str) -> Worlds:
        script = tmp_path / "steps.sh"
        script.write_text("\n".join(["set -e", f"cd {shlex.quote(str(tmp_path))}", *lines]) + "\n")
        argv = ["salloc", "--quiet", "--mem=100", *shlex.split(allocation), "bash", str(script)]
        done = slurm_testbed.command(["env", f"TELL={tell}", *argv])
        assert done.returncode == 0, done.stdout + done.stderr
        found: dict[str, list[dict[str, str]]] = {}
        for environ in (json.loads(path.read_text()) for path in tmp_path.glob("step-*.json")):
            found.setdefault(environ["SLURM_STEP_ID"], []).append(environ)
        return [sorted(world, key=lambda one: int(one["RANK"])) for _, world in sorted(found.items())]

    return run


def check_world(world: list[dict[str, str]], hosts: str) -> None:
    """The ranks sit on `hosts`, their numbers are those of one world, and they meet where rank 0 is."""
    assert [one["SLURMD_NODENAME"] for one in world] == hosts.split()
    assert [one["RANK"] for one in world] == [str(rank) for rank in range(len(world))]
    counts = Counter(hosts.split())
    for one in world:
        here = [other for other in world if other["SLURMD_NODENAME"] == one["SLURMD_NODENAME"]]
        assert one["WORLD_SIZE"] == str(len(world))
        assert one["LOCAL_WORLD_SIZE"] == one["SLURM_NTASKS_PER_NODE"] == str(len(here))
        assert one["GROUP_WORLD_SIZE"] == str(len(counts))
        assert sorted(int(other["LOCAL_RANK"]) for other in here) == list(range(len(here)))
        assert {other["NODE_RANK"] for other in here} == {one["GROUP_RANK"]}
        assert one["MASTER_ADDR"] == world[0]["SLURMD_NODENAME"]
        assert one["JAX_COORDINATOR_ADDRESS"] == f"{one['MASTER_ADDR']}:{one['MASTER_PORT']}"
    assert {int(one["NODE_RANK"]) for one in world} == set(range(len(counts)))
    assert len({one["MASTER_PORT"] for one in world}) == 1


def test_uneven_cyclic_plane_and_arbitrary_steps_are_worlds_of_their_own(
    steps: Callable[..., Worlds],
) -> None:
    worlds = steps(
        "--nodelist=n[1,3-4] --nodes=3 --ntasks-per-node=4",
        "printf 'n4\\nn1\\nn4\\n' > hosts",
        "srun --ntasks=10 --distribution=plane=4 $TELL",
        "srun --ntasks=5 --distribution=cyclic $TELL",
        "srun --ntasks=3 --nodes=1 --nodelist=n4 $TELL",
        "SLURM_HOSTFILE=hosts srun --ntasks=3 --distribution=arbitrary $TELL",
        "srun --ntasks=2 --nodes=2 --nodelist=n[3-4] $TELL",
    )
    check_world(worlds[0], "n1 n1 n1 n1 n3 n3 n3 n3 n4 n4")
    check_world(worlds[1], "n1 n3 n4 n1 n3")
    check_world(worlds[2], "n4 n4 n4")
    check_world(worlds[4], "n3 n4")
    arbitrary = worlds[3]
    assert [one["SLURMD_NODENAME"] for one in arbitrary] == ["n4", "n1", "n4"]
    assert {one["MASTER_ADDR"] for one in arbitrary} == {"n4"}, "Slurm's own list begins with n1"
    assert [one["LOCAL_WORLD_SIZE"] for one in arbitrary] == ["2", "1", "2"]
    assert len({world[0]["MASTER_PORT"] for world in worlds}) == 5


def test_a_heterogeneous_job_is_one_world_over_its_components(steps: Callable[..., Worlds]) -> None:
    """Slurm sorts the hosts and their counts by name; ranks and node numbers go by component."""
    worlds = steps(
        "--nodelist=n3 --ntasks=2 : --mem=100 --nodelist=n[1-2] --nodes=2 --ntasks=3",
        "srun --het-group=1 $TELL",
        "srun --het-group=0,1 $TELL",
        "srun --het-group=0 --ntasks=1 $TELL : --het-group=1 --ntasks=2 $TELL",
    )
    check_world(worlds[0], "n1 n1 n2")
    check_world(worlds[1], "n3 n3 n1 n1 n2")
    check_world(worlds[2], "n3 n1 n2")


def test_steps_at_once_on_one_node_do_not_meet(steps: Callable[..., Worlds]) -> None:
    each = "srun --exact --ntasks=2 --mem=20 $TELL"
    worlds = steps("--nodes=1 --ntasks=4", f"{each} & {each} & wait")
    assert [len(world) for world in worlds] == [2, 2]
    assert len({world[0]["MASTER_PORT"] for world in worlds}) == 2


def test_trap_080_without_ntasks_an_allocation_is_no_rank_and_its_steps_are(
    steps: Callable[..., Worlds],
) -> None:
    worlds = steps(
        "--nodes=2",
        '[ -z "$SLURM_NTASKS" ]',
        "! $TELL 2>refused",
        "grep -q 'SLURM_PROCID, SLURM_LOCALID, SLURM_NODEID, SLURM_NTASKS missing: start .* srun' refused",
        "srun $TELL",
        "srun --nodes=1 --ntasks=1 $TELL",
    )
    assert [len(world) for world in worlds] == [2, 1]
    assert [one["LOCAL_WORLD_SIZE"] for one in worlds[0]] == ["1", "1"]


def test_trap_060_the_gpu_of_a_rank_counts_among_those_that_it_sees(steps: Callable[..., Worlds]) -> None:
    worlds = steps(
        "--nodes=1 --ntasks=2 --gpus=4",
        "srun $TELL",
        "srun --gpus-per-task=1 $TELL",
        "srun --gpus-per-task=2 $TELL",
        "srun --ntasks=1 $TELL",
    )
    found = [
        [(one["CUDA_VISIBLE_DEVICES"], one["SLURMKIT_DEVICE"], one["JAX_LOCAL_DEVICE_IDS"]) for one in world]
        for world in worlds
    ]
    assert found == [
        [("0,1,2,3", "0", "0,1"), ("0,1,2,3", "1", "2,3")],
        [("0", "0", "0")] * 2,
        [("0,1", "0", "0,1")] * 2,
        [("0,1,2,3", "0", "0,1,2,3")],
    ]
    assert {one["SLURM_JOB_GPUS"] for one in worlds[1] if "SLURM_JOB_GPUS" in one} <= {"0,1,2,3"}


def test_trap_061_cpus_per_task_are_said_to_srun_anew(steps: Callable[..., Worlds]) -> None:
    """From 22.05 to 23.02 srun inherits nothing of them, though the job's variable is there."""
    step = srun_arguments(JobSpec(name="j", command="true", resources={"ntasks": 2, "cpus_per_task": 4}))
    worlds = steps(
        "--nodes=1 --ntasks=2 --cpus-per-task=4",
        "srun --exact $TELL",
        f"srun --exact {shlex.join(step)} $TELL",
    )
    assert [world[0]["SLURM_CPUS_PER_TASK"] for world in worlds] == ["4", "4"]
    assert worlds[0][0]["SLURM_CPUS_ON_NODE"] in {"2", "8"}, "by Slurm's version"
    assert worlds[1][0]["SLURM_CPUS_ON_NODE"] == "8"
