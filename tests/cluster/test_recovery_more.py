"""Recovery on a real Slurm, continued: preemption that cancels, arrays, excluded nodes, more memory."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from slurmkit.testbed.options import Options
from tests.cluster.site import Site, until
from tests.cluster.storm_view import View
from tests.cluster.test_recovery import end, train

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from slurmkit.testbed.testbed import Testbed

pytestmark = pytest.mark.cluster

OPTIONS = Options(
    nodes=3,
    gpus="",
    partitions=("low=ALL PriorityTier=1 PreemptMode=CANCEL", "urgent=ALL PriorityTier=10"),
    config=("PreemptType=preempt/partition_prio", "PreemptMode=CANCEL", "KillWait=8"),
)
URGENT = ("sbatch", "--partition=urgent", "--nodes=3", "--exclusive", "--mem=100M", "--time=5")


@pytest.fixture(scope="module")
def testbed(make_testbed: Callable[[Options], Testbed]) -> Testbed:
    return make_testbed(OPTIONS)


@pytest.fixture
def site(testbed: Testbed, tmp_path: Path) -> Iterator[Site]:
    with closing(Site(testbed, tmp_path)) as site:
        yield site


def preempt(site: Site) -> None:
    """A job of the urgent partition takes all nodes for a moment."""
    done = site.testbed.command([*URGENT, "--output=/dev/null", "--wrap=sleep 1"])
    assert done.returncode == 0, done.stderr


def actions(view: View) -> list[str]:
    return [one["action"] for one in view.events("decided")]


def submitted(site: Site, command: str, *tables: str, **resources: str) -> View:
    """A run of a line of bash that may be started again."""
    file = site.job(command, **resources)
    tail = ["[checkpoint]", 'path = "checkpoints"', "[retry]", *tables]
    file.write_text(file.read_text() + "\n".join(tail) + "\n")
    return View(site, site.submit(file.name), site.work / "checkpoints")


def test_trap_100_a_run_whose_job_a_preemption_cancels_goes_on_as_another_job(site: Site) -> None:
    view = train(site, partition="low")
    first = view.job
    preempt(site)
    assert end(view)["outcome"] == "completed"
    assert [one["kind"] for one in view.events("diagnosed")] == ["preempted"]
    assert actions(view) == ["resubmit"]
    assert view.job != first
    # The ranks of the first job, which work on when they were told to end, are gone before the second begins.
    _, again = view.events("attempt-started")
    assert max(log.stat().st_mtime for log in view.root.glob(f"logs/{first}-0/rank-*")) < again["time"]
    assert view.events("checkpoint-chosen")[-1]["at_step"] > 0


def test_a_preemption_ends_a_run_that_may_not_be_submitted_again(site: Site) -> None:
    view = train(site, "[retry]", "requeues = 0", partition="low")
    preempt(site)
    told = end(view)
    assert told["outcome"] == "failed"
    assert "no requeue is left" in told["reason"]
    assert len(view.events("submitted")) == 1


def test_a_task_of_an_array_that_fails_is_started_again_by_itself(site: Site) -> None:
    started = (
        'n=$(cat "$SLURM_ARRAY_TASK_ID" 2>/dev/null || echo 0); echo $((n + 1)) > "$SLURM_ARRAY_TASK_ID"'
    )
    command = f"{started}; [ $SLURM_ARRAY_TASK_ID = 0 ] || [ $n = 2 ] || exit $((n + 3))"
    view = submitted(site, command, "restarts = 1", "without_progress = 3", array="0-1")
    assert site.json("wait", view.run_id)[0]["state"] == "completed"
    array = view.events("submitted")[0]["job_id"]
    attempts = [one["attempt"] for one in view.events("attempt-started")]
    assert sorted(attempts) == [f"{array}_0-0", f"{array}_1-0", f"{array}_1-1"]
    decided = [(one["attempt"], one["action"]) for one in view.events("decided")]
    assert decided == [(f"{array}_1-0", "restart"), (f"{array}_1-0", "requeue")]
    assert [(site.work / task).read_text() for task in "01"] == ["1\n", "3\n"]


def test_a_job_that_lost_a_node_is_submitted_again_without_it(site: Site) -> None:
    view = train(site, no_kill=True)
    *_, lost = view.events("attempt-started")[0]["nodes"]
    first = view.job
    site.testbed.command(["scontrol", "update", f"nodename={lost}", "state=DOWN", "reason=a test"])
    try:
        until(lambda: view.events("submitted")[-1]["job_id"] != first, "the run is submitted again")
        told = site.testbed.command(["scontrol", "show", "job", view.job]).stdout
    finally:
        site.testbed.command(["scontrol", "update", f"nodename={lost}", "state=RESUME"])
    assert f"ExcNodeList={lost}\n" in told
    assert end(view)["outcome"] == "completed"
    assert [(one["kind"], one["nodes"]) for one in view.events("diagnosed")] == [("node-died", [lost])]
    assert lost not in view.events("attempt-started")[-1]["nodes"]


def test_what_ran_out_of_memory_is_submitted_again_with_more(site: Site) -> None:
    if not site.testbed.cgroup:
        pytest.skip("this testbed cannot limit memory")
    hold = "hold = [bytes([1]) * 2**20 for _ in range(150)]"
    view = submitted(site, f"exec python3 -c {json.dumps(hold)}", "memory_factor = 3.0", mem="100M")
    assert end(view)["outcome"] == "completed"
    (why,) = view.events("diagnosed")
    assert why["kind"] == "host-out-of-memory"
    (decided,) = view.events("decided")
    assert (decided["action"], decided["memory"]) == ("resubmit", 3.0)
    assert "MinMemoryNode=300M" in site.testbed.command(["scontrol", "show", "job", view.job]).stdout
