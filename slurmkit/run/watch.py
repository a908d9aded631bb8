"""Waiting for runs to end: their own events are looked at every second, Slurm much more seldom."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from slurmkit.errors import SlurmkitError
from slurmkit.run.state import Sight
from slurmkit.run.survey import ask, open_dossier, settle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from slurmkit.run.paths import RunPaths
    from slurmkit.run.state import RunState
    from slurmkit.run.survey import Connect, Dossier
    from slurmkit.slurm.clock import Clock

LOOK = 1.0
"""Seconds between two looks at the events of the runs."""

GROWTH = 1.5
"""How much longer Slurm is left alone after each answer that changed nothing."""


CAREFUL = 5.0
"""Seconds between two questions from which on it matters how long slurmctld remembers a job."""

FRESH = 0.95
"""The part of the interval within which another process's answer is as good as an own one."""


class Pace(NamedTuple):
    """How often Slurm is asked: the shortest and the longest interval, in seconds."""

    least: float = 2.0
    greatest: float = 60.0


class Watch:
    """Runs that are watched. `look` may be called at any pace; Slurm is asked at its own."""

    def __init__(
        self,
        runs: Sequence[RunPaths],
        connect: Connect,
        clock: Clock,
        pace: Callable[[], Pace] = Pace,
    ) -> None:
        """`connect` and `pace` are called only where Slurm has to be asked."""
        self._runs = runs
        self._connect = connect
        self._clock = clock
        self._read_pace = pace
        self._pace = Pace()
        self._pause = self._pace.least
        self._memory: float | None = None
        self._asked: float | None = None
        self._dossiers: list[Dossier] = []
        self._sights: dict[str, Sight] = {}

    @property
    def silent(self) -> str | None:
        """What of Slurm's did not answer when it was last asked, e.g. "slurmctld"."""
        sights = self._sights.values()
        names = ["slurmctld"] if any(not sight.queue for sight in sights) else []
        names += ["slurmdbd"] if any(sight.accounting is False for sight in sights) else []
        return " and ".join(names) or None

    def look(self) -> list[RunState]:
        """The states now. Slurm is asked where that is due, or where the events have changed."""
        dossiers = [open_dossier(paths) for paths in self._runs]
        if any(one.needs_slurm for one in dossiers) and self._is_due(dossiers):
            self._ask(dossiers)
        self._dossiers = dossiers
        sights = {
            one.paths.run_id: self._sights.get(one.paths.run_id, Sight())
            for one in dossiers
            if one.needs_slurm
        }
        return settle(dossiers, sights, self._clock.now())

    def _is_due(self, dossiers: Sequence[Dossier]) -> bool:
        if self._asked is None:
            self._pace = self._read_pace()
            self._pause = self._pace.least
            return True
        waited = self._clock.monotonic() - self._asked
        return waited >= (self._pause if dossiers == self._dossiers else self._pace.least)

    def _ask(self, dossiers: Sequence[Dossier]) -> None:
        # Answers that others got meanwhile will do, but not the one that this process got last time.
        answers = ask(dossiers, self._connect, self._clock.now(), self._pause * FRESH)
        # Of a run on which nothing was seen, the last that was seen stands.
        sights = {
            run_id: sight._replace(jobs=self._sights[run_id].jobs)
            if sight.is_blind and run_id in self._sights
            else sight
            for run_id, sight in answers.items()
        }
        quiet = self._as_before(sights)
        pause = min(self._pause * GROWTH, self._pace.greatest) if quiet else self._pace.least
        if pause > CAREFUL and self._memory is None:
            self._memory = memory(self._connect)
        self._pause = max(min(pause, self._memory or pause), self._pace.least)
        self._asked, self._sights = self._clock.monotonic(), sights

    def _as_before(self, sights: Mapping[str, Sight]) -> bool:
        """Whether these answers are the last ones, but for when they came."""
        before = {
            run_id: sight._replace(at=sights[run_id].at)
            for run_id, sight in self._sights.items()
            if run_id in sights
        }
        return sights == before

    def until_over(self) -> Iterator[list[RunState]]:
        """The states at each look, until all runs have ended. An outage of Slurm's is no end."""
        while True:
            states = self.look()
            yield states
            if all(state.is_end for state in states):
                return
            self._clock.sleep(LOOK)


def memory(connect: Connect) -> float | None:
    """Seconds within which an end must be looked at, lest nobody knows of it; None where Slurm does not tell.

    Half of MinJobAge where no accounting remembers what slurmctld has forgotten; infinite elsewhere.
    """
    try:
        config = connect(None).config()
    except SlurmkitError:
        return None
    age = config.get("MinJobAge", "").partition(" ")[0]
    if config.get("AccountingStorageType") != "accounting_storage/none" or not age.isdigit():
        return float("inf")
    return int(age) / 2
