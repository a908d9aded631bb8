"""What the parent of a rank tells the agent while the step runs: a datagram at a start, an end, a SIGTERM.

Best effort: a notice that is lost costs the agent some seconds, and the exit record tells the same later.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing itself costs a rank milliseconds
    import _socket
    from collections.abc import Mapping


def send(kind: str, environ: Mapping[str, str], at: float, fields: Mapping[str, object] = {}) -> None:
    """Tell the agent of a "rank-started", "rank-ended" or "rank-told"; never waits, never fails."""
    opened = open_channel(environ.get("SLURMKIT_PROGRESS", "")) if environ.get("SLURMKIT_TOKEN") else None
    if opened is None:
        return
    channel, address = opened
    try:
        channel.sendto(text(kind, environ, at, fields).encode("utf-8", "replace"), address)
    except (OSError, OverflowError):
        pass  # the buffer is full, or nobody listens any more
    finally:
        channel.close()


def open_channel(place: str) -> tuple[_socket.socket, tuple[str, int]] | None:
    """A socket that never waits, and where to send with it; None where `HOST:PORT` is no place to send to.

    The host is an address: a name would have to be looked up, which may take seconds.
    """
    host, _, port = place.rpartition(":")
    host = host.strip("[]")
    if not (port.isascii() and port.isdigit()):
        return None
    try:
        import _socket  # `socket` itself costs 10 ms, for enum and selectors

        family = _socket.AF_INET6 if ":" in host else _socket.AF_INET
        _socket.inet_pton(family, host)
        return _socket.socket(family, _socket.SOCK_DGRAM | _socket.SOCK_NONBLOCK), (host, int(port))
    except (OSError, ImportError):
        return None


def text(kind: str, environ: Mapping[str, str], at: float, fields: Mapping[str, object] = {}) -> str:
    """The notice, as JSON."""
    from slurmkit.launch.plain_json import encode

    rank = environ.get("SLURM_PROCID", "")
    known = {
        "token": environ["SLURMKIT_TOKEN"],
        "kind": kind,
        "rank": int(rank) if rank.isdigit() else 0,
        "host": environ.get("SLURMD_NODENAME") or os.uname().nodename,
        "time": at,
        **fields,
    }
    return encode(known)
