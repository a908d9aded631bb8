"""A host name and an /etc/hosts for each node, so that node names resolve inside jobs as on a real cluster.

Each slurmd runs in UTS and mount namespaces of its own, where the node's name is the host name and a file of
the testbed lies over /etc/hosts. Nothing of the machine changes; with a node's last process all is gone.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slurmkit.testbed.layout import Layout

HOSTS = Path("/etc/hosts")
UNSHARE = ("unshare", "--mount", "--uts", "--propagation=slave")
BECOME_NODE = 'mount --bind "$1" /etc/hosts && hostname "$2" && shift 2 && exec "$@"'


def write_hosts(layout: Layout, nodes: Sequence[str]) -> None:
    """Write the nodes' /etc/hosts: the machine's, and every node on the loopback address."""
    layout.hosts.write_text(HOSTS.read_text() + "".join(f"127.0.0.1 {node}\n" for node in nodes))


def as_node(hosts: Path, node: str, argv: Sequence[str]) -> tuple[str, ...]:
    """The command line that becomes `argv` under the node's name, with `hosts` as /etc/hosts."""
    inner = ("sh", "-c", BECOME_NODE, "sh", str(hosts), node)
    if os.geteuid() == 0:
        return (*UNSHARE, *inner, *argv)
    # An ordinary user is root in a user namespace of their own, mounts there, and turns back in a second one.
    back = ("unshare", "--user", f"--map-user={os.geteuid()}", f"--map-group={os.getegid()}", "--")
    return (*UNSHARE, "--user", "--map-root-user", *inner, *back, *argv)


def is_usable() -> bool:
    """Whether this machine lets this user do so."""
    if not HOSTS.exists():
        return False
    probe = as_node(HOSTS, "probe", ["sh", "-c", 'test "$(uname -n)" = probe'])
    try:
        done = subprocess.run(probe, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except FileNotFoundError:
        return False
    return done.returncode == 0
