"""The event log of a run: what happened, in order, one JSON object a line, appended only.

Several processes write (submit, agent, status); each line is one write, so they never mix. A line that a
crash cut short is skipped, and so is one that is no event: a log must stay readable whatever befell it.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from slurmkit.launch.files import append_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slurmkit.run.paths import RunPaths

KINDS: Mapping[str, str] = {
    "submitting": "the intent: sbatch is about to be called",
    "submitted": "the receipt: Slurm gave a job id",
    "adopted": "a job of this run was found in Slurm, its receipt having been lost",
    "not-submitted": "Slurm surely has no job of this run, and why",
    "attempt-started": "Slurm started the batch script, and the agent in it",
    "nodes-checked": "the nodes were checked before the start: which are unfit, and why",
    "nodes-ordered": "the step's nodes are ordered as the network joins them",
    "checkpoint-chosen": "the checkpoint that the step starts from, and newer ones that were not good enough",
    "step-started": "the agent started the step",
    "straggler": "a rank or a node is slower than the others, and in which phase",
    "straggler-gone": "a rank or a node that was slow keeps up again",
    "hung": "no rank made progress for too long; where their stacks are",
    "checkpoint-requested": "every rank was asked to save, and why",
    "checkpoint-complete": "a new checkpoint was found complete",
    "checkpoint-removed": "an old checkpoint was removed, as `keep` says",
    "step-ended": "the step is over: its exit code, and the rank that failed first",
    "diagnosed": "why the step, or the job, ended: what was seen, and who is to blame",
    "decided": "what follows, and why",
    "requeueing": "the intent: Slurm is about to be asked to requeue the job",
    "requeued": "the receipt: Slurm has requeued the job",
    "attempt-ended": "the agent has nothing more to do in this attempt, and what comes next",
    "run-ended": "the agent found the run done or beyond help",
    "cancel-requested": "a user asked Slurm to cancel the job",
    "job-ended": "Slurm's own word that a job is over",
}
"""Every kind of event and what it says: `append` takes no other, `show` and the manual print these."""


class Event(NamedTuple):
    """One line of the log. `fields` is everything but the time and the kind."""

    time: datetime
    kind: str
    fields: Mapping[str, Any]

    def text(self, name: str) -> str | None:
        """A field as text, or None where the event has none of that name."""
        value = self.fields.get(name)
        return None if value is None else str(value)

    def number(self, name: str) -> int | None:
        """A field as a whole number, or None where it is absent or none."""
        value = self.fields.get(name)
        return int(value) if isinstance(value, int | float) else None


def append(paths: RunPaths, kind: str, /, *, at: datetime | None = None, **fields: object) -> None:
    """Append one event and force it to disk. Values that JSON lacks are written as text.

    Raises:
        ValueError: the kind is not in `KINDS`.
        OSError: the run directory cannot be written.
    """
    if kind not in KINDS:
        raise ValueError(f"no event kind {kind!r}; add it to slurmkit.run.events.KINDS")
    when = at if at is not None else datetime.now(UTC)
    line = json.dumps({"time": round(when.timestamp(), 6), "event": kind, **fields}, default=str)
    append_line(paths.events, line.encode("ascii") + b"\n")


def read(paths: RunPaths) -> list[Event]:
    """All events so far, oldest first; none where there is no log yet."""
    try:
        data = paths.events.read_bytes()
    except FileNotFoundError:
        return []
    return [event for event in map(_parse, data.split(b"\n")) if event is not None]


def _parse(line: bytes) -> Event | None:
    try:
        fields = json.loads(line)
        time, kind = fields.pop("time"), fields.pop("event")
        return Event(datetime.fromtimestamp(time, UTC), str(kind), fields)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, OSError):
        return None
