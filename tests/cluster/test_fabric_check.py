"""`slurmkit fabric-check` on a testbed. Its nodes share one loopback, so what is slow is made so."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tests.cluster.site import Site

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from slurmkit.testbed.testbed import Testbed

pytestmark = pytest.mark.cluster

SMALL = ("--nodes", "4", "--size", "1M", "--pair-size", "1M", "--transport", "sockets",
         "--set", "resources.mem=100M", "--set", "launch.check_nodes=false")  # fmt: skip
SLOW_NETWORK = """\
import socket, time
class Slow(socket.socket):
    def send(self, *arguments):
        time.sleep(0.012)
        return super().send(*arguments)
socket.socket = Slow
"""
PYTHON = """\
#!/bin/bash
[[ $SLURMD_NODENAME != {node} ]] || export PYTHONPATH={folder}
exec {python} "$@"
"""


@pytest.fixture
def site(slurm_testbed: Testbed, tmp_path: Path) -> Iterator[Site]:
    with closing(Site(slurm_testbed, tmp_path)) as site:
        yield site


def test_a_check_measures_every_pair_and_all_nodes_together(site: Site) -> None:
    run = site.run("fabric-check", *SMALL, "--no-wait").strip()
    site.run("wait", run)
    page = site.work / "fabric 'é'.html"
    process = site.start("fabric-check", "--run", run, "--json", "--html", page.name)
    out, said = process.communicate(timeout=60)
    # On one loopback and two cores chance may make a node slow; that is then said.
    assert process.returncode in {0, 1}, said
    data = json.loads(out)
    nodes = sorted(data["nodes"])
    assert (data["run"], data["transport"], len(nodes), data["is_complete"]) == (run, "sockets", 4, True)
    assert sorted(sorted(one["nodes"]) for one in data["links"]) == [
        [a, b] for a in nodes for b in nodes if a < b
    ]
    assert all(one["bandwidth"] > 0 and one["latency"] > 0 for one in data["links"])
    assert [one["bytes"] for one in data["world"]] == [4**power * 1024 for power in range(6)]
    assert bool(data["findings"]) == (process.returncode == 1)
    assert all(node in page.read_text() for node in nodes)


def test_a_node_with_a_slow_network_is_named(site: Site, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(SLOW_NETWORK)
    slow = site.testbed.nodes[2]
    python = tmp_path / "python of ada"
    python.write_text(PYTHON.format(node=slow, folder=tmp_path, python=sys.executable))
    python.chmod(0o755)
    out = site.run("fabric-check", *SMALL, "--python", str(python), code=1)
    assert f"- {slow} " in out, "whether by its bandwidth or by its latency"


def test_a_check_whose_python_is_missing_says_where_to_look(site: Site) -> None:
    process = site.start("fabric-check", *SMALL, "--python", "/nonexistent/python")
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "the check has no result" in said
    assert "slurmkit show" in said
