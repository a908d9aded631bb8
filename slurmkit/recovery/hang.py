"""When silence means that a step hangs. Pure.

Progress is a step, or the change of a phase, of any rank.
"""

from __future__ import annotations

STEPS = 20
LEAST = 300.0
WHILE_SAVING = 1800.0
"""Seconds of silence that are nothing unusual while a rank writes a checkpoint."""
STOPPED = 30.0
"""Between two looks there is a second. Where there are so many, the agent itself was stopped, and so was the
job: that time does not count."""


class HangWatch:
    """How long the ranks have been silent.

    `given` is the job file's hang_after, in seconds, which counts from the step's start; without it
    nothing is a hang before there was progress.
    """

    def __init__(self, now: float, given: float | None) -> None:
        self.last = now
        self.step_seconds: float | None = None
        self.is_saving = False
        self.all_ended = False
        self.has_begun = False
        """Whether a rank has been started: the silence before it is no rank's."""
        self._given = given
        self._seen = False
        self._looked = now

    def progress(self, now: float) -> None:
        """A rank has come on."""
        self.last = now
        self._seen = True

    def tick(self, now: float) -> tuple[float, float] | None:
        """Since when nothing has moved and how long that may last, where it has lasted longer."""
        gap = now - self._looked
        self._looked = now
        if gap > STOPPED or gap < 0:
            self.last += gap
        if not (self.has_begun or self._seen):
            self.last = now
        self.last = min(self.last, now)
        after = self.limit()
        return (self.last, after) if after is not None and now - self.last > after else None

    def limit(self) -> float | None:
        """How many seconds of silence are too many; None where there is no telling."""
        if self._given is not None:
            return self._given
        if not self._seen or self.step_seconds is None or self.all_ended:
            return None
        return max(STEPS * self.step_seconds, WHILE_SAVING if self.is_saving else LEAST)
