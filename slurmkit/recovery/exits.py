"""The exit records that the ranks of a step left, and which of them failed first."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from slurmkit.launch.parent import TOLD_TO_END
from slurmkit.launch.record import KEPT_BYTES, last_lines
from slurmkit.recovery.causes import recognise
from slurmkit.run.sentences import end_in_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from slurmkit.recovery.causes import Cause

ECHO_WITHIN = 5.0
"""Seconds in which an echo may overtake the failure that made it, while that one's program cleans up."""

NOTHING: Mapping[Any, float] = MappingProxyType({})


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
    log_tail: tuple[str, ...] = ()
    """The end of its log, where it wrote nothing to stderr."""
    port_taken: bool = False
    oom_killed: bool = False
    """Whether the kernel killed a process of its cgroup for want of memory."""
    at: float | None = None
    """When it ended by the batch host's clock, where that is known."""

    @property
    def has_failed(self) -> bool:
        """Whether it ended badly."""
        return self.signal is not None or self.exit_code != 0

    @property
    def was_told(self) -> bool:
        """Whether it was told to end before it did: by Slurm, after another rank's failure or at a cancel."""
        return not TOLD_TO_END.isdisjoint(self.received)

    @property
    def last_words(self) -> tuple[str, ...]:
        """The last that it said, wherever."""
        return self.stderr_tail or self.log_tail

    @property
    def status(self) -> int:
        """Its exit code as a shell reports it."""
        return 128 + self.signal if self.signal is not None else self.exit_code or 0


def read_exits(directory: Path) -> list[RankExit]:
    """The records in a step's directory, by rank; what is no record is passed over."""
    found = [_parse(path) for path in directory.glob("rank-*.json")]
    return sorted((one for one in found if one is not None), key=lambda one: one.rank)


def first_failure(
    exits: Iterable[RankExit],
    arrived: Mapping[int, float] = NOTHING,
    offsets: Mapping[str, float] = NOTHING,
) -> RankExit | None:
    """The rank whose failure ended the step, by the batch host's clock.

    `arrived` is when the notice of a rank's end came in; without one its own host's clock counts, less the
    host's offset. Ranks that were told to end are left out. Where what the first one says is often an echo,
    the first rank with a reason of its own that failed at about the same time is named instead.
    """
    failed = sorted(
        (
            replace(one, at=arrived.get(one.rank, one.ended - offsets.get(one.host, 0.0)))
            for one in exits
            if one.has_failed and not one.port_taken
        ),
        # Notices that were taken in together have one stamp.
        key=lambda one: (one.at, one.ended - offsets.get(one.host, 0.0), one.rank),
    )
    first = next((one for one in failed if not one.was_told), None)
    if first is None or first.at is None or not _is_echo(recognise(first)):
        return first
    near = (one for one in failed if abs((one.at or 0.0) - first.at) <= ECHO_WITHIN)
    return next((one for one in near if _has_reason(one)), first)


class Others(NamedTuple):
    """The ranks besides the one that failed first: how many were ended after it, and how many failed too."""

    ended: int
    failed: int


def others(exits: Iterable[RankExit], first: RankExit) -> Others:
    """Count the ranks that ended badly after the first failure."""
    rest = [one for one in exits if one.has_failed and one.rank != first.rank]
    told = sum(one.was_told for one in rest)
    return Others(ended=told, failed=len(rest) - told)


def in_words(end: RankExit) -> str:
    """How a rank ended: its exit code, or the signal by its name and meaning."""
    if end.oom_killed and end.status == 128 + signal.SIGKILL:
        return "killed by the kernel: out of memory"
    return end_in_words(end.exit_code, end.signal)


def with_log(end: RankExit, log: Path, since: int = 0) -> RankExit:
    """With the end of its log where it wrote nothing to stderr: some programs report errors to stdout.

    `since` is how many bytes of it are of earlier starts.
    """
    if end.stderr_tail:
        return end
    try:
        with log.open("rb") as file:
            file.seek(max(os.fstat(file.fileno()).st_size - KEPT_BYTES, since))
            return replace(end, log_tail=tuple(last_lines(file.read())))
    except OSError:
        return end


def _is_echo(cause: Cause | None) -> bool:
    return cause is not None and cause.is_echo


def _has_reason(one: RankExit) -> bool:
    """Whether it failed for a reason that no other rank gave it; one told to end has to say which."""
    cause = recognise(replace(one, signal=None, exit_code=1) if one.was_told else one)
    return not _is_echo(cause) and (cause is not None or not one.was_told)


def _parse(path: Path) -> RankExit | None:
    try:
        fields: dict[str, Any] = json.loads(path.read_bytes())
        known = {name: fields[name] for name in RankExit.__dataclass_fields__ if name in fields}
        for name in ("received", "stderr_tail"):
            known[name] = tuple(fields.get(name) or ())
        return RankExit(**known)
    except (OSError, ValueError, TypeError, AttributeError):
        return None
