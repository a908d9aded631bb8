"""Nodes are checked before the first rank starts: what a user sees of it."""

from __future__ import annotations

import json
import shlex
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from slurmkit.launch.files import write_atomically
from tests.cluster import ranks
from tests.cluster.site import Site

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from slurmkit.testbed.testbed import Testbed

pytestmark = pytest.mark.cluster

RAN = "import os; print('ran on', os.environ['SLURMD_NODENAME'])"


@pytest.fixture
def site(slurm_testbed: Testbed, tmp_path: Path) -> Iterator[Site]:
    with closing(Site(slurm_testbed, tmp_path)) as site:
        yield site


def program(site: Site, script: str) -> str:
    """A check of the site's own, as `[launch] checks` names it."""
    path = site.work / "check 'nodes' $HOME"
    write_atomically(path, f"#!/bin/bash\n{script}\n".encode(), mode=0o755)
    return shlex.quote(str(path))


def checked(site: Site, *, code: int = 0, more: str = "", **options: Any) -> tuple[str, list[dict[str, Any]]]:
    """Run a program that says where it ran; the run id, and the events of the check."""
    file = ranks.write_job(site, ranks.python(RAN), **{"nodes": 2, "ntasks_per_node": 1, **options})
    path = site.work / file
    path.write_text(more + path.read_text())
    run = ranks.run(site, file, code=code)
    return run, ranks.events(site, run, "nodes-checked")


def test_on_fit_nodes_the_program_runs_and_what_was_found_is_written_down(site: Site) -> None:
    check = program(site, "exit 0")
    run, (found,) = checked(site, launch={"checks": [check]}, gpus_per_task="a100:1", ntasks_per_node=2)
    assert (found["nodes"], found["unfit"]) == (["n1", "n2"], [])
    assert "reason" not in found
    assert 0 < found["seconds"] < 10
    assert ranks.printed(site, run) == [f"ran on {node}\n" for node in ("n1", "n1", "n2", "n2")]
    records = [
        json.loads(path.read_bytes())
        for path in sorted((ranks.directory(site, run) / "checks").glob("*/*.json"))
    ]
    assert [record["node"] for record in records] == ["n1", "n2"]
    assert [record["facts"]["gpus"]["given"] for record in records] == [2, 2]


def test_a_node_that_the_sites_check_finds_unfit_is_named_and_no_rank_starts(site: Site) -> None:
    check = program(site, "echo looking; [[ $SLURMD_NODENAME != n2 ]] || { echo 'fan é is loud'; exit 3; }")
    run, (found,) = checked(site, code=1, launch={"checks": [check]})
    (unfit,) = found["unfit"]
    assert unfit["node"] == "n2"
    (reason,) = unfit["reasons"]
    assert "fan é is loud" in reason
    assert "exit code 3" in reason
    assert ranks.printed(site, run) == []
    assert ranks.events(site, run, "step-started") == []
    (ended,) = ranks.events(site, run, "attempt-ended")
    assert f"2 nodes are needed, and 1 of 2 are fit: n2: {reason}" in ended["reason"]
    assert f"slurmkit: n2 is unfit: {reason}\n" in ranks.said(site, run)


def test_a_spare_node_stands_in_for_the_first_that_is_unfit(site: Site) -> None:
    check = program(site, "[[ $SLURMD_NODENAME != n1 ]]")
    run, (found,) = checked(site, spare_nodes=1, launch={"checks": [check]})
    assert found["nodes"] == ["n1", "n2", "n3"]
    assert [unfit["node"] for unfit in found["unfit"]] == ["n1"]
    assert ranks.printed(site, run) == ["ran on n2\n", "ran on n3\n"]


def test_a_check_that_hangs_is_ended_in_time_and_the_node_is_unfit(site: Site) -> None:
    check = program(site, "[[ $SLURMD_NODENAME != n2 ]] || exec sleep 600")
    run, (found,) = checked(site, code=1, launch={"checks": [check], "check_time": "2s"})
    (unfit,) = found["unfit"]
    assert unfit["node"] == "n2"
    (reason,) = unfit["reasons"]
    assert "did not answer within" in reason
    assert found["seconds"] < 10
    assert ranks.printed(site, run) == []


def test_what_is_not_asked_for_is_not_checked(site: Site) -> None:
    check = program(site, "exit 1")
    run, found = checked(site, nodes=1, launch={"checks": [check], "check_nodes": False})
    assert found == []
    assert ranks.printed(site, run) == ["ran on n1\n"]


def test_where_checkpoints_cannot_be_written_no_node_is_fit(site: Site) -> None:
    (site.work / "plain").write_text("")
    more = 'checkpoint.path = "plain/checkpoints"\nretry.requeues = 0\n'
    run, (found,) = checked(site, code=1, more=more)
    assert [unfit["node"] for unfit in found["unfit"]] == ["n1", "n2"]
    assert all("plain/checkpoints" in unfit["reasons"][0] for unfit in found["unfit"])
    assert ranks.printed(site, run) == []
