"""`run.json`: who submitted what, when, from where.

Written before sbatch is called; only a resume with another job file changes it.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from slurmkit.launch.files import write_atomically

if TYPE_CHECKING:
    from slurmkit.run.paths import RunPaths

FORMAT = 1


class RunRecord(NamedTuple):
    """What was known when the run was made. Paths are absolute."""

    id: str
    name: str
    created: datetime
    user: str
    host: str
    directory: str
    """Where the job starts: that of the job file, from which its relative paths count."""
    job_file: str | None = None
    template: str = "managed"
    array: str | None = None
    """As in sbatch's `--array`, e.g. `0-99%10`."""
    clusters: str | None = None
    """As in sbatch's `--clusters`."""
    output: str | None = None
    """The pattern of the batch log, where the job file names one."""
    python: str = ""
    """The Python that the job's agent runs in: every submit of the run has the same."""
    recovers: bool = False
    """Whether the run goes on after its job has ended: it has [checkpoint] or [retry], and an agent."""
    version: str = ""
    remote: str | None = None
    """The `[clusters.NAME]` of who submitted it from elsewhere; then `directory` and `python` are there."""
    seen_as: str | None = None
    """What the run directory is called there."""


def save(paths: RunPaths, record: RunRecord) -> None:
    """Write `run.json`."""
    fields = record._asdict() | {"format": FORMAT, "created": record.created.timestamp()}
    write_atomically(paths.run_json, json.dumps(fields, indent=1).encode("ascii") + b"\n")


def start_directory(paths: RunPaths, record: RunRecord) -> Path:
    """Where the job starts, as this machine names it; submitted elsewhere, the record has the other name.

    The run directory is known by both names; what they end in alike is the same folder.
    """
    directory = Path(record.directory)
    if record.seen_as is None:
        return directory
    here, there = paths.root.parts, Path(record.seen_as).parts
    alike = 0
    while alike < min(len(here), len(there)) and here[-alike - 1] == there[-alike - 1]:
        alike += 1
    above = Path(*there[: len(there) - alike])
    if not directory.is_relative_to(above):
        return directory
    return Path(*here[: len(here) - alike]) / directory.relative_to(above)


def load(paths: RunPaths) -> RunRecord | None:
    """Read `run.json`; None where there is none, as while a run is being made, or where it is damaged.

    Keys that this version does not know are passed over: a newer slurmkit may have written them.
    """
    try:
        fields: dict[str, Any] = json.loads(paths.run_json.read_bytes())
        known = {name: fields[name] for name in RunRecord._fields if name in fields}
        known["created"] = datetime.fromtimestamp(fields["created"], UTC)
        return RunRecord(**known)
    except (OSError, ValueError, TypeError, KeyError):
        return None
