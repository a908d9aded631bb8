"""Ranks meet across hosts that have addresses of their own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.docker.conftest import SOURCE
from tests.docker.user import PYTHON, User

if TYPE_CHECKING:
    from slurmkit.testbed.compose import ComposeTestbed

pytestmark = pytest.mark.docker

MEET = """
import json, os, socket, time
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
master = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    met = {}
    with socket.create_server(("", master[1]), backlog=size) as server:
        server.settimeout(60)
        while len(met) < size - 1:
            peer, address = server.accept()
            met[peer.makefile().readline().strip()] = address[0]
    print(json.dumps([master[0], socket.gethostname(), met]))
else:
    end = time.monotonic() + 60
    while True:
        try:
            with socket.create_connection(master, timeout=60) as peer:
                peer.sendall(f"{socket.gethostname()}\\n".encode())
            break
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
"""


def job(name: str, command: list[str], nodes: int) -> str:
    resources = f'nodes = {nodes}\nntasks_per_node = 1\nmem = "100M"\ntime = "5m"'
    return f'name = "{name}"\ncommand = {json.dumps(command)}\n[resources]\n{resources}\n'


def test_every_rank_reaches_master_addr_from_a_host_with_its_own_address(cluster: ComposeTestbed) -> None:
    alice = User(cluster, "alice")
    size = len(cluster.nodes)
    alice.write("job.toml", job("meet", [PYTHON, "-c", MEET], size))
    run = alice.run("slurmkit", "submit", "job.toml", "--wait").split()[0]
    told = alice.run("sh", "-c", f"cat runs/{run}/logs/*/rank-*0.out").splitlines()[-1]
    master, host, met = json.loads(told)
    assert master == host == cluster.nodes[0]
    assert sorted(met) == list(cluster.nodes[1:])
    assert len(set(met.values())) == size - 1
    assert not any(address.startswith("127.") for address in met.values())


def test_a_ring_closes_across_hosts(cluster: ComposeTestbed) -> None:
    alice = User(cluster, "alice")
    program = f"{SOURCE}/examples/allreduce/allreduce.py"
    alice.write("job.toml", job("ring", [PYTHON, program], len(cluster.nodes)))
    run = alice.run("slurmkit", "submit", "job.toml", "--wait").split()[0]
    assert alice.state(run) == "completed"
