"""What is done about the end of the job's time: the ranks are asked for a checkpoint, which is awaited."""

from __future__ import annotations

import contextlib
import signal
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.errors import SlurmkitError
from slurmkit.launch.files import write_atomically
from slurmkit.launch.request import number_of
from slurmkit.recovery import report, resuming, step
from slurmkit.recovery.limit import KILL_WAIT, end_of_job, kill_wait
from slurmkit.recovery.threads import start_aside
from slurmkit.slurm import process
from slurmkit.slurm.environment import strip
from slurmkit.spec.units import parse_duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from slurmkit.checkpoint.choice import Checkpoint
    from slurmkit.recovery.lookout import Look, Lookout
    from slurmkit.recovery.setting import Setting
    from slurmkit.recovery.watching import Watched

MARGIN = 15.0
"""Seconds, at most, that are kept back for ending the step and for the requeue."""
SEND_WITHIN = 20.0
LAST_LOOK = 2.0
"""Seconds that the next start may have to wait for a slow disk."""


class Asked(NamedTuple):
    """The ranks have been asked for a checkpoint: why, when by the clock of the files, and until when."""

    why: str
    at: float
    until: float


@dataclass(slots=True, kw_only=True)
class Saving:
    """The end of one step start's time. Driven by the agent's loop; it waits for nothing itself.

    `ends_by` is when Slurm ends the job, in seconds since 1970; `newest` the newest complete checkpoint.
    `ends_when_saved`: without a requeue to follow, the ranks have the rest of the time, as long as Slurm
    itself does not end them.
    """

    setting: Setting
    number: int
    nodes: Sequence[str]
    environ: Mapping[str, str]
    lookout: Lookout | None
    newest: Checkpoint | None
    ends_by: float | None
    ends_when_saved: bool = True
    asked: Asked | None = field(init=False, default=None)
    has_saved: bool = field(init=False, default=False)
    """Whether a new complete checkpoint has come since the ranks were asked."""
    is_over: bool = field(init=False, default=False)
    """Whether the step has been ended because its time is."""

    @property
    def signal_name(self) -> str | None:
        """The signal that asks for a checkpoint; None without [checkpoint]."""
        return self.setting.spec.checkpoint.signal if self.setting.spec.checkpoint else None

    @property
    def is_preempted(self) -> bool:
        """Whether Slurm told the ranks alone to end."""
        return self.asked is not None and self.asked.why == "preempted"

    @property
    def is_near_limit(self) -> bool:
        """Whether every rank was asked for a checkpoint as the time was nearly over."""
        return self.asked is not None and self.asked.why == "time-limit"

    @property
    def is_at_limit(self) -> bool:
        """Whether the step ended as its time was nearly over: by the agent, or with its checkpoint."""
        return self.is_near_limit and (self.is_over or self.has_saved)

    def takes(self, number: int) -> bool:
        """Whether a signal to the agent is for itself: Slurm's own warning that the time is nearly over."""
        if self.signal_name is None or number != number_of(self.signal_name) or self.ends_by is None:
            return False
        self._ask("time-limit", end_of_job(self.setting, ask=True) or self.ends_by)
        return True

    def tick(self, seen: Watched) -> bool:
        """Look whether it is time; whether the step has to end now."""
        now = self.setting.clock.now().timestamp()
        if self.lookout is not None and (found := self.lookout.tick()) is not None:
            self._take(found)
        if self.asked is None and self.signal_name is not None:
            self._consider(seen, now)
        if self.asked is None or self.is_over:
            return False
        has_use = self.ends_when_saved or self.asked.why == "told"
        self.is_over = (self.has_saved and has_use) or now >= self.asked.until
        return self.is_over

    def close(self) -> None:
        """Write down what the last look finds, which may have removed checkpoints."""
        if self.lookout is not None and (found := self.lookout.last(LAST_LOOK)) is not None:
            self._take(found)

    def _consider(self, seen: Watched, now: float) -> None:
        """Ask for a checkpoint where the time is nearly over, or Slurm has begun to end the step."""
        if signal.SIGTERM in seen.received:
            self._ask("told", now + kill_wait(self.setting))
        elif any(one.kind == "rank-told" for one in seen.notices) and not seen.has_failed:
            # The batch script hears of a preemption with GraceTime only at its end.
            self._ask("preempted", end_of_job(self.setting, ask=True))
        elif self.ends_by is not None and now >= self.ends_by - self._lead():
            later = end_of_job(self.setting, ask=True)
            self.ends_by = later if later is not None else self.ends_by
            if now >= self.ends_by - self._lead():
                self._ask("time-limit", self.ends_by)

    def _lead(self) -> float:
        wanted = self.setting.spec.checkpoint
        lead = float(parse_duration(wanted.lead_time)) if wanted else 0.0
        # Of a job that is shorter than that, half is for work.
        return min(lead, ((self.ends_by or 0.0) - self.setting.began) / 2)

    def _ask(self, why: str, ends_by: float | None, margin: float = MARGIN) -> None:
        """Write the request, signal the ranks, note it. Once is enough."""
        if self.asked is not None:
            return
        now = self.setting.clock.now().timestamp()
        left = max((ends_by if ends_by is not None else now + KILL_WAIT) - now, 0.0)
        file = self.setting.paths.request(self.setting.attempt.name, self.number)
        at = now
        # Without the file the signal still reaches those that catch it.
        with contextlib.suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(file, why.encode() + b"\n")
            at = file.stat().st_mtime
        self.asked = Asked(why, at, now + left - min(margin, left / 4))
        if self.lookout is not None:
            self.lookout.is_urgent = True
        self.setting.note("checkpoint-requested", step=self.number, why=why, seconds_left=round(left, 1))
        report.say(f"every rank is asked for a checkpoint ({why}, {left:.0f} s left)")
        start_aside(self._signal)

    def _signal(self) -> None:
        """Signal the ranks that catch it, on every node, by a step beside theirs."""
        argv = [*step.on_every_node(self.setting, "signal", self.nodes), self.signal_name or ""]
        ours = [name for name in self.environ if name.startswith("SLURMKIT_")]
        plain, _ = strip(self.environ, keep=("SLURM_JOB_ID", *ours))
        try:
            answer = process.run(argv, environment=plain, clock=self.setting.clock, timeout=SEND_WITHIN)
            process.check("srun", answer)
        except SlurmkitError as error:
            report.say(f"the ranks could not be signalled: {error.what}; those that poll see the request")

    def _take(self, found: Look) -> None:
        for path in found.removed:
            self.setting.note("checkpoint-removed", checkpoint=str(path))
        one = found.newest
        if one is None or resuming.is_same(one, self.newest):
            return
        self.newest = one
        resuming.note_complete(self.setting, self.number, one)
        saved = one.verdict.saved
        if self.asked is not None and (saved is None or saved >= self.asked.at):
            self.has_saved = True
