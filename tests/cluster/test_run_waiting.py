"""Waiting through outages, with hidden jobs, without accounting, and together."""

from __future__ import annotations

from contextlib import closing, contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from slurmkit.testbed import native
from slurmkit.testbed.options import Options
from tests.cluster.site import Site, until

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from slurmkit.testbed.testbed import Testbed

pytestmark = pytest.mark.cluster

GATED = "touch started; until [[ -e gate ]]; do sleep 0.1; done"


@pytest.fixture
def site(slurm_testbed: Testbed, tmp_path: Path) -> Iterator[Site]:
    with closing(Site(slurm_testbed, tmp_path)) as site:
        yield site


@pytest.fixture(scope="module")
def fragile(make_testbed: Callable[[Options], Testbed]) -> Iterator[Testbed]:
    """A testbed whose daemons come and go. Slurm's commands give up early there."""
    testbed = make_testbed(Options(nodes=1, gpus="", config=("MessageTimeout=2",)))
    yield testbed
    native.down(testbed.root)


@pytest.fixture
def fragile_site(fragile: Testbed, tmp_path: Path) -> Iterator[Site]:
    with closing(Site(fragile, tmp_path)) as site:
        yield site


@contextmanager
def gone(testbed: Testbed, *daemons: str) -> Iterator[None]:
    """The daemons are away, and come back."""
    for daemon in daemons:
        testbed.stop(daemon)
    try:
        yield
    finally:
        # The other way round: slurmctld does not start without slurmdbd, unless it has done so before.
        for daemon in reversed(daemons):
            testbed.start(daemon)


def read_until(process: subprocess.Popen[str], line: str) -> None:
    """Read what a process says until it says `line`."""
    assert process.stderr is not None
    said: list[str] = []
    for one in iter(process.stderr.readline, ""):
        said.append(one)
        if one.rstrip("\n") == line:
            return
    pytest.fail(f"{line!r} was never said, but {said}")


@pytest.mark.parametrize("template", ["managed", "plain"])
def test_waiting_survives_slurmctld_going_away_and_coming_back(fragile_site: Site, template: str) -> None:
    run = fragile_site.submit(str(fragile_site.job(GATED)), "--template", template)
    waiting = fragile_site.start("wait", run)
    read_until(waiting, f"{run}: running")
    until((fragile_site.work / "started").exists, "the program runs")
    with gone(fragile_site.testbed, "slurmctld"):
        read_until(waiting, "slurmctld does not answer; still waiting")
        assert fragile_site.state(run) in ({"running"} if template == "managed" else {"running", "pending"})
    read_until(waiting, "Slurm answers again")
    (fragile_site.work / "gate").touch()
    assert waiting.wait(90) == 0


def test_waiting_survives_an_outage_of_slurmdbd(fragile_site: Site) -> None:
    run = fragile_site.submit(str(fragile_site.job(GATED)), "--template", "plain")
    waiting = fragile_site.start("wait", run)
    read_until(waiting, f"{run}: running")
    until((fragile_site.work / "started").exists, "the program runs")
    with gone(fragile_site.testbed, "slurmdbd"):
        (fragile_site.work / "gate").touch()
        assert waiting.wait(90) == 0


def test_trap_154_an_outage_of_both_is_no_failure(fragile_site: Site) -> None:
    run = fragile_site.submit(str(fragile_site.job(GATED)), "--template", "plain")
    until((fragile_site.work / "started").exists, "the program runs")
    with gone(fragile_site.testbed, "slurmctld", "slurmdbd"):
        (row,) = fragile_site.json("status", run)
        assert row["state"] in {"pending", "running"}
        assert row["reason"] == "last known; Slurm does not answer"
    (fragile_site.work / "gate").touch()
    assert fragile_site.json("wait", run)[0]["state"] == "completed"


def test_trap_151_a_job_that_squeue_does_not_list_is_not_finished(site: Site) -> None:
    site.wrap("squeue", '[[ -e hidden ]] || exec "$REAL" "$@"')
    site.wrap("sacct", 'for word; do [[ $word == --helpformat ]] && exec "$REAL" "$@"; done; '
              '[[ -e hidden ]] || exec "$REAL" "$@"')  # fmt: skip
    run = site.submit(str(site.job(GATED)), "--template", "plain")
    until(lambda: site.state(run) == "running", "the job runs")
    (site.work / "hidden").touch()
    (row,) = site.json("status", run)
    assert (row["state"], row["reason"]) == ("pending", "Slurm does not list the job yet")
    waiting = site.start("wait", run)
    read_until(waiting, f"{run}: pending (Slurm does not list the job yet)")
    (site.work / "hidden").unlink()
    read_until(waiting, f"{run}: running")
    (site.work / "gate").touch()
    assert waiting.wait(60) == 0


def test_trap_158_ten_that_wait_ask_slurm_once_an_interval(site: Site) -> None:
    site.wrap("squeue", 'date +%s.%N >>"$XDG_STATE_HOME/../squeue-calls"; exec "$REAL" "$@"')
    calls = site.wrappers.parent / "squeue-calls"
    runs = [site.submit(str(site.job(GATED, name=f"r{number}"))) for number in range(5)]
    until(lambda: all(row["state"] == "running" for row in site.json("status")), "all jobs run")
    calls.unlink()
    waiting = [site.start("wait", run) for run in runs * 2]
    for process, run in zip(waiting, runs * 2, strict=True):
        read_until(process, f"{run}: running")
    until(lambda: len(calls.read_text().splitlines()) >= 6, "some intervals have gone by")
    asked = [float(line) for line in calls.read_text().splitlines()]
    (site.work / "gate").touch()
    assert [process.wait(60) for process in waiting] == [0] * 10
    # The least interval is 2 s, and it grows: never two questions within one.
    assert [after - before for before, after in pairwise(asked) if after - before < 1.8] == []


@pytest.fixture(scope="module")
def without_accounting(make_testbed: Callable[[Options], Testbed]) -> Iterator[Testbed]:
    testbed = make_testbed(Options(nodes=1, gpus="", accounting=False, min_job_age=5))
    yield testbed
    native.down(testbed.root)


@pytest.mark.parametrize("template", ["managed", "plain"])
@pytest.mark.parametrize("code", [0, 5])
def test_a_site_without_accounting_is_a_site(
    without_accounting: Testbed, tmp_path: Path, template: str, code: int
) -> None:
    site = Site(without_accounting, tmp_path)
    site.run("submit", str(site.job(f"exit {code}")), "--template", template, "--wait", code=code)
    assert site.state("last") == ("failed" if code else "completed")
    site.run("show", "last")


def test_without_accounting_the_events_tell_what_slurmctld_has_forgotten(
    without_accounting: Testbed, tmp_path: Path
) -> None:
    site = Site(without_accounting, tmp_path)
    managed = site.submit(str(site.job("true", name="managed")))
    plain = site.submit(str(site.job("true", name="plain")), "--template", "plain")
    jobs = {row["job_id"] for row in site.json("status")}
    squeue = ["squeue", "--noheader", "--states=all", "--format=%i"]
    until(lambda: jobs.isdisjoint(without_accounting.command(squeue).stdout.split()), "slurmctld forgets")
    assert site.state(managed) == "completed"
    # Of the other nothing is left: not finished, not failed, and lost only after a while.
    (row,) = site.json("status", plain)
    assert row["state"] in {"pending", "lost"}


def test_without_accounting_waiting_sees_an_end_before_slurmctld_forgets_it(
    make_testbed: Callable[[Options], Testbed], tmp_path: Path
) -> None:
    testbed = make_testbed(Options(nodes=1, gpus="", accounting=False, min_job_age=8))
    site = Site(testbed, tmp_path)
    # By its end the questions would be ten seconds and more apart.
    run = site.submit(str(site.job("sleep 25; exit 4")), "--template", "plain")
    (row,) = site.json("wait", run, code=1)
    assert (row["state"], row["exit_code"]) == ("failed", 4)
    native.down(testbed.root)


def test_trap_162_after_min_job_age_accounting_tells_the_end(
    make_testbed: Callable[[Options], Testbed], tmp_path: Path
) -> None:
    testbed = make_testbed(Options(nodes=1, gpus="", min_job_age=2))
    site = Site(testbed, tmp_path)
    run = site.submit(str(site.job("exit 4")), "--template", "plain")
    squeue = ["squeue", "--noheader", "--states=all", "--format=%i"]
    until(lambda: not testbed.command(squeue).stdout, "slurmctld forgets the job")
    (row,) = site.json("wait", run, code=1)
    assert (row["state"], row["exit_code"]) == ("failed", 4)
    native.down(testbed.root)
