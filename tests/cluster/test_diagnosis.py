"""Ends that Slurm tells differently, by level and by record: the real thing, and what is made of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from slurmkit.recovery.diagnosis import diagnose, from_accounting
from slurmkit.slurm.commands import Commands
from slurmkit.slurm.ids import JobId
from slurmkit.testbed.daemons import wait_for

if TYPE_CHECKING:
    from slurmkit.slurm.records import Job
    from slurmkit.testbed.testbed import Testbed
    from tests.cluster.conftest import Submit

pytestmark = pytest.mark.cluster

BOUND = 120.0
MEM = "--mem=100"
HOG = "srun --mem=60M python3 -c 'hold = bytes([1]) * 2**28'; exit 3"


@pytest.fixture(scope="module")
def jobs(submit: Submit, slurm_testbed: Testbed) -> dict[str, JobId]:
    """Jobs that end by themselves, submitted at once."""
    made = {
        "exit 137": submit("exit 137", MEM),
        "signal 9": submit("kill -KILL $$", MEM),
        "exit 3": submit("exit 3", MEM),
    }
    return made | ({"memory": submit(HOG, MEM)} if slurm_testbed.cgroup else {})


def records(slurm: Commands, job: JobId, *states: str) -> list[Job]:
    """The records of a job, once they have these states, oldest first."""
    found: list[Job] = []

    def are_there() -> bool:
        found[:] = slurm.accounting([job], duplicates=True)
        return [one.state.name for one in found] == list(states)

    assert wait_for(are_there, BOUND, 0.5), found
    return found


def attempts(slurm: Commands, job: JobId) -> tuple[Job, Job]:
    """The records of a job's first two attempts, as soon as there are two."""
    found: list[Job] = []

    def are_there() -> bool:
        found[:] = slurm.accounting([job], duplicates=True)
        return len(found) == 2

    assert wait_for(are_there, BOUND, 0.5), found
    return found[0], found[1]


def runs(slurm: Commands, job: JobId) -> None:
    assert wait_for(lambda: [one.state.name for one in slurm.jobs([job])] == ["RUNNING"], BOUND, 0.2)


@pytest.mark.parametrize(
    ("how", "kind", "sentences"),
    [
        ("exit 3", "crashed", ["exit code 3"]),
        (
            "exit 137",
            "killed",
            # Slurm 26.05 keeps it as it is.
            [
                "exit code 9, which is what Slurm makes of 137, too",
                "exit code 137, as a shell reports SIGKILL",
            ],
        ),
        ("signal 9", "killed", ["killed by SIGKILL"]),
    ],
)
def test_an_exit_code_of_137_and_signal_9_are_told_apart(
    slurm: Commands, jobs: dict[str, JobId], how: str, kind: str, sentences: list[str]
) -> None:
    (record,) = records(slurm, jobs[how], "FAILED")
    found = diagnose(from_accounting(record))
    assert found.kind == kind, record
    assert any(f"the job ended: {sentence}" in found.sentence for sentence in sentences), found.sentence
    assert diagnose(from_accounting(record, restart_lost=True)).kind == "agent-died"


def test_a_step_out_of_memory_counts_though_its_job_says_failed(
    slurm: Commands, jobs: dict[str, JobId], slurm_testbed: Testbed
) -> None:
    if not slurm_testbed.cgroup:
        pytest.skip("this testbed cannot limit memory")
    assert wait_for(
        lambda: any(
            step.state.name == "OUT_OF_MEMORY"
            for one in slurm.accounting([jobs["memory"]])
            if one.state.is_final
            for step in one.steps
        ),
        BOUND,
        0.5,
    )
    (record,) = slurm.accounting([jobs["memory"]])
    assert diagnose(from_accounting(record)).kind == "host-out-of-memory"


def test_who_cancelled_a_job_is_named(slurm: Commands, submit: Submit) -> None:
    job = submit("sleep 600", MEM)
    runs(slurm, job)
    slurm.cancel([job])
    (record,) = records(slurm, job, "CANCELLED")
    found = diagnose(from_accounting(record))
    user = from_accounting(record).cancelled_by
    assert (found.kind, found.sentence) == ("cancelled", f"the job was cancelled by {user}")
    assert user


def test_trap_101_a_node_failure_is_history_once_the_job_waits_again(
    slurm: Commands, submit: Submit, slurm_testbed: Testbed
) -> None:
    job = submit("sleep 600", MEM, "--requeue")
    runs(slurm, job)
    (node,) = slurm.jobs([job])[0].nodes
    slurm_testbed.command(["scontrol", "update", f"nodename={node}", "state=DOWN", "reason=a test"])
    try:
        first, again = attempts(slurm, job)
    finally:
        slurm.cancel([job])
        if slurm.nodes([node])[0].state.is_down:
            slurm_testbed.command(["scontrol", "update", f"nodename={node}", "state=RESUME"])
    found = diagnose(from_accounting(first, nodes_down=(node,)))
    assert (first.state.name, found.kind, found.nodes) == ("NODE_FAIL", "node-died", (node,))
    assert not again.state.is_final
    assert diagnose(from_accounting(again)).kind != "node-died"


def test_a_requeue_and_a_hold_are_told(slurm: Commands, submit: Submit) -> None:
    job, held = submit("sleep 600", MEM, "--requeue"), submit("true", MEM, "--hold")
    runs(slurm, job)
    slurm.requeue(job)
    first, _ = attempts(slurm, job)
    assert (first.state.name, diagnose(from_accounting(first)).kind) == ("REQUEUED", "requeued")
    assert diagnose(from_accounting(slurm.jobs([held])[0])).kind == "held"
    slurm.cancel([job, held])
