"""What the parent of a rank tells the agent while the step runs: one datagram at a start, one at an end.

Best effort: a notice that is lost costs the agent some seconds, and the exit record tells the same later.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing itself costs a rank milliseconds
    from collections.abc import Mapping


def send(kind: str, environ: Mapping[str, str], at: float, fields: Mapping[str, object] = {}) -> None:
    """Tell the agent at SLURMKIT_PROGRESS of a "rank-started" or "rank-ended"; never waits, never fails."""
    place, token = environ.get("SLURMKIT_PROGRESS", ""), environ.get("SLURMKIT_TOKEN", "")
    host, _, port = place.rpartition(":")
    if not (token and host and port.isdigit()):
        return
    host = host.strip("[]")
    try:
        import _socket  # `socket` itself costs 10 ms, for enum and selectors

        family = _socket.AF_INET6 if ":" in host else _socket.AF_INET
        _socket.inet_pton(family, host)  # a name would have to be looked up, which may take seconds
        channel = _socket.socket(family, _socket.SOCK_DGRAM)
    except (OSError, ImportError):
        return
    try:
        message = text(kind, environ, at, fields).encode("utf-8", "replace")
        channel.sendto(message, _socket.MSG_DONTWAIT, (host, int(port)))
    except (OSError, OverflowError):
        pass
    finally:
        channel.close()


def text(kind: str, environ: Mapping[str, str], at: float, fields: Mapping[str, object] = {}) -> str:
    """The notice as JSON, written by hand: importing json takes as long as starting the program.

    A name with a quote in it makes a notice that the agent drops; no host has one.
    """
    rank = environ.get("SLURM_PROCID", "")
    known = {
        "token": environ["SLURMKIT_TOKEN"],
        "kind": kind,
        "rank": int(rank) if rank.isdigit() else 0,
        "host": environ.get("SLURMD_NODENAME") or os.uname().nodename,
        "time": at,
        **fields,
    }
    return "{" + ", ".join(f'"{name}": {_value(value)}' for name, value in known.items()) + "}"


def _value(value: object) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    return str(value).lower() if isinstance(value, bool) else repr(value)
