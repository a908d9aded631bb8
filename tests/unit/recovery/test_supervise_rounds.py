from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from slurmkit.errors import Unreachable
from slurmkit.recovery.supervise import Round, supervise
from slurmkit.run import events, record
from slurmkit.run.paths import RunPaths
from slurmkit.run.resubmit import locked
from slurmkit.slurm.ids import JobId
from slurmkit.slurm.request import Submission, Submitted
from tests.unit.run.conftest import NOW, FakeClock, FakeSlurm, make_job

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

JOB = """\
name = "x"
command = ["train"]
[resources]
nodes = 1
[retry]
requeues = 3
[checkpoint]
path = "ckpt"
"""


class Cluster(FakeSlurm):
    """Also tells what was changed."""

    def __init__(self) -> None:
        super().__init__()
        self.changed: list[str] = []
        self.submitted: list[Submission] = []
        self.on_submit = self.take

    def take(self, submission: Submission) -> Submitted:
        self.submitted.append(submission)
        return Submitted(JobId(12 + len(self.submitted)))

    def release(self, job: JobId) -> None:
        self.changed.append(f"release {job}")

    def exclude(self, job: JobId, nodes: Sequence[str]) -> None:
        self.changed.append(f"exclude {job} {','.join(nodes)}")


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    made = RunPaths(tmp_path / "x-20261201-aaaaaa")
    made.root.mkdir()
    made.job_toml.write_text(JOB)
    known: dict[str, Any] = {"user": "ada", "host": "h", "directory": str(tmp_path), "recovers": True}
    record.save(made, record.RunRecord(id=made.run_id, name="x", created=NOW, **known))
    events.append(made, "submitting", at=NOW)
    events.append(made, "submitted", at=NOW, job_id="12")
    events.append(made, "attempt-started", at=NOW, attempt="12-0", job_id="12", nodes=["n1"])
    return made


def once(paths: RunPaths, cluster: Cluster, clock: FakeClock) -> Round:
    return supervise([paths], lambda _: cluster, clock, lambda: 0.5)


def kinds(paths: RunPaths) -> list[str]:
    return [event.kind for event in events.read(paths)]


@pytest.mark.parametrize("word", ["NODE_FAIL", "TIMEOUT", "PREEMPTED", "BOOT_FAIL"])
def test_trap_100_a_run_whose_job_is_gone_goes_on_as_another_one(
    paths: RunPaths, cluster: Cluster, clock: FakeClock, word: str
) -> None:
    cluster.past = [make_job("12", word, exit_code="0:15")]
    (outcome,) = once(paths, cluster, clock).outcomes
    assert (outcome.action, len(cluster.submitted)) == ("submitted", 1)
    diagnosed, decided = (
        event
        for event in events.read(paths)
        if event.text("by") == "supervisor" and event.kind in {"diagnosed", "decided"}
    )
    assert (diagnosed.kind, decided.text("action")) == ("diagnosed", "resubmit")


def test_trap_099_a_job_that_slurm_has_forgotten_is_submitted_anew(
    paths: RunPaths, cluster: Cluster, clock: FakeClock
) -> None:
    clock.time += timedelta(days=1)
    (outcome,) = once(paths, cluster, clock).outcomes
    assert outcome.action == "submitted"


def test_a_second_round_does_nothing_more(paths: RunPaths, cluster: Cluster, clock: FakeClock) -> None:
    cluster.past = [make_job("12", "NODE_FAIL")]
    once(paths, cluster, clock)
    assert once(paths, cluster, clock).outcomes == []
    assert len(cluster.submitted) == 1


def test_while_another_process_decides_the_run_is_left_alone(
    paths: RunPaths, cluster: Cluster, clock: FakeClock
) -> None:
    cluster.past = [make_job("12", "NODE_FAIL")]
    with locked(paths):
        (outcome,) = once(paths, cluster, clock).outcomes
    assert (outcome.action, cluster.submitted) == ("busy", [])


@pytest.mark.parametrize("away", ["live", "past"])
def test_what_cannot_be_observed_is_said_and_nothing_is_done(
    paths: RunPaths, cluster: Cluster, clock: FakeClock, away: str
) -> None:
    clock.time += timedelta(days=1)
    setattr(cluster, away, Unreachable("away"))
    if away == "live":
        cluster.past = [make_job("12", "NODE_FAIL")]
    (outcome,) = once(paths, cluster, clock).outcomes
    assert (outcome.action, outcome.exit_code, cluster.submitted) == ("unseen", 3, [])


@pytest.mark.parametrize("state", ["RUNNING", "PENDING", "COMPLETING"])
def test_a_job_that_is_alive_is_left_alone(
    paths: RunPaths, cluster: Cluster, clock: FakeClock, state: str
) -> None:
    cluster.live = [make_job("12", state)]
    assert once(paths, cluster, clock).outcomes == []


def test_a_cancelled_run_is_left_alone(paths: RunPaths, cluster: Cluster, clock: FakeClock) -> None:
    events.append(paths, "cancel-requested", at=NOW)
    cluster.past = [make_job("12", "CANCELLED")]
    assert once(paths, cluster, clock).outcomes == []
    assert cluster.submitted == []


def test_what_the_agent_decided_and_could_not_do_is_done(
    paths: RunPaths, cluster: Cluster, clock: FakeClock
) -> None:
    decided = {"attempt": "12-0", "action": "requeue", "without": ["n7"]}
    events.append(paths, "decided", at=NOW, by="agent", **decided)
    events.append(paths, "attempt-ended", at=NOW, attempt="12-0", exit_code=1, next="requeue")
    cluster.past = [make_job("12", "FAILED", exit_code="1:0")]
    (outcome,) = once(paths, cluster, clock).outcomes
    assert outcome.action == "submitted"
    assert "--exclude=n7" in cluster.submitted[0].script.read_text()
    assert kinds(paths).count("decided") == 1


def test_trap_104_the_number_of_submits_has_an_end(
    paths: RunPaths, cluster: Cluster, clock: FakeClock
) -> None:
    for number in range(12, 30):
        clock.time += timedelta(minutes=1)
        cluster.past = [make_job(str(number), "NODE_FAIL", submit_time=clock.time)]
        (outcome,) = once(paths, cluster, clock).outcomes
        if outcome.action == "stopped":
            break
        events.append(
            paths, "attempt-started", at=clock.time, attempt=f"{number + 1}-0", job_id=str(number + 1)
        )
    assert (outcome.action, len(cluster.submitted)) == ("stopped", 3)
    assert once(paths, cluster, clock).outcomes == []
    assert "run-ended" in kinds(paths)


def test_a_requeue_left_half_done_is_finished(paths: RunPaths, cluster: Cluster, clock: FakeClock) -> None:
    intent = {"attempt": "12-0", "job_id": "12", "hold": True, "exclude": ["n1", "n2"]}
    events.append(paths, "requeueing", at=NOW, **intent)
    cluster.live = [make_job("12", "PENDING", reason="JobHeldUser", restarts=1)]
    assert once(paths, cluster, clock).outcomes == []
    clock.time += timedelta(minutes=5)
    (outcome,) = once(paths, cluster, clock).outcomes
    assert outcome.action == "released"
    assert cluster.changed == ["exclude 12 n1,n2", "release 12"]
    assert kinds(paths)[-1] == "requeued"


@pytest.mark.parametrize(("restarts", "action"), [(2, "released"), (3, "left")])
def test_trap_105_a_job_that_slurm_holds_is_let_go_while_requeues_are_left(
    paths: RunPaths, cluster: Cluster, clock: FakeClock, restarts: int, action: str
) -> None:
    cluster.live = [make_job("12", "PENDING", reason="JobHoldMaxRequeue", restarts=restarts)]
    (outcome,) = once(paths, cluster, clock).outcomes
    assert outcome.action == action
    assert cluster.changed == (["release 12"] if action == "released" else [])


def test_a_lost_submit_is_found(paths: RunPaths, cluster: Cluster, clock: FakeClock) -> None:
    events.append(paths, "submitting", at=NOW, number=2)
    cluster.live = [make_job("13", "RUNNING", comment=f"slurmkit:{paths.run_id}+2")]
    (outcome,) = once(paths, cluster, clock).outcomes
    assert (outcome.action, cluster.submitted) == ("adopted", [])


def headless(paths: RunPaths, cluster: Cluster) -> None:
    """Slurm has taken the node of the agent out of the job, which runs on."""
    events.append(
        paths, "attempt-started", at=NOW, attempt="12-0", job_id="12", nodes=["n1", "n2"], host="n1"
    )
    cluster.live = [make_job("12", "RUNNING", nodes=("n2",))]


def test_a_job_that_has_lost_its_agent_with_its_node_is_ended(
    paths: RunPaths, cluster: Cluster, clock: FakeClock
) -> None:
    headless(paths, cluster)
    assert [one.action for one in once(paths, cluster, clock).outcomes] == ["cancelled"]
    assert cluster.cancelled == [JobId(12)]
    told = {event.kind: event for event in events.read(paths)}
    assert told["diagnosed"].text("kind") == "node-died"
    assert told["decided"].fields["without"] == ["n1"]


def test_once_it_is_over_the_run_goes_on_without_that_node(
    paths: RunPaths, cluster: Cluster, clock: FakeClock
) -> None:
    headless(paths, cluster)
    once(paths, cluster, clock)
    cluster.live = [make_job("12", "CANCELLED", nodes=("n2",))]
    assert [one.action for one in once(paths, cluster, clock).outcomes] == ["submitted"]
    (submission,) = cluster.submitted
    assert "#SBATCH --exclude=n1" in submission.script.read_text()


def test_a_job_whose_agent_is_on_one_of_its_nodes_is_left_alone(
    paths: RunPaths, cluster: Cluster, clock: FakeClock
) -> None:
    headless(paths, cluster)
    cluster.live = [make_job("12", "RUNNING", nodes=("n1", "n2"))]
    assert once(paths, cluster, clock).outcomes == []
    assert cluster.cancelled == []
