"""Where the ranks meet: the address and the port of the first host."""

from __future__ import annotations

import socket
from contextlib import closing
from typing import TYPE_CHECKING

from slurmkit.errors import JobFailed, SlurmError
from slurmkit.launch.port import TRIED, candidates, hold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from slurmkit.slurm.protocol import Slurm


def choose_address(
    node: str, connect: Callable[[], Slurm], *, resolves: Callable[[str], bool] | None = None
) -> tuple[str, str | None]:
    """The address of a node for its peers, and what there is to say about it.

    Its name, where that resolves, as it does not depend on which of the host's interfaces is looked at; else
    the address by which Slurm itself reaches the node.
    """
    resolves = resolves or is_resolvable
    if resolves(node):
        return node, None
    try:
        address = next((found.address for found in connect().nodes([node])), node)
    except SlurmError as error:
        return node, f"{node} does not resolve, and Slurm does not tell its address: {error.what}"
    if address == node or not resolves(address):
        return node, f"{node} does not resolve, nor does its address in Slurm, {address}"
    return address, f"{node} does not resolve; Slurm reaches it as {address}"


def is_resolvable(name: str) -> bool:
    """Whether this host can turn a name (or an address) into an address."""
    try:
        return bool(socket.getaddrinfo(name, None))
    except (OSError, UnicodeError):
        return False


def own_address(peers: Iterable[str]) -> str:
    """The address by which the other nodes reach this host, the one that leads to them; alone: loopback.

    A host's own name is no answer: Debian has it resolve to 127.0.1.1 on the host itself.
    """
    for peer in peers:
        try:
            found = socket.getaddrinfo(peer, 9, type=socket.SOCK_DGRAM)
        except (OSError, UnicodeError):
            continue
        for family, kind, protocol, _, place in found:
            # Connecting a datagram socket sends nothing; it only chooses the interface.
            with closing(socket.socket(family, kind, protocol)) as probe:
                try:
                    probe.connect(place)
                except OSError:
                    continue
                return str(probe.getsockname()[0])
    return "127.0.0.1"


def claim_port(
    job_id: int, step: int, restart: int, ephemeral: tuple[int, int]
) -> tuple[int, AbstractContextManager[object]]:
    """The first candidate that is free on this host, and what keeps other runs off it until closed.

    Raises:
        JobFailed: none is free.
    """
    for port in candidates(job_id, step, restart, ephemeral):
        claim = hold(port)
        if claim is not None:
            return port, closing(claim)
    raise JobFailed(
        f"none of {TRIED} ports is free on this host",
        hint="set MASTER_PORT under [environment] variables, or look for what listens there: `ss -ltn`",
    )
