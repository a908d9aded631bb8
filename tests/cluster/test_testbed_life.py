"""A testbed comes up, survives what happens to it, and goes without a trace."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slurmkit.errors import SlurmError, UsageError
from slurmkit.testbed import cgroup
from slurmkit.testbed.daemons import wait_for
from slurmkit.testbed.layout import LINK_PREFIX
from slurmkit.testbed.leftovers import belonging
from slurmkit.testbed.native import down, up
from slurmkit.testbed.options import Options
from slurmkit.testbed.process import identify, read_items

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from slurmkit.testbed.testbed import Testbed

pytestmark = pytest.mark.cluster

SMALL = Options(nodes=2, gpus="a100:1")
# A task that has dropped all that tells where it came from.
LONG_JOB = "env -i sleep 1000 & srun --overlap sleep 1000"


@pytest.fixture(scope="module")
def testbed(make_testbed: Callable[[Options], Testbed]) -> Iterator[Testbed]:
    """One for the tests that leave it as they found it."""
    testbed = make_testbed(SMALL)
    yield testbed
    down(testbed.root)


@pytest.fixture
def doomed(make_testbed: Callable[[Options], Testbed]) -> Iterator[Testbed]:
    """One for a single test."""
    testbed = make_testbed(SMALL)
    yield testbed
    down(testbed.root)


def start_long_job(testbed: Testbed) -> str:
    done = testbed.command(["sbatch", "--parsable", "--nodelist=n1", "-o", "/dev/null", "--wrap", LONG_JOB])
    assert done.returncode == 0, done.stderr
    job = done.stdout.strip()
    assert wait_for(lambda: f"{job}.0" in testbed.command(["squeue", "-hs", "-o", "%i"]).stdout.split(), 30)
    return job


def job_state(testbed: Testbed, job: str) -> str:
    return testbed.command(["squeue", "-h", "-j", job, "-o", "%T"]).stdout.strip()


def assert_no_trace(testbed: Testbed) -> None:
    assert not testbed.root.exists()
    assert belonging(testbed) == set()
    assert not any(directory.exists() for directory in cgroup.directories(testbed.cluster))
    assert not os.path.lexists(testbed.layout.base)


def test_a_second_up_changes_nothing_and_takes_no_time(testbed: Testbed) -> None:
    pids = [testbed.pid(name) for name in testbed.daemons()]
    started = time.monotonic()
    assert up(SMALL, testbed.root) == testbed
    assert time.monotonic() - started < 2
    assert [testbed.pid(name) for name in testbed.daemons()] == pids


def test_up_with_other_options_says_which(testbed: Testbed) -> None:
    with pytest.raises(UsageError, match="nodes: 3, not 2"):
        up(Options(nodes=3, gpus="a100:1"), testbed.root)
    assert not testbed.missing()


def test_daemons_are_on_their_own(testbed: Testbed) -> None:
    for name in testbed.daemons():
        pid = testbed.pid(name)
        assert pid
        assert os.getsid(pid) == pid
        assert read_items(pid, "environ")
        open_files = {str(file.readlink()) for file in Path(f"/proc/{pid}/fd").iterdir()}
        assert not any(file.startswith(("/dev/pts", "/dev/tty")) for file in open_files)
        assert Path(f"/proc/{pid}/fd/0").readlink() == Path("/dev/null")


def test_a_job_survives_the_controller_and_the_database(testbed: Testbed) -> None:
    job = start_long_job(testbed)
    for name in ("slurmctld", "slurmdbd", "mariadbd"):
        testbed.stop(name)
        assert testbed.pid(name) is None
    for name in ("mariadbd", "slurmdbd", "slurmctld"):
        testbed.start(name)
        assert testbed.pid(name)
    assert wait_for(lambda: job_state(testbed, job) == "RUNNING", 30)


def test_a_daemon_gets_the_signals_that_are_sent_to_it(testbed: Testbed) -> None:
    testbed.kill("slurmd-n2", signal.SIGSTOP)
    pid = testbed.pid("slurmd-n2")
    assert pid
    assert wait_for(lambda: Path(f"/proc/{pid}/stat").read_text().split()[2] == "T", 5)
    testbed.kill("slurmd-n2", signal.SIGCONT)
    testbed.kill("slurmd-n2")
    assert testbed.pid("slurmd-n2") is None
    testbed.start("slurmd-n2")
    assert testbed.pid("slurmd-n2") not in {None, pid}


def test_up_starts_what_has_ended_and_keeps_the_jobs(testbed: Testbed) -> None:
    job = start_long_job(testbed)
    kept = testbed.pid("slurmd-n2")
    # A slurmctld that is killed forgets what it has not saved yet, the start of this job for one.
    testbed.stop("slurmctld")
    for name in ("slurmd-n1", "munged"):
        testbed.kill(name)
    assert testbed.missing() == ["munged", "slurmctld", "slurmd-n1"]
    up(SMALL, testbed.root)
    assert not testbed.missing()
    assert testbed.pid("slurmd-n2") == kept
    assert job_state(testbed, job) == "RUNNING"


def test_down_after_kill_leaves_no_trace(doomed: Testbed) -> None:
    start_long_job(doomed)
    assert any("sleep" in read_items(process.pid, "cmdline")[0] for process in belonging(doomed))
    for name in ("slurmctld", "mariadbd", "slurmd-n1"):
        doomed.kill(name)
    assert down(doomed.root)
    assert_no_trace(doomed)


def test_down_spares_shells_and_readers_and_ends_waiting_clients(doomed: Testbed) -> None:
    environment = {**os.environ, **doomed.environment}
    shell = ["env", "SLURM_JOB_ID=1", "sleep", "1000"]
    reader = ["tail", "-f", str(doomed.layout.log("slurmctld"))]
    waiting = ["srun", "--begin=now+1hour", "true"]
    with (
        subprocess.Popen(shell, env=environment) as spared,
        subprocess.Popen(reader, env=environment, stdout=subprocess.DEVNULL) as also_spared,
        subprocess.Popen(waiting, env=environment, stderr=subprocess.DEVNULL) as ended,
    ):
        try:
            assert wait_for(lambda: doomed.command(["squeue", "-h"]).stdout != "", 30)
            down(doomed.root)
            assert spared.poll() is None
            assert also_spared.poll() is None
            assert ended.wait(10)
        finally:
            for process in (spared, also_spared, ended):
                process.kill()
    assert_no_trace(doomed)


def test_down_without_any_record_leaves_no_trace(doomed: Testbed) -> None:
    start_long_job(doomed)
    for file in doomed.layout.run.glob("*.json"):
        file.unlink()
    assert down(doomed.root)
    assert_no_trace(doomed)


def test_what_somebody_removed_the_files_of_goes_all_the_same(tmp_path: Path) -> None:
    root = tmp_path / ("x" * 60)
    testbed = up(SMALL, root)
    try:
        start_long_job(testbed)
        old = belonging(testbed)
        shutil.rmtree(root)
        testbed = up(SMALL, root)
        assert not any(process.is_alive() for process in old)
        shutil.rmtree(root)
    finally:
        assert down(root)
    assert_no_trace(testbed)
    assert not down(root)


def test_up_after_a_reboot_spares_whoever_has_the_pids_now(doomed: Testbed) -> None:
    start_long_job(doomed)
    held = ["sbatch", "--parsable", "--hold", "--job-name=held-over", "--wrap", "true"]
    job = doomed.command(held).stdout.strip()
    saved = doomed.layout.base / "state" / "job_state"
    assert wait_for(lambda: saved.exists() and b"held-over" in saved.read_bytes(), 30)
    for process in belonging(doomed):
        process.kill()
    assert wait_for(lambda: not belonging(doomed), 10)
    with subprocess.Popen(["sleep", "1000"]) as innocent:
        for name in doomed.daemons():
            record = doomed.layout.record(name)
            record.write_text(json.dumps({**json.loads(record.read_text()), "pid": innocent.pid}))
        for file in doomed.layout.run.glob("*.pid"):
            file.write_text(f"{innocent.pid}\n")
        try:
            up(SMALL, doomed.root)
            assert not doomed.missing()
            assert job_state(doomed, job) == "PENDING"
            assert down(doomed.root)
            assert innocent.poll() is None
        finally:
            innocent.kill()
    assert_no_trace(doomed)


def test_a_port_taken_in_the_meantime_is_replaced(doomed: Testbed) -> None:
    import socket

    port = doomed.ports["slurmd-n1"]
    for process in belonging(doomed):
        process.kill()
    assert wait_for(lambda: not belonging(doomed), 10)
    with socket.create_server(("", port)):
        again = up(SMALL, doomed.root)
        assert again.ports["slurmd-n1"] != port
        assert not again.missing()


@pytest.mark.parametrize("after", [0.3, 1.0, 1.8, 2.6])
def test_up_may_be_killed_at_any_time(tmp_path: Path, after: float) -> None:
    code = (
        "import sys; from pathlib import Path; from slurmkit.testbed.native import up; "
        "from slurmkit.testbed.options import Options; up(Options(nodes=2, gpus='a100:1'), Path(sys.argv[1]))"
    )
    root = tmp_path / "t"
    with subprocess.Popen([sys.executable, "-c", code, str(root)]) as process:
        wait_for(lambda: process.poll() is not None, after)
        process.kill()
    try:
        testbed = up(SMALL, root)
        assert not testbed.missing()
    finally:
        down(root)
    assert_no_trace(testbed)


def test_a_testbed_that_is_taken_down_through_a_link_takes_nothing_with_it(tmp_path: Path) -> None:
    place = tmp_path / "place"
    testbed = up(Options(nodes=1, accounting=False), place / "t")
    (place / "beside").touch()
    link = tmp_path / "link"
    link.symlink_to(place)
    assert down(link / "t")
    assert_no_trace(testbed)
    assert [entry.name for entry in place.iterdir()] == ["beside"]


def test_two_testbeds_do_not_see_each_doomed(testbed: Testbed, doomed: Testbed) -> None:
    job = start_long_job(testbed)
    start_long_job(doomed)
    assert testbed.cluster != doomed.cluster
    assert set(testbed.ports.values()).isdisjoint(doomed.ports.values())
    down(doomed.root)
    assert_no_trace(doomed)
    assert not testbed.missing()
    assert job_state(testbed, job) == "RUNNING"


def test_testbeds_may_start_at_once_and_twice(tmp_path: Path) -> None:
    roots = [tmp_path / name for name in ("a", "b", "c", "a")]
    with ThreadPoolExecutor() as pool:
        testbeds = list(pool.map(lambda root: up(SMALL, root), roots))
    try:
        assert testbeds[0] == testbeds[3]
        assert not any(testbed.missing() for testbed in testbeds)
    finally:
        gone = [down(root) for root in roots]
    assert gone == [True, True, True, False]


def test_a_daemon_that_does_not_come_up_shows_its_log(tmp_path: Path) -> None:
    root = tmp_path / "t"
    options = Options(nodes=1, config=("SelectType=select/nonsense",), accounting=False)
    try:
        with pytest.raises(SlurmError) as caught:
            up(options, root)
        assert "slurmctld ended" in caught.value.what
        assert "select/nonsense" in caught.value.what
        assert caught.value.where == str(root / "log" / "slurmctld.log")
    finally:
        assert down(root)
    assert not root.exists()


def test_the_short_name_goes_with_the_testbed(tmp_path: Path) -> None:
    root = tmp_path / "it's a $(long) \N{SNOWMAN} name" / ("x" * 80)
    testbed = up(SMALL, root)
    try:
        assert testbed.layout.base.parent.name.startswith(LINK_PREFIX)
        done = testbed.command(["srun", "-N2", "--gpus-per-node=1", "printenv", "CUDA_VISIBLE_DEVICES"])
        assert done.stdout.split() == ["0", "0"], done.stderr
        for process in belonging(testbed):
            process.kill()
        assert wait_for(lambda: not belonging(testbed), 10)
        # A reboot empties /tmp.
        testbed.layout.base.unlink()
        testbed.layout.base.parent.rmdir()
        testbed = up(SMALL, root)
        assert not testbed.missing()
    finally:
        down(root)
    assert_no_trace(testbed)
    assert identify(os.getpid())
