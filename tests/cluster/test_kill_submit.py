"""A submit takes effect once: killed at any moment, or with sbatch's answer lost, on a real Slurm."""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slurmkit.testbed import native
from slurmkit.testbed.options import Options
from tests.cluster.site import Site, is_sbatch_at_work, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from slurmkit.testbed.testbed import Testbed

pytestmark = pytest.mark.cluster

TAG = re.compile(r"slurmkit:(\S+)")


@pytest.fixture
def site(slurm_testbed: Testbed, tmp_path: Path) -> Iterator[Site]:
    with closing(Site(slurm_testbed, tmp_path)) as site:
        yield site


def jobs_by_run(site: Site) -> dict[str, list[str]]:
    """The ids of all jobs of this site's runs that the queue holds, by the run id in their comments."""
    listing = site.testbed.command(["squeue", "--noheader", "--states=all", "--format=%A %k"]).stdout
    own = {path.name for path in (site.work / "runs").iterdir()}
    found: dict[str, list[str]] = {}
    for line in listing.splitlines():
        job, _, comment = line.strip().partition(" ")
        tag = TAG.search(comment)
        if tag and tag[1] in own:
            found.setdefault(tag[1], []).append(job)
    return found


def assert_never_two_jobs_and_none_unknown(site: Site) -> None:
    """Every job is the only one of its run, and `status` knows it."""
    jobs = jobs_by_run(site)
    assert {run: ids for run, ids in jobs.items() if len(ids) > 1} == {}
    known = {row["id"]: row for row in site.json("status", "--all")}
    assert {run: ids for run, ids in jobs.items() if known[run]["job_id"] != ids[0]} == {}
    states = Counter(row["state"] for row in known.values())
    assert states["pending"] == len(jobs), states
    assert set(states) <= {"pending", "submitting"}, states


def kill_submits(site: Site, times: int) -> tuple[int, int]:
    """Kill that many submits at random moments; how many left a job, and how many left a run without one."""
    # Held: the jobs stay in the queue and cost nothing.
    job = str(site.job("true", hold=True))
    begin = time.monotonic()
    site.submit(job)
    taken = time.monotonic() - begin
    runs = site.work / "runs"
    for number in range(times):
        made = len(list(runs.iterdir()))
        process = site.start("submit", job)
        if number % 2:
            # Most of the time goes by before anything is done: every other kill aims at what follows.
            while len(list(runs.iterdir())) == made and process.poll() is None:
                time.sleep(0.001)
        # Not a condition waited for: the moment is what is tested.
        time.sleep(random.uniform(0, taken * (0.4 if number % 2 else 1.2)))
        process.kill()
        process.communicate()
    until(lambda: not is_sbatch_at_work(site.work), "the sbatch processes end that were left behind")
    assert_never_two_jobs_and_none_unknown(site)
    with_job = len(jobs_by_run(site))
    linked = len(site.json("runs"))
    return with_job, linked - with_job


def test_a_submit_killed_at_a_random_moment_never_makes_two_jobs_nor_an_unknown_one(site: Site) -> None:
    kill_submits(site, 15)


@pytest.mark.long
def test_two_hundred_submits_killed_at_random_moments(site: Site) -> None:
    with_job, without = kill_submits(site, 200)
    print(f"killed 200 times: {with_job} runs with their one job, {without} runs without a job")
    # Moments on both sides of sbatch were met.
    assert with_job > 20
    assert with_job + without < 200


def test_trap_148_a_job_that_is_in_is_found_when_sbatch_reports_a_timeout(site: Site) -> None:
    site.wrap(
        "sbatch",
        'echo call >>calls; "$REAL" "$@" >/dev/null\n'
        'echo "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation" >&2\n'
        "exit 1",
    )
    receipt = site.json("submit", str(site.job("true", hold=True)))
    assert jobs_by_run(site) == {receipt["id"]: [receipt["job_id"]]}
    assert (site.work / "calls").read_text() == "call\n"
    assert site.state(receipt["id"]) == "pending"


def test_a_lost_answer_is_found_by_the_path_of_its_script_where_accounting_keeps_no_comment(
    make_testbed: Callable[[Options], Testbed], tmp_path: Path
) -> None:
    testbed = make_testbed(
        Options(nodes=1, gpus="", min_job_age=2, config=("AccountingStoreFlags=job_script",))
    )
    with closing(Site(testbed, tmp_path)) as site:
        site.wrap("sbatch", '"$REAL" "$@" >/dev/null; touch called; until [[ -e gate ]]; do sleep 0.05; done')
        process = site.start("submit", str(site.job("true")), "--template", "plain")
        until((site.work / "called").exists, "the job is in")
        process.kill()
        squeue = ["squeue", "--noheader", "--states=all", "--format=%i"]
        until(lambda: not testbed.command(squeue).stdout, "slurmctld forgets the job")
        (row,) = site.json("status", "last")
        assert (row["state"], row["job_id"]) == ("completed", "1")
        (site.work / "gate").touch()
    native.down(testbed.root)


def test_a_job_that_turns_up_after_its_submit_was_killed_is_adopted(site: Site) -> None:
    site.wrap("sbatch", 'touch called; until [[ -e gate ]]; do sleep 0.05; done; exec "$REAL" "$@"')
    process = site.start("submit", str(site.job("true", hold=True)))
    until((site.work / "called").exists, "sbatch is called")
    process.kill()
    process.communicate()
    assert site.state("last") == "submitting"
    (site.work / "gate").touch()
    until(lambda: jobs_by_run(site), "the job is in the queue")
    (row,) = site.json("status", "last")
    assert (row["state"], [row["job_id"]]) == ("pending", jobs_by_run(site)[row["id"]])
    events = (site.work / "runs" / row["id"] / "events.jsonl").read_text()
    assert '"adopted"' in events


def test_a_job_that_has_started_is_known_even_where_its_receipt_was_lost(site: Site) -> None:
    site.wrap("sbatch", '"$REAL" "$@" >/dev/null; touch called; until [[ -e gate ]]; do sleep 0.05; done')
    process = site.start("submit", str(site.job("true")))
    until((site.work / "called").exists, "the job is in")
    process.kill()
    process.communicate()
    assert site.json("wait", "last")[0]["state"] == "completed"
    (site.work / "gate").touch()
