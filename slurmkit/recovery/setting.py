"""What an attempt knows from its start to its end, and how its events are written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slurmkit.recovery import report
from slurmkit.run import events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from slurmkit.recovery.attempt import Attempt
    from slurmkit.run.paths import RunPaths
    from slurmkit.slurm.clock import Clock
    from slurmkit.slurm.protocol import Slurm
    from slurmkit.spec.model import JobSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What does not change during an attempt. `environ` is what the batch script handed over."""

    paths: RunPaths
    spec: JobSpec
    attempt: Attempt
    environ: Mapping[str, str]
    mask: Iterable[int]
    """The signals that were blocked before the agent blocked its own."""
    srun: str
    clock: Clock
    connect: Callable[[], Slurm]
    """Makes a client for the few questions that an agent has."""
    began: float
    """When the agent started, in seconds since 1970."""

    def note(self, kind: str, /, **fields: object) -> None:
        """Append an event, of this attempt unless it names another.

        A full disk does not end the job: it is said in the log.
        """
        told = {name: value for name, value in fields.items() if value is not None}
        try:
            events.append(self.paths, kind, at=self.clock.now(), **{"attempt": self.attempt.name, **told})
        except OSError as error:
            report.say(f"the event {kind} could not be written: {error}")
