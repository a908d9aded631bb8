"""Nodes that are made unfit for real: a GPU's device is gone, a daemon is dead, a port is taken."""

from __future__ import annotations

import shlex
import signal
import socket
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from slurmkit.launch.files import write_atomically
from slurmkit.testbed.devices import make_devices
from tests.cluster import ranks
from tests.cluster.site import Site, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from slurmkit.testbed.testbed import Testbed

pytestmark = pytest.mark.cluster

NVIDIA_SMI = """\
#!/bin/bash
# Stands for nvidia-smi: the GPUs that it sees are the testbed's device files of this node.
for n in ${CUDA_VISIBLE_DEVICES//,/ }; do
    [[ ! -e %s/$SLURMD_NODENAME/nvidia$n ]] || echo "$n, GPU-$n, 0000:0$n:00.0, 0, No, 0x1"
done
"""
RAN = "import os; print('ran on', os.environ['SLURMD_NODENAME'])"


@pytest.fixture
def site(slurm_testbed: Testbed, tmp_path: Path) -> Iterator[Site]:
    with closing(Site(slurm_testbed, tmp_path)) as site:
        yield site


def check(site: Site, script: str) -> str:
    """A check of the site's own, as `[launch] checks` names it."""
    path = site.work / "check"
    write_atomically(path, f"#!/bin/bash\n{script}\n".encode(), mode=0o755)
    return shlex.quote(str(path))


def test_a_node_whose_gpus_device_is_gone_is_replaced_by_the_spare(site: Site) -> None:
    devices = site.testbed.layout.base / "dev"
    if not (devices / "n2" / "nvidia1").exists():
        pytest.skip("this testbed's GPUs have no devices of their own")
    write_atomically(site.wrappers / "nvidia-smi", (NVIDIA_SMI % devices).encode(), mode=0o755)
    (devices / "n2" / "nvidia1").unlink()
    try:
        job = ranks.write_job(site, ranks.python(RAN), nodes=2, gpus_per_node=2, spare_nodes=1)
        run = ranks.run(site, job)
    finally:
        make_devices(devices, site.testbed.nodes, 8)
    (found,) = ranks.events(site, run, "nodes-checked")
    assert found["unfit"] == [{"node": "n2", "reasons": ["1 GPU is seen by nvidia-smi, 2 were asked for"]}]
    assert ranks.printed(site, run) == ["ran on n1\n"] * 2 + ["ran on n3\n"] * 2


def test_a_node_whose_slurmd_has_died_is_named_in_time_and_replaced(site: Site) -> None:
    testbed = site.testbed
    ready = site.work / "ready"
    # The batch script waits before the agent starts: only then does the daemon die.
    wait = f"until [[ -e {shlex.quote(str(ready))} ]]; do sleep 0.05; done"
    job = ranks.write_job(
        site,
        ranks.python(RAN),
        setup=[wait],
        launch={"check_time": "2s"},
        nodes=1,
        ntasks_per_node=1,
        spare_nodes=1,
        nodelist="n[3-4]",
    )
    run = site.submit(job)
    until(lambda: site.state(run) == "running", "it runs")
    testbed.kill("slurmd-n4")
    try:
        ready.write_text("")
        until(lambda: ranks.events(site, run, "nodes-checked"), "the nodes are checked", 30)
        (found,) = ranks.events(site, run, "nodes-checked")
        site.run("wait", run)
    finally:
        testbed.start("slurmd-n4")
    assert [one["node"] for one in found["unfit"]] == ["n4"]
    assert found["seconds"] < 10
    assert ranks.printed(site, run) == ["ran on n3\n"]


def test_a_port_of_the_users_own_that_is_taken_is_told_and_no_node_is_blamed(site: Site) -> None:
    with socket.create_server(("0.0.0.0", 0)) as server:
        port = server.getsockname()[1]
        job = ranks.write_job(
            site,
            ranks.python(RAN),
            variables={"MASTER_PORT": str(port)},
            launch={"check_time": "2s"},
            nodes=3,
            ntasks_per_node=1,
        )
        run = site.submit(job)
        until(lambda: ranks.events(site, run, "nodes-checked"), "the nodes are checked")
    (found,) = ranks.events(site, run, "nodes-checked")
    assert found["unfit"] == []
    text = f"the rendezvous port {port} cannot be used: Address already in use"
    assert found["warnings"] == [{"node": "n1", "reasons": [text]}]


def test_a_job_that_is_cancelled_during_the_check_ends_at_once(site: Site) -> None:
    job = ranks.write_job(
        site,
        ranks.python(RAN),
        launch={"checks": [check(site, "touch looks; sleep 600")], "check_time": "50s"},
        nodes=2,
        ntasks_per_node=1,
    )
    run = site.submit(job)
    until((site.work / "looks").exists, "the check has begun")
    began = time.monotonic()
    site.run("cancel", run)
    until(lambda: ranks.events(site, run, "attempt-ended"), "the attempt has ended")
    assert time.monotonic() - began < 20
    (ended,) = ranks.events(site, run, "attempt-ended")
    assert ended["signal"] == signal.SIGTERM
    assert ranks.events(site, run, "step-started") == []
    until(lambda: site.state(run) == "cancelled", "the run is cancelled")
