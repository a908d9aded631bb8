"""Looking out for new complete checkpoints while the step runs, in a thread: a slow disk delays nothing."""

from __future__ import annotations

from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.errors import SlurmkitError
from slurmkit.recovery import report
from slurmkit.recovery.threads import start_aside

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable
    from pathlib import Path

    from slurmkit.checkpoint.choice import Checkpoint
    from slurmkit.slurm.clock import Clock

LEAST, GREATEST = 2.0, 60.0
PATIENCE = 20.0
"""A look takes no more than one part in so many of the time."""
WHEN_ASKED = 0.5
"""Seconds between two looks while a checkpoint is awaited."""


class Look(NamedTuple):
    """What one look found: the newest complete checkpoint, and old ones that were removed."""

    newest: Checkpoint | None
    removed: tuple[Path, ...] = ()


class Lookout:
    """Calls `look` now and then in a thread of its own. `tick` never waits: it returns what has come."""

    def __init__(self, look: Callable[[], Look], clock: Clock) -> None:
        self._look = look
        self._clock = clock
        self._found: SimpleQueue[Look] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._due = clock.monotonic() + LEAST
        self._pause = LEAST
        self._told: str | None = None
        self.is_urgent = False

    def tick(self) -> Look | None:
        """The result of a look that has ended since the last call, if any; starts the next one when due."""
        now = self._clock.monotonic()
        found = None
        try:
            found = self._found.get_nowait()
        except Empty:
            pass
        else:
            self._thread = None
            self._due = now + self._pause
        is_due = now >= self._due or (self.is_urgent and now >= self._due - self._pause + WHEN_ASKED)
        if self._thread is None and is_due:
            # A file system that hangs does not hold the agent at its end.
            self._thread = start_aside(self._run)
        return found

    def last(self, within: float) -> Look | None:
        """The result of the look that is under way, if it ends within so many seconds."""
        if self._thread is None:
            return None
        self._thread.join(within)
        try:
            return self._found.get_nowait()
        except Empty:
            return None

    def _run(self) -> None:
        began = self._clock.monotonic()
        found = Look(None)
        try:
            found = self._look()
            self._told = None
        except (OSError, SlurmkitError) as error:
            self._tell((error.what if isinstance(error, SlurmkitError) else error.strerror) or repr(error))
        finally:
            # After a look that failed, too, there is another one.
            self._pause = min(max(LEAST, PATIENCE * (self._clock.monotonic() - began)), GREATEST)
            self._found.put(found)

    def _tell(self, why: str) -> None:
        if why != self._told:
            report.say(f"the checkpoints could not be looked at: {why}")
        self._told = why
