"""How far a run is, from its ranks through the agent to the terminal."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tests.cluster.site import Site, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from slurmkit.testbed.testbed import Testbed

pytestmark = pytest.mark.cluster

PROGRAM = """\
import os, sys, time
from slurmkit import progress
for number in range(1, 4):
    with progress.phase("compute"):
        time.sleep(0.05)
    progress.step(number, loss=1 / number)
print("three steps are done", flush=True)
while not os.path.exists("gate"):
    time.sleep(0.05)
    progress.step(3)
sys.stderr.write("the last words\\n")
os.kill(os.getpid(), 11)
"""


@pytest.fixture
def site(slurm_testbed: Testbed, tmp_path: Path) -> Iterator[Site]:
    with closing(Site(slurm_testbed, tmp_path)) as site:
        yield site


def test_a_run_is_watched_from_its_first_step_to_the_rank_that_failed(site: Site) -> None:
    (site.work / "program.py").write_text(PROGRAM)
    job = site.job(f"exec {sys.executable} program.py")
    with job.open("a") as file:
        file.write("[progress]\ntotal = 12\n")
    run = site.submit(str(job))
    watching = site.start("watch", run, "--json", "--interval", "0.2")
    assert watching.stdout is not None
    told = map(json.loads, watching.stdout)
    seen = next(one for one in told if one["step"] == 3)
    assert (seen["state"], seen["total"], seen["progress"]["ranks_heard"]) == ("running", 12, 1)
    until(lambda: site.json("status", run)[0]["step"] == 3, "status tells the step")
    picture = site.run("watch", run, "--once").splitlines()
    assert picture[1].startswith("step     3/12 ")
    assert picture[-1] == "three steps are done"
    (site.work / "gate").touch()
    *_, last = told
    assert (last["state"], last["first_failure"]["signal"], last["step"]) == ("failed", 11, 3)
    _, said = watching.communicate(timeout=60)
    assert watching.returncode == 1
    assert "failed first: killed by SIGSEGV (segmentation fault)" in said
    assert "    the last words" in said
    assert said.rstrip() in site.run("show", run)
