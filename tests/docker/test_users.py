"""What alice runs is alice's: bob can neither read nor signal it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.docker.user import User, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slurmkit.testbed.compose import ComposeTestbed

pytestmark = pytest.mark.docker

JOB = """\
name = "private"
command = ["sleep", "1000"]
[resources]
nodes = 1
mem = "100M"
time = "10m"
[environment.variables]
HELD = "what-alice-holds"
"""


@pytest.fixture
def bob(cluster: ComposeTestbed) -> User:
    return User(cluster, "bob")


@pytest.fixture
def run(cluster: ComposeTestbed) -> Iterator[tuple[str, str, str]]:
    """A run of alice's that is at work: its id, its job and its node."""
    alice = User(cluster, "alice")
    run = alice.submit(JOB)
    until(lambda: alice.events(run, "attempt-started"), "the run starts")
    job = str(alice.events(run, "attempt-started")[-1]["job_id"])
    (node,) = alice.nodes(job)
    yield run, job, node
    alice.run("slurmkit", "cancel", run)


def on(cluster: ComposeTestbed, node: str, user: str, line: str) -> tuple[int, str]:
    done = cluster.compose("exec", "-T", "--user", user, node, "sh", "-c", line)
    return done.returncode, done.stdout + done.stderr


def test_bob_cannot_read_the_run(bob: User, run: tuple[str, str, str]) -> None:
    for line in ("ls", "cat", "touch"):
        code, said = bob.call(line, f"/shared/home/alice/runs/{run[0]}/events.jsonl")
        assert code != 0
        assert "Permission denied" in said


def test_bob_cannot_cancel_signal_or_join_the_job(bob: User, run: tuple[str, str, str]) -> None:
    _, job, node = run
    for argv in (
        ["scancel", job],
        ["scancel", "--signal=USR1", job],
        ["scontrol", "requeue", job],
        ["srun", f"--jobid={job}", "--overlap", "true"],
    ):
        _, said = bob.call(*argv)
        assert "denied" in said or "Invalid job" in said, (argv, said)
    assert User(bob.cluster, "alice").nodes(job) == [node]


def test_bob_cannot_signal_or_look_into_the_processes(bob: User, run: tuple[str, str, str]) -> None:
    node = run[2]
    find = 'for p in $(pgrep --uid alice); do echo "$p"; done'
    _, found = on(bob.cluster, node, "root", find)
    assert len(found.split()) > 1
    for pid in found.split():
        code, said = on(bob.cluster, node, "bob", f"kill -TERM {pid}")
        assert code != 0
        assert "not permitted" in said
        code, said = on(bob.cluster, node, "bob", f"cat /proc/{pid}/environ")
        assert code != 0
        assert "Permission denied" in said
    assert on(bob.cluster, node, "root", find)[1] == found
