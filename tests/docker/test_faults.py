"""What one machine cannot play: a host that vanishes, and a network that parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from slurmkit.testbed.starting import node_states
from tests.docker.faults import cut_off, vanished
from tests.docker.user import User, training, until

if TYPE_CHECKING:
    from slurmkit.testbed.compose import ComposeTestbed

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

SLURMD_TIMEOUT = 45
NOTICED = 5 * SLURMD_TIMEOUT
"""What is left of a step waits for the node that has vanished before it ends, and the job with it."""


def job_of(user: User, run: str) -> str:
    job: str = user.events(run, "attempt-started")[-1]["job_id"]
    return job


def is_down(cluster: ComposeTestbed, node: str) -> bool:
    """Whether Slurm says so; False where it says nothing in time."""
    return node_states(cluster).get(node, "").startswith("down")


def is_up(cluster: ComposeTestbed, node: str) -> bool:
    state = node_states(cluster).get(node, "*")
    return not state.startswith("down") and not state.endswith("*")


def is_training(user: User, run: str) -> list[str]:
    """The nodes of a run that has saved."""
    until(lambda: user.events(run, "checkpoint-complete"), "a checkpoint is complete")
    return user.nodes(job_of(user, run))


@pytest.mark.parametrize("position", [0, 1], ids=["the batch host", "another node"])
def test_a_run_goes_on_elsewhere_when_a_node_vanishes_without_a_word(
    cluster: ComposeTestbed, position: int
) -> None:
    alice = User(cluster, "alice")
    run = alice.submit(training())
    nodes = is_training(alice, run)
    with vanished(cluster, nodes[position]):
        until(lambda: is_down(cluster, nodes[position]), "Slurm gives the node up", NOTICED)
        until(lambda: len(alice.events(run, "attempt-started")) > 1, "the run starts again", NOTICED)
        assert nodes[position] not in alice.nodes(job_of(alice, run))
        alice.sees_completed(run, 180)
    (first, *_, last) = alice.events(run, "checkpoint-chosen")
    assert "at_step" not in first
    assert last["at_step"] >= 10
    job = job_of(alice, run)
    states = alice.run("sacct", "-XnP", "--duplicates", "--jobs", job, "--format=State").split()
    assert (states[0], states[-1]) == ("NODE_FAIL", "COMPLETED")


def test_runs_go_on_in_the_half_that_slurmctld_still_sees(cluster: ComposeTestbed) -> None:
    alice = User(cluster, "alice")
    here, there = cluster.nodes[:2], cluster.nodes[2:]
    stays = alice.submit(training(f'nodelist = "{",".join(here)}"', steps=1200))
    assert is_training(alice, stays) == list(here)
    words = ("--nodelist", ",".join(there), "--output=/dev/null", "--wrap=srun sleep 1000")
    lost = alice.run("sbatch", "--parsable", *words).strip()
    until(lambda: alice.nodes(lost) == list(there), "the other job runs on the other half")
    with cut_off(cluster, *there):
        until(lambda: all(is_down(cluster, node) for node in there), "given up", NOTICED)
        assert len(alice.events(stays, "attempt-started")) == 1
        assert alice.nodes(job_of(alice, stays)) == list(here)
        assert alice.nodes(lost) == []
    until(lambda: all(is_up(cluster, node) for node in there), "they come back", NOTICED)
