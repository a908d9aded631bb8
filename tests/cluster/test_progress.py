"""Real ranks tell how far they are: the slow one is named, a hang leaves all stacks and ends the step."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from slurmkit.recovery import monitor as monitoring
from slurmkit.recovery import tally
from slurmkit.recovery.monitor import Monitor, Straggler
from tests.cluster import ranks
from tests.cluster.site import Site

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from slurmkit.testbed.testbed import Testbed

pytestmark = pytest.mark.cluster

RANKS = 64
STEPS = """\
import os, time
from slurmkit import progress
slow = 1.3 if os.environ["RANK"] == "37" else 1.0
for n in range(100_000):
    with progress.phase("data"):
        time.sleep(0.02)
    with progress.phase("compute"):
        time.sleep(0.2 * slow)
    progress.step(n)
"""
HANGS = """\
import time
from slurmkit import progress
def waits_for_ever():
    with progress.phase("sync"):
        time.sleep(600)
for n in range(3):
    progress.step(n, loss=1 / (n + 1))
    time.sleep(0.4)
waits_for_ever()
"""


@pytest.fixture
def site(slurm_testbed: Testbed, tmp_path: Path) -> Iterator[Site]:
    with closing(Site(slurm_testbed, tmp_path)) as site:
        yield site


def test_one_of_64_processes_that_computes_more_slowly_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = 3  # a part of the window, of 10 s by default
    monkeypatch.setattr(tally, "BUCKET", seconds)
    monkeypatch.setattr(monitoring, "BUCKET", seconds)
    now = time.time()
    monitor = Monitor(
        token="ab" * 16,
        progress=None,
        logs=tmp_path,
        written_to=tmp_path / "progress.json",
        attempt="1-0",
        step=0,
        world_size=RANKS,
        now=now,
    )
    environ = {**os.environ, "SLURMKIT_PROGRESS": f"127.0.0.1:{monitor.port}", "SLURMKIT_TOKEN": "ab" * 16}
    processes = [
        subprocess.Popen(
            [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{STEPS}"],
            env={**environ, "RANK": str(rank), "SLURMD_NODENAME": f"n{rank // 8}"},
        )
        for rank in range(RANKS)
    ]
    found: list[object] = []
    try:
        while not found and time.time() < now + 60:
            monitor.receive(time.time())
            found += monitor.tick(time.time())
            time.sleep(0.2)
    finally:
        for process in processes:
            with process:
                process.kill()
        monitor.close()
    (one,) = found
    assert isinstance(one, Straggler)
    assert (one.rank, one.host, one.phase) == (37, "n4", "compute")


def test_a_step_without_progress_leaves_all_stacks_and_ends_as_hung(site: Site) -> None:
    job = ranks.write_job(site, ranks.python(HANGS), nodes=2, ntasks_per_node=2)
    with (site.work / job).open("a") as file:
        file.write('[progress]\nhang_after = "3s"\ntotal = 100\n')
    run = ranks.run(site, job, code=1)
    (hung,) = ranks.events(site, run, "hung")
    assert (hung["step"], hung["after"]) == (2, 3)
    stacks = sorted((ranks.directory(site, run) / "stacks").glob("*/0/rank-*.txt"))
    assert [path.name for path in stacks] == [f"rank-{rank:05d}.txt" for rank in range(4)]
    assert ["in waits_for_ever" in path.read_text() for path in stacks] == [True] * 4
    (told,) = (ranks.directory(site, run) / "logs").glob("*/progress.json")
    assert '"hung":true' in told.read_text()
    assert site.state(run) == "failed"


def test_a_pattern_tells_of_a_program_that_knows_nothing_of_slurmkit(site: Site) -> None:
    program = "import time\nfor n in range(1, 31): print(f'step {n}/30', flush=True); time.sleep(0.1)"
    job = ranks.write_job(site, ranks.python(program), nodes=1, ntasks_per_node=2)
    with (site.work / job).open("a") as file:
        file.write("[progress]\npattern = 'step (\\d+)/'\ntotal = 30\n")
    run = ranks.run(site, job)
    (told,) = (ranks.directory(site, run) / "logs").glob("*/progress.json")
    found = json.loads(told.read_text())
    assert (found["step"], found["step_max"], found["total"]) == (30, 30, 30)
    assert '"source":"pattern"' in told.read_text()
