"""From submit to the end, through the command, on a real Slurm."""

from __future__ import annotations

import signal
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tests.cluster.site import Site, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from slurmkit.testbed.testbed import Testbed

pytestmark = pytest.mark.cluster


@pytest.fixture
def site(slurm_testbed: Testbed, tmp_path: Path) -> Iterator[Site]:
    with closing(Site(slurm_testbed, tmp_path)) as site:
        yield site


@pytest.mark.parametrize("template", ["managed", "plain"])
def test_a_job_is_submitted_waited_for_and_has_completed(site: Site, template: str) -> None:
    job = site.job('echo "rank $RANK of $WORLD_SIZE"', nodes=2, ntasks=None, ntasks_per_node=2)
    run = site.submit(str(job), "--template", template)
    (row,) = site.json("wait", run)
    assert (row["state"], row["exit_code"], len(row["nodes"])) == ("completed", 0, 2)
    out = site.run("logs", run, "--rank", "all")
    assert sorted(line.rpartition(": ")[2] for line in out.splitlines() if "rank" in line) == [
        f"rank {rank} of 4" for rank in range(4)
    ]
    for name in (run, run[:-3], row["job_id"], "last", f"runs/{run}"):
        assert site.json("status", name)[0]["id"] == run


@pytest.mark.parametrize("template", ["managed", "plain"])
def test_the_exit_code_of_a_job_that_failed_is_passed_on(site: Site, template: str) -> None:
    job = site.job("echo the reason >&2; exit 7")
    site.run("submit", str(job), "--template", template, "--wait", code=7)
    story = site.json("show", "last")
    assert (story["state"], story["exit_code"]) == ("failed", 7)
    assert "exit code 7" in story["reason"]
    if template == "managed":
        assert story["first_failure"]["rank"] == 0
        assert story["first_failure"]["stderr_tail"] == ["the reason"]


def test_the_story_has_the_attempt_from_both_sides(site: Site) -> None:
    run = site.submit(str(site.job("true")))
    site.run("wait", run)
    site.json("wait", run)
    until(
        lambda: [m for m in site.json("show", run)["timeline"] if "COMPLETED" in m["text"]],
        "accounting has the end",
    )
    told = [(moment["source"], moment["text"]) for moment in site.json("show", run)["timeline"]]
    sources = [source for source, _ in told]
    assert sources[0] == "slurmkit"
    assert {"slurmkit", "agent", "Slurm"} == set(sources)
    assert [text for source, text in told if source == "agent"][-1] == "the run ended: completed"


def test_a_cancelled_run_is_cancelled_and_waiting_for_it_is_exit_code_1(site: Site) -> None:
    run = site.submit(str(site.job("sleep 600")))
    until(lambda: site.state(run) == "running", "the job runs")
    waiting = site.start("wait", run)
    assert site.json("cancel", run)[0]["cancelled"] is True
    assert waiting.wait(60) == 1
    (row,) = site.json("status", run)
    assert (row["state"], row["job_state"]) == ("cancelled", "CANCELLED")
    assert site.json("cancel", run)[0]["cancelled"] is False


def test_ctrl_c_ends_the_waiting_and_not_the_job(site: Site) -> None:
    run = site.submit(str(site.job("sleep 600")))
    until(lambda: site.state(run) == "running", "the job runs")
    waiting = site.start("wait", run)
    assert waiting.stderr is not None
    assert waiting.stderr.readline() == f"{run}: running\n"
    waiting.send_signal(signal.SIGINT)
    _, said = waiting.communicate(timeout=30)
    assert waiting.returncode == 130
    assert f"slurmkit wait {run}" in said
    assert "Traceback" not in said
    assert site.state(run) == "running"
    site.run("cancel", run)


def test_a_log_is_followed_while_it_grows_until_the_end(site: Site) -> None:
    gate = site.work / "gate"
    job = site.job("echo first; until [[ -e gate ]]; do sleep 0.1; done; echo last")
    run = site.submit(str(job))
    following = site.start("logs", "-f", run)
    assert following.stdout is not None
    lines = iter(following.stdout.readline, "")
    assert next(line for line in lines if line == "first\n")
    assert following.poll() is None
    gate.touch()
    assert next(line for line in lines if line == "last\n")
    assert following.wait(60) == 0


def test_an_array_is_one_run_that_ends_with_its_last_task(site: Site) -> None:
    job = site.job("exit $((SLURM_ARRAY_TASK_ID == 3 ? 5 : 0))", array="0-3%2")
    run = site.submit(str(job))
    (row,) = site.json("wait", run, code=1)
    assert (row["state"], row["exit_code"]) == ("failed", 5)
    assert row["tasks"] == {"COMPLETED": 3, "FAILED": 1}


def test_trap_146_a_run_that_waits_for_one_that_failed_is_blocked(site: Site) -> None:
    first = site.submit(str(site.job("until [[ -e gate ]]; do sleep 0.1; done; exit 1", name="first")))
    second = site.submit(str(site.job("true", name="second", dependency=f"afterok:{first}")))
    assert site.state(second) == "pending"
    (site.work / "gate").touch()
    (row,) = site.json("wait", second, code=1)
    assert (row["state"], row["reason"]) == ("blocked", "DependencyNeverSatisfied")
    assert site.json("cancel", second)[0]["cancelled"] is True
    assert site.json("wait", second, code=1)[0]["state"] == "cancelled"


def test_a_refused_submit_says_why_and_is_no_job(site: Site) -> None:
    process = site.start("submit", str(site.job("true", partition="nowhere")))
    _, said = process.communicate(timeout=60)
    assert process.returncode == 3
    assert "partition" in said
    assert site.state("last") == "not-submitted"


def test_what_the_shell_has_set_does_not_leak_in(site: Site) -> None:
    site.environment |= {"SBATCH_PARTITION": "nowhere", "SLURM_NTASKS": "7", "SBATCH_TIMELIMIT": "nonsense"}
    site.run("submit", str(site.job("[[ $SLURM_NTASKS == 1 && -z ${SBATCH_PARTITION:-} ]]")), "--wait")
