"""`slurmkit doctor` on a testbed: the login node, and nodes on demand."""

from __future__ import annotations

import shlex
import subprocess
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from slurmkit.launch.files import write_atomically
from tests.cluster.site import BINARIES, Site

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from slurmkit.testbed.testbed import Testbed

pytestmark = pytest.mark.cluster


@pytest.fixture
def site(slurm_testbed: Testbed, tmp_path: Path) -> Iterator[Site]:
    with closing(Site(slurm_testbed, tmp_path)) as site:
        yield site


def by_name(rows: list[dict[str, Any]], key: str) -> dict[str, dict[str, Any]]:
    return {row[key]: row for row in rows}


def test_a_login_node_where_all_is_well(site: Site) -> None:
    found = by_name(site.json("doctor"), "what")
    well = ("Slurm", "slurmctld", "clock", "accounting", "shell")
    assert {found[what]["verdict"] for what in well} == {"ok"}
    assert found["Slurm"]["text"].startswith("2")
    assert site.testbed.cluster in found["slurmctld"]["text"]


def test_where_slurm_cannot_be_reached_doctor_says_so_and_goes_on(site: Site) -> None:
    site.environment["SLURM_CONF"] = str(site.work / "absent.conf")
    found = by_name(site.json("doctor", code=3), "what")
    assert found["Slurm"]["verdict"] == "unreachable"
    assert "python" in found


def test_trap_066_doctor_in_a_step_warns(site: Site) -> None:
    argv = ["srun", "--mem=100M", "--ntasks=1", str(BINARIES / "slurmkit"), "doctor"]
    done = subprocess.run(
        argv, env=site.environment, cwd=site.work, capture_output=True, text=True, timeout=60, check=True
    )
    (line,) = [line for line in done.stdout.splitlines() if " shell " in line]
    assert line.startswith("warning")
    assert "is inside of job" in line


def test_nodes_are_checked_on_demand_and_the_bad_one_has_its_reason(site: Site) -> None:
    path = site.work / "check 'it'"
    script = "[[ $SLURMD_NODENAME != n2 ]] || { echo 'no link $é'; exit 4; }"
    write_atomically(path, f"#!/bin/bash\n{script}\n".encode(), mode=0o755)
    command = shlex.quote(str(path))
    found = by_name(site.json("doctor", "--nodes", "n[1-3]", "--check", command, code=1), "node")
    assert {name: row["verdict"] for name, row in found.items()} == {"n1": "fit", "n2": "unfit", "n3": "fit"}
    assert found["n2"]["reason"].endswith(": no link $é (exit code 4)")
    assert sorted(entry.name for entry in site.work.iterdir()) == ["check 'it'"]


def test_a_drained_node_and_gpus_in_use_are_told_and_nothing_is_left_in_the_queue(site: Site) -> None:
    testbed = site.testbed
    testbed.command(["salloc", "--no-shell", "--nodelist=n2", "--gpus-per-node=3", "--mem=100M"])
    testbed.command(["scontrol", "update", "nodename=n3", "state=drain", "reason=the disk"])
    try:
        found = by_name(site.json("doctor", "--nodes", "all", "--wait", "20s", code=1), "node")
    finally:
        testbed.command(["scontrol", "update", "nodename=n3", "state=resume"])
    assert found["n2"] == {
        "node": "n2",
        "verdict": "fit",
        "reason": "3 of 8 GPUs are in use and were not looked at",
    }
    assert found["n3"]["verdict"] == "unfit"
    assert found["n3"]["reason"].endswith("DRAIN: the disk")
    assert testbed.command(["squeue", "--noheader", "--state=PD"]).stdout == ""


def test_a_directory_that_nodes_do_not_see_is_no_place_for_runs(site: Site) -> None:
    """A file that is moved away before the job starts stands for one on another host's disk."""
    move = 'for word; do case $word in */launch.pyz) mv "$word" "$word.gone";; esac; done'
    site.wrap("srun", f'{move}\nexec $REAL "$@"')
    done = site.start("doctor", "--nodes", "n1")
    _, err = done.communicate(timeout=60)
    assert done.returncode == 3
    assert "can't open file" in err


def test_an_unknown_node_is_a_mistake_of_the_user(site: Site) -> None:
    site.run("doctor", "--nodes", "n[1-2],nope", code=2)
