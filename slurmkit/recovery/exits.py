"""The exit records that the ranks of a step left, and which of them failed first."""

from __future__ import annotations

import json
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

TOLD_TO_END = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})


@dataclass(frozen=True, slots=True, kw_only=True)
class RankExit:
    """How one rank ended. `ended` is its own host's clock, in seconds since 1970."""

    rank: int
    host: str
    exit_code: int | None = None
    signal: int | None = None
    ended: float = 0.0
    received: tuple[int, ...] = ()
    """Signals that it got before its end."""
    stderr_tail: tuple[str, ...] = ()
    port_taken: bool = False

    @property
    def has_failed(self) -> bool:
        """Whether it ended badly."""
        return self.signal is not None or self.exit_code != 0

    @property
    def is_echo(self) -> bool:
        """Whether it was told to end before it did: by Slurm, after another rank's failure or at a cancel."""
        return not TOLD_TO_END.isdisjoint(self.received)

    @property
    def status(self) -> int:
        """Its exit code as a shell reports it."""
        return 128 + self.signal if self.signal is not None else self.exit_code or 0


def read_exits(directory: Path) -> list[RankExit]:
    """The records in a step's directory, by rank; what is no record is passed over."""
    found = [_parse(path) for path in directory.glob("rank-*.json")]
    return sorted((one for one in found if one is not None), key=lambda one: one.rank)


def first_failure(exits: Iterable[RankExit]) -> RankExit | None:
    """The rank whose failure ended the step: the earliest of those that nobody had told to end.

    The others' ends are left out because clocks differ between hosts, and an echo may seem to come first.
    """
    failed = [one for one in exits if one.has_failed and not one.port_taken and not one.is_echo]
    return min(failed, key=lambda one: one.ended, default=None)


def _parse(path: Path) -> RankExit | None:
    try:
        fields: dict[str, Any] = json.loads(path.read_bytes())
        known = {name: fields[name] for name in RankExit.__dataclass_fields__ if name in fields}
        for name in ("received", "stderr_tail"):
            known[name] = tuple(fields.get(name) or ())
        return RankExit(**known)
    except (OSError, ValueError, TypeError, AttributeError):
        return None
