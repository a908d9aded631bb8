"""What the ranks of a running step tell the agent, by datagrams."""

from __future__ import annotations

import hmac
import json
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from slurmkit.spec.model import Progress


class RankNotice(NamedTuple):
    """What a rank's parent said of its start or end. `arrived` is this host's clock, `time` the rank's."""

    kind: str
    rank: int
    host: str
    time: float
    arrived: float
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Straggler:
    """A rank, or all ranks of a host, slower than the others."""

    rank: int | None
    host: str
    phase: str
    own: float
    median: float
    since: float
    ranks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StragglerGone:
    """A straggler that keeps up again."""

    rank: int | None
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hung:
    """No rank has made progress for too long."""

    since: float
    step: int | None
    after: float


Finding = Straggler | StragglerGone | Hung


@dataclass(slots=True, kw_only=True)
class Monitor:
    """The ranks of one step start, as far as they tell. Driven by the agent's loop; it never blocks."""

    token: str
    progress: Progress | None
    logs: Path
    written_to: Path
    attempt: str
    step: int
    world_size: int | None
    now: float
    interval: float = 5.0
    _socket: socket.socket = field(init=False)

    def __post_init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.bind(("", 0))

    def fileno(self) -> int:
        """What becomes readable when a rank has told something."""
        return self._socket.fileno()

    @property
    def port(self) -> int:
        """Where the ranks send to."""
        return int(self._socket.getsockname()[1])

    def receive(self, now: float) -> list[RankNotice]:
        """Take all that has arrived; returns what the ranks' parents said."""
        notices: list[RankNotice] = []
        while True:
            try:
                data = self._socket.recv(2048)
            except BlockingIOError:
                return notices
            notice = self._notice(data, now)
            if notice:
                notices.append(notice)

    def tick(self, now: float) -> list[Finding]:  # noqa: ARG002
        """What is to be said now; called about once a second."""
        return []

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()

    def _notice(self, data: bytes, now: float) -> RankNotice | None:
        try:
            fields = json.loads(data)
            if not hmac.compare_digest(str(fields.pop("token")), self.token):
                return None
            kind = fields.pop("kind")
            if kind not in {"rank-started", "rank-ended"}:
                return None
            return RankNotice(
                kind, int(fields.pop("rank")), str(fields.pop("host")), float(fields.pop("time")), now, fields
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            return None
