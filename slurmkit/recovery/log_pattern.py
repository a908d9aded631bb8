"""Steps in the ranks' logs, for programs that tell of them in no other way: `[progress] pattern`.

Only new bytes are read, a bounded number at a time, and a line counts up to 4 KiB: no log, however long,
broken or binary, and no pattern, however costly, stops the agent.
"""

from __future__ import annotations

import re
import signal
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

LONGEST_LINE = 4096
AT_ONCE = 1 << 18
"""Bytes of a log that are read in one go; where more is new, only the last of it is looked at."""
FILES_AT_ONCE = 64
LOOK_AGAIN = 10.0
"""Seconds after which new logs are looked for."""
MATCHING = 0.5
"""Seconds of CPU time that matching may take in one go."""
STRIKES = 3
ENDS = re.compile(rb"[\r\n]+")
"""Progress bars end their lines with a carriage return."""


@dataclass(frozen=True, slots=True)
class LogStep:
    """A step that a rank's log tells of, and the other named groups that are numbers."""

    rank: int
    step: int
    metrics: dict[str, float]


class TooSlow(Exception):
    """Matching took too long."""


class Tail:
    """The new lines of one log."""

    def __init__(self, path: Path, offset: int) -> None:
        self.path = path
        self.offset = offset
        self._cut = b""

    def lines(self) -> list[str]:
        """Whole lines since the last call; none where the log cannot be read."""
        try:
            with self.path.open("rb", buffering=0) as log:
                size = log.seek(0, 2)
                if size < self.offset:  # emptied, or another file
                    self.offset, self._cut = 0, b""
                if size - self.offset > AT_ONCE:
                    self.offset, self._cut = size - AT_ONCE, b""
                log.seek(self.offset)
                data = log.read(size - self.offset)
        except OSError:
            return []
        self.offset += len(data)
        *lines, rest = ENDS.split(self._cut + data)
        self._cut = rest[:LONGEST_LINE]
        return [line[:LONGEST_LINE].decode("utf-8", "replace") for line in lines if line]


class LogPattern:
    """The pattern, and how far each rank's log in a folder has been read."""

    def __init__(self, pattern: str, logs: Path) -> None:
        self.pattern: re.Pattern[str] | None = re.compile(pattern)
        self._logs = logs
        self._tails: dict[int, Tail] = {}
        self._turn = 0
        self._next_look = 0.0
        self._strikes = 0
        # What is there already is of an earlier step.
        for rank, path in self._found():
            self._tails[rank] = Tail(path, path.stat().st_size)

    def read(self, now: float) -> list[LogStep]:
        """The last step that each log has told of since the last call.

        Raises:
            TooSlow: matching takes too long, again and again: the pattern is given up.
        """
        if self.pattern is None:
            return []
        if now >= self._next_look or not self._tails:
            self._next_look = now + LOOK_AGAIN
            for rank, path in self._found():
                self._tails.setdefault(rank, Tail(path, 0))
        found = []
        try:
            with bounded(MATCHING):
                for rank in self._due():
                    step = last_step(self.pattern, rank, self._tails[rank].lines())
                    if step is not None:
                        found.append(step)
        except TooSlow:
            self._strikes += 1
            if self._strikes >= STRIKES:
                self.pattern = None
                raise
        return found

    def look_again(self) -> None:
        """Have the next reading look for new logs."""
        self._next_look = 0.0

    def _found(self) -> Iterator[tuple[int, Path]]:
        for path in self._logs.glob("rank-*.out"):
            number = path.stem[5:]
            if number.isdigit():
                yield int(number), path

    def _due(self) -> list[int]:
        """Rank 0, which tells of the steps in most programs, and of the others some in turn."""
        ranks = sorted(self._tails)
        if len(ranks) <= FILES_AT_ONCE:
            return ranks
        start = self._turn % len(ranks)
        self._turn = start + FILES_AT_ONCE
        return list(dict.fromkeys([ranks[0], *(ranks + ranks)[start : start + FILES_AT_ONCE]]))


def last_step(pattern: re.Pattern[str], rank: int, lines: Iterable[str]) -> LogStep | None:
    """What the last line that tells of a step says."""
    found = None
    for line in lines:
        match = pattern.search(line)
        step = _step(match) if match else None
        if match and step is not None:
            named = match.groupdict()
            named.pop("step", None)
            numbers = {name: _number(text) for name, text in named.items()}
            metrics = {name: number for name, number in numbers.items() if number is not None}
            found = LogStep(rank, step, metrics)
    return found


def _step(match: re.Match[str]) -> int | None:
    if match.re.groups == 0:
        return None
    text = match["step"] if "step" in match.re.groupindex else match[1]
    number = _number(text)
    return int(number) if number is not None and abs(number) < 1 << 53 else None


def _number(text: str | None) -> float | None:
    """A number as programs print it: 1,200 or 1_200 or 3.0e-4."""
    try:
        return float((text or "").replace(",", ""))
    except ValueError:
        return None


@contextmanager
def bounded(seconds: float) -> Iterator[None]:
    """Let what is inside take so much CPU time of this process: Python's regular expressions heed signals.

    Raises:
        TooSlow: it took more.
    """

    def stop(*_: object) -> None:
        raise TooSlow

    # Signals for the agent wait meanwhile, and the alarm does not get among those that it attends to.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - {signal.SIGVTALRM})
    wakeup = signal.set_wakeup_fd(-1)
    before = signal.signal(signal.SIGVTALRM, stop)
    try:
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
            yield
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    finally:
        signal.signal(signal.SIGVTALRM, before)
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
