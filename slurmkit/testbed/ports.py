"""TCP ports and listening sockets of this machine."""

from __future__ import annotations

import secrets
import socket
from pathlib import Path

from slurmkit.errors import SlurmError

LOWEST = 10_000
LISTENING = "0A"
ACCEPTS_CONNECTIONS = 0x10000


def free_ports(names: list[str]) -> dict[str, int]:
    """A free port for each name, drawn at random below the range from which the kernel serves clients."""
    highest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    if highest - LOWEST < 1000:
        highest = 65_536
    ports: dict[str, int] = {}
    for _ in range(100 * len(names)):
        if len(ports) == len(names):
            return ports
        port = LOWEST + secrets.randbelow(highest - LOWEST)
        if port not in ports.values() and is_free(port):
            ports[names[len(ports)]] = port
    raise SlurmError(f"no {len(names)} free TCP ports between {LOWEST} and {highest}")


def is_free(port: int) -> bool:
    """Whether a daemon could listen on this port now."""
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
        return True


def listens(address: int | Path) -> bool:
    """Whether somebody listens on a TCP port or unix socket; /proc says it, no daemon sees a probe."""
    if isinstance(address, Path):
        return any(
            len(words) == 8 and words[7] == str(address) and int(words[3], 16) & ACCEPTS_CONNECTIONS
            for words in _rows("/proc/net/unix")
        )
    return any(
        words[3] == LISTENING and int(words[1].rpartition(":")[2], 16) == address
        for table in ("/proc/net/tcp", "/proc/net/tcp6")
        for words in _rows(table)
    )


def _rows(table: str) -> list[list[str]]:
    try:
        return [line.split() for line in Path(table).read_text(errors="replace").splitlines()[1:]]
    except FileNotFoundError:
        return []
