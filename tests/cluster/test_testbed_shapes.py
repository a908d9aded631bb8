"""A testbed has the shape that was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from slurmkit.testbed import cgroup, namespace
from slurmkit.testbed.daemons import wait_for
from slurmkit.testbed.leftovers import belonging
from slurmkit.testbed.native import down
from slurmkit.testbed.options import Options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from slurmkit.testbed.testbed import Testbed

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def shaped(make_testbed: Callable[[Options], Testbed]) -> Iterator[Testbed]:
    testbed = make_testbed(
        Options(
            nodes=3,
            gpus="a100:2,h100:1",
            cpus=2,
            memory=4000,
            prefix="gpu-",
            partitions=("short=gpu-[1-2] MaxTime=00:10:00 PriorityTier=10",),
            features=("infiniband=gpu-[2-3]", "ssd"),
            topology="tree",
            min_job_age=12,
            config=("KillWait=7", "PreemptType=preempt/partition_prio", "PreemptMode=REQUEUE"),
        )
    )
    yield testbed
    down(testbed.root)


@pytest.fixture(scope="module")
def unaccounted(make_testbed: Callable[[Options], Testbed]) -> Iterator[Testbed]:
    testbed = make_testbed(Options(nodes=1, gpus="", accounting=False))
    yield testbed
    down(testbed.root)


def output(testbed: Testbed, *argv: str) -> list[str]:
    done = testbed.command(argv)
    assert done.returncode == 0, done.stderr
    return [line.strip() for line in done.stdout.splitlines()]


def test_partitions_stand_beside_the_default(shaped: Testbed) -> None:
    assert output(shaped, "sinfo", "-h", "-o", "%P %N %l") == [
        "main* gpu-[1-3] infinite",
        "short gpu-[1-2] 10:00",
    ]


def test_nodes_have_their_resources_and_features(shaped: Testbed) -> None:
    gres = "gpu:a100:2,gpu:h100:1"
    assert output(shaped, "sinfo", "-h", "-N", "-p", "main", "-o", "%N %c %m %f %G") == [
        f"gpu-1 2 4000 ssd {gres}",
        f"gpu-2 2 4000 infiniband,ssd {gres}",
        f"gpu-3 2 4000 infiniband,ssd {gres}",
    ]


def test_the_topology_is_a_tree(shaped: Testbed) -> None:
    switches = [line.split()[0] for line in output(shaped, "scontrol", "show", "topology")]
    assert switches == ["SwitchName=leaf1", "SwitchName=leaf2", "SwitchName=spine"]


def test_lines_of_slurm_conf_replace_ours(shaped: Testbed) -> None:
    config = [line.replace(" ", "") for line in output(shaped, "scontrol", "show", "config")]
    assert "KillWait=7sec" in config
    assert "MinJobAge=12sec" in config
    assert "PreemptType=preempt/partition_prio" in config


def test_gpus_of_each_type_can_be_asked_for(shaped: Testbed) -> None:
    asked = ["srun", "-n1", "--constraint=infiniband", "--gres=gpu:a100:2,gpu:h100:1"]
    assert output(shaped, *asked, "printenv", "CUDA_VISIBLE_DEVICES") == ["0,1,2"]


def test_a_job_is_held_to_its_cores_where_the_machine_has_them(shaped: Testbed) -> None:
    if not shaped.cgroup:
        pytest.skip("this machine has no cgroups to give")
    code = "import os; print(len(os.sched_getaffinity(0)))"
    assert output(shaped, "srun", "-n1", "-c1", "python3", "-c", code) == ["1"]


def test_a_site_without_accounting_runs_jobs(unaccounted: Testbed) -> None:
    assert "slurmdbd" not in unaccounted.daemons()
    assert output(unaccounted, "srun", "echo", "here") == ["here"]
    done = unaccounted.command(["sacct"])
    assert done.returncode != 0
    assert "accounting storage is disabled" in done.stderr


def test_a_machine_without_cgroups_and_namespaces_will_do(
    make_testbed: Callable[[Options], Testbed], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroup, "is_usable", lambda: False)
    monkeypatch.setattr(namespace, "is_usable", lambda: False)
    testbed = make_testbed(Options(nodes=2, gpus="a100:2", accounting=False))
    visible = output(testbed, "srun", "-N2", "--gpus-per-node=1", "printenv", "CUDA_VISIBLE_DEVICES")
    assert visible == ["0", "0"]
    output(testbed, "sbatch", "-o", "/dev/null", "--wrap", "env -i sleep 1000 & srun sleep 1000")
    assert wait_for(lambda: "2.0" in output(testbed, "squeue", "-hs", "-o", "%i"), 30)
    down(testbed.root)
    assert belonging(testbed) == set()
