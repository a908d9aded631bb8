"""One rank fails: the step ends at once, and the record tells which one, where, how and why."""

from __future__ import annotations

import functools
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from slurmkit.run import events
from slurmkit.run.paths import RunPaths
from tests.cluster import ranks
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


def only(rank: int, statement: str) -> list[str]:
    """A program that does `statement` in one rank, once all others are at work: they sleep as if waiting."""
    return ranks.python(
        "import os, pathlib, sys, time\n"
        f"if os.environ['RANK'] == '{rank}':\n"
        "    while len(list(pathlib.Path().glob('at-work-*'))) < int(os.environ['WORLD_SIZE']) - 1:\n"
        "        time.sleep(0.05)\n"
        f"    {statement}\n"
        "pathlib.Path('at-work-' + os.environ['RANK']).touch()\n"
        "print('waits', flush=True)\n"
        "time.sleep(600)\n"
    )


def test_trap_090_a_crashed_rank_ends_the_step_at_once_and_is_named(site: Site) -> None:
    crash = "raise RuntimeError('the reason')"
    started = time.monotonic()
    run = ranks.run(site, ranks.write_job(site, only(5, crash), nodes=2, ntasks_per_node=4), code=1)
    assert time.monotonic() - started < 60, "the others would sleep for ten minutes"
    (end,) = ranks.events(site, run, "step-ended")
    failure = end["first_failure"]
    assert (failure["rank"], failure["host"], failure["exit_code"]) == (5, "n2", 1)
    assert failure["stderr_tail"][-1] == "RuntimeError: the reason"
    said = ranks.said(site, run)
    assert "slurmkit: rank 5 on n2 failed first at " in said
    assert ": exit code 1\n  Traceback (most recent call last):\n" in said
    assert "rank-00005.out; 7 other ranks were ended because of it\n" in said
    assert "RuntimeError: the reason" in ranks.printed(site, run)[5]
    story = site.json("show", run)
    assert (story["state"], story["exit_code"]) == ("failed", 1)
    assert story["first_failure"]["rank"] == 5


def test_trap_090_the_exit_code_is_that_of_the_rank_that_failed_first(site: Site) -> None:
    """srun itself reports the SIGTERM of the others."""
    run = ranks.run(site, ranks.write_job(site, only(2, "sys.exit(7)"), nodes=1, ntasks=4), code=7)
    assert ranks.events(site, run, "step-ended")[0]["exit_code"] != 7
    assert ranks.events(site, run, "run-ended")[0]["outcome"] == "failed"


def test_a_rank_that_dies_of_a_signal_is_a_signal_in_accounting_too(site: Site) -> None:
    crash = "import ctypes; ctypes.string_at(0)"
    run = ranks.run(site, ranks.write_job(site, only(0, crash), nodes=1, ntasks=1), code=128 + 11)
    (record,) = ranks.records(site, run)
    assert record["signal"] == 11
    assert "killed by SIGSEGV (segmentation fault)\n" in ranks.said(site, run)
    job_id = site.json("status", run)[0]["job_id"]
    sacct = ["sacct", "-n", "-P", f"--jobs={job_id}", "--format=JobID,ExitCode"]
    known = {f"{job_id}|0:11", f"{job_id}.1|0:11"}  # step 0 has checked the node
    until(lambda: known <= set(site.testbed.command(sacct).stdout.split()), "sacct knows the signal")


def test_a_program_that_is_not_there_is_told_in_one_line(site: Site) -> None:
    job = ranks.write_job(site, ["no such program"], nodes=1, ntasks=2)
    run = ranks.run(site, job, code=127)
    line = "slurmkit: 'no such program' is not on the PATH of the job (modules, venv, conda?)"
    assert f"{line}\n" in ranks.printed(site, run)[0]
    assert ranks.events(site, run, "step-ended")[0]["first_failure"]["stderr_tail"] == [line]


def test_a_step_that_slurm_does_not_start_leaves_its_word_in_the_batch_log(site: Site) -> None:
    job = ranks.write_job(site, "true", nodes=1, ntasks=1, launch={"srun": ["--nodelist=n4"]}, nodelist="n1")
    run = ranks.run(site, job, code=1)
    said = ranks.said(site, run)
    assert "srun: error" in said
    assert "the step ended with exit code 1; no rank left a record" in said


def test_a_rank_that_exits_alone_with_0_lets_the_others_finish(site: Site) -> None:
    program = "import os, time; time.sleep(0.5 * int(os.environ['RANK'])); print('done')"
    run = ranks.run(site, ranks.write_job(site, ranks.python(program), nodes=1, ntasks=3))
    assert ranks.printed(site, run) == ["done\n"] * 3
    assert "completed (exit code 0)" in ranks.said(site, run)


NOTE = (
    "import os, signal, sys\n"
    "def note(number, frame):\n"
    "    os.write(1, b'%d\\n' % number)\n"
    "    if number == signal.SIGTERM: sys.exit(0)\n"
    "for number in (1, 2, 10, 12, 15): signal.signal(number, note)\n"
    "os.write(1, b'ready\\n')\n"
    "while True: signal.pause()\n"
)


def all_printed(site: Site, run: str, text: str, count: int) -> bool:
    return ranks.printed(site, run) == [text] * count


def test_a_signal_comes_once_whether_it_is_sent_to_the_steps_or_to_the_batch_script(site: Site) -> None:
    run = site.submit(ranks.write_job(site, ranks.python(NOTE), nodes=2, ntasks=4))
    until(functools.partial(all_printed, site, run, "ready\n", 4), "all are ready")
    job_id = site.json("status", run)[0]["job_id"]
    expected = "ready\n"
    for number, *options in (
        (10, "--signal=USR1"),
        (12, "--batch", "--signal=USR2"),
        (1, "--signal=HUP"),
        (2, "--batch", "--signal=INT"),
        (10, "--batch", "--signal=USR1"),
    ):
        # Whatever had come twice would stand before the next one.
        site.testbed.command(["scancel", *options, job_id])
        expected += f"{number}\n"
        until(functools.partial(all_printed, site, run, expected, 4), f"{expected!r} and nothing else")


def test_a_cancelled_run_has_its_end_in_the_log_and_its_ranks_had_time(site: Site) -> None:
    run = site.submit(ranks.write_job(site, ranks.python(NOTE), nodes=2, ntasks=4))
    until(functools.partial(all_printed, site, run, "ready\n", 4), "all are ready")
    site.run("cancel", run)
    until(lambda: ranks.events(site, run, "run-ended"), "the agent has written the end")
    # slurmstepd adds a line of its own to the log.
    assert all(text.startswith("ready\n") and "\n15\n" in text for text in ranks.printed(site, run))
    assert [record["exit_code"] for record in ranks.records(site, run)] == [0] * 4
    assert ranks.events(site, run, "attempt-ended")[0]["signal"] == 15
    assert ranks.events(site, run, "run-ended")[0]["outcome"] == "cancelled"
    until(lambda: "Slurm ended this attempt: cancelled" in ranks.said(site, run), "the log says so")


def test_at_a_requeue_the_attempt_ends_and_the_run_goes_on(site: Site) -> None:
    job = ranks.write_job(site, ranks.python(NOTE), nodes=1, ntasks=1, requeue=True)
    run = site.submit(job)
    until(functools.partial(all_printed, site, run, "ready\n", 1), "the rank is ready")
    job_id = site.json("status", run)[0]["job_id"]
    site.testbed.command(["scontrol", "requeue", job_id])
    until(lambda: len(ranks.events(site, run, "attempt-started")) == 2, "it has started again")
    assert [event["attempt"] for event in ranks.events(site, run, "attempt-started")] == [
        f"{job_id}-0",
        f"{job_id}-1",
    ]
    assert not ranks.events(site, run, "run-ended")
    until(lambda: len(ranks.printed(site, run)) == 2, "the second attempt has a log of its own")


def test_an_agent_that_is_killed_leaves_a_readable_run(site: Site) -> None:
    run = site.submit(ranks.write_job(site, ranks.python(NOTE), nodes=1, ntasks=2))
    until(functools.partial(all_printed, site, run, "ready\n", 2), "all are ready")
    job_id = site.json("status", run)[0]["job_id"]
    site.testbed.command(["scancel", "--batch", "--signal=KILL", job_id])
    (row,) = site.json("wait", run, code=1)
    assert row["state"] == "failed"
    kinds = [event.kind for event in events.read(RunPaths(ranks.directory(site, run)))]
    assert kinds[:5] == ["submitting", "submitted", "attempt-started", "nodes-checked", "step-started"]
    assert "attempt-ended" not in kinds
    assert site.json("show", run)["state"] == "failed"
