"""Runs whose agents are gone, on a real Slurm: submitted again once, whoever does it."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cluster.site import Site, is_sbatch_at_work, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slurmkit.testbed.testbed import Testbed

pytestmark = pytest.mark.cluster

KILLS = 5


@pytest.fixture
def site(slurm_testbed: Testbed, tmp_path: Path) -> Iterator[Site]:
    with closing(Site(slurm_testbed, tmp_path)) as site:
        yield site


def recovering(site: Site, command: str, **resources: str) -> str:
    """Submit a job that may be submitted again; the run id."""
    file = site.job(command, **resources)
    file.write_text(file.read_text() + "\n[retry]\n")
    return site.submit(str(file))


def run_events(site: Site, run: str) -> list[dict[str, object]]:
    """The events of a run."""
    return list(map(json.loads, (site.work / "runs" / run / "events.jsonl").read_text().splitlines()))


def kinds(site: Site, run: str) -> list[object]:
    return [event["event"] for event in run_events(site, run)]


def jobs_of(site: Site, run: str) -> list[str]:
    """The ids of all jobs of a run that slurmctld knows."""
    listing = site.testbed.command(["squeue", "--noheader", "--states=all", "--format=%A %k"]).stdout
    return [line.split()[0] for line in listing.splitlines() if f"slurmkit:{run}" in line]


def kill_agent(site: Site, run: str) -> None:
    """Let the run's agent die without a word, and wait until Slurm says that the job is over."""
    until(lambda: "step-started" in kinds(site, run), "the step starts")
    place = str(site.work / "runs" / run).encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            argv = (process / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if argv[-1] == place and b"slurmkit.recovery.agent" in argv:
            os.kill(int(process.name), signal.SIGKILL)
    until(lambda: site.state(run) == "interrupted", "the job ends")


def test_a_run_that_was_cancelled_is_left_alone(site: Site) -> None:
    run = recovering(site, "sleep 600")
    until(lambda: "step-started" in kinds(site, run), "the step starts")
    site.run("cancel", run)
    assert site.json("wait", run, code=1)[0]["state"] == "cancelled"
    assert site.json("supervise", "--once", run) == []
    assert len(jobs_of(site, run)) == 1


def test_where_slurm_does_not_answer_nothing_is_done_and_it_is_said(site: Site) -> None:
    run = recovering(site, "sleep 600")
    kill_agent(site, run)
    for program in ("squeue", "sacct"):
        site.wrap(
            program,
            'echo "slurm_load_jobs error: Unable to contact slurm controller (connect failure)" >&2; exit 1',
        )
    (told,) = site.json("supervise", "--once", run, code=3)
    assert told["action"] == "unseen"
    site.run("resume", run, code=3)
    for program in ("squeue", "sacct"):
        site.unwrap(program)
    assert len(jobs_of(site, run)) == 1
    # By hand, from here on: the user's will, once.
    site.run("resume", run)
    site.run("resume", run, code=2)
    assert len(jobs_of(site, run)) == 2


def test_a_resubmit_killed_at_random_moments_never_makes_two_jobs(site: Site) -> None:
    run = recovering(site, "sleep 600")
    kill_agent(site, run)
    begin = time.monotonic()
    site.run("supervise", "--once", run)
    taken = time.monotonic() - begin
    expected = 2
    for number in range(KILLS):
        site.run("cancel", run)
        until(lambda: site.json("wait", run, code=1)[0]["state"] == "cancelled", "the job ends")
        process = site.start("resume", run)
        # Not a condition waited for: the moment is what is tested.
        time.sleep(random.uniform(taken * 0.2, taken * 1.2) if number % 2 else taken * 0.8)
        process.kill()
        process.communicate()
        until(lambda: not is_sbatch_at_work(site.work), "the sbatch ends that was left behind")
        (row,) = site.json("status", run)
        jobs = jobs_of(site, run)
        assert len(jobs) in {expected, expected + 1}
        if len(jobs) > expected:
            assert row["job_id"] == max(jobs, key=int)
            assert row["state"] in {"pending", "running"}
        else:
            assert row["state"] in {"cancelled", "submitting"}
            if row["state"] == "submitting":
                site.run("resume", run, code=3)
                return
            site.run("resume", run)
        expected += 1


def test_a_run_whose_agent_was_killed_goes_on_once_though_two_supervise(site: Site) -> None:
    run = recovering(site, "[[ -e again ]] || { touch again; sleep 600; }")
    until((site.work / "again").exists, "the program runs")
    kill_agent(site, run)
    both = [site.start("supervise", "--once", run, "--json") for _ in range(2)]
    done = [json.loads(process.communicate(timeout=60)[0]) for process in both]
    assert [one["action"] for told in done for one in told if one["action"] != "busy"] == ["submitted"]
    assert site.json("wait", run)[0]["state"] == "completed"
    assert len(jobs_of(site, run)) == 2
    assert site.json("supervise", "--once", run) == []
    assert site.json("status", run)[0]["attempts"] == 2
