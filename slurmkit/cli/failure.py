"""The failure of a run as it is printed: by `show`, and by every command that waited for the end."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from slurmkit.cli.output import cell, note

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slurmkit.run.findings import Findings
    from slurmkit.run.paths import RunPaths
    from slurmkit.run.state import RunState


def say_failure(paths: RunPaths, state: RunState) -> None:
    """Say on stderr what was found out about a run that did not end well."""
    if state.is_success:
        return
    from slurmkit.run.events import read
    from slurmkit.run.findings import findings

    for line in failure_lines(paths, state.attempt, findings(read(paths), state.attempt)):
        note(line)


def failure_lines(paths: RunPaths, attempt: str | None, found: Findings) -> Iterator[str]:
    """Unfit nodes, a hang and stragglers; then the rank that failed first: how, when, why, its last words."""
    from slurmkit.run import sentences

    yield from map(cell, found.sentences())
    failure = found.first_failure
    if failure is None:
        return
    at = failure.get("at")
    when = f", at {cell(datetime.fromtimestamp(at, UTC))}" if isinstance(at, int | float) else ""
    yield cell(sentences.failure(failure)) + when
    cause = failure.get("cause")
    if isinstance(cause, dict):
        for label, name in (("why", "sentence"), ("try", "advice")):
            if cause.get(name):
                yield f"  {label}: {cell(cause[name])}"
    if found.ranks_failed:
        yield f"  {sentences.others(found.ranks_failed)} after it"
    words, log_tail = failure.get("stderr_tail"), failure.get("log_tail")
    yield (
        "  the end of its log; there is nothing on stderr:"
        if log_tail and not words
        else "  the end of its stderr:"
    )
    yield from (f"    {cell(line)}" for line in words or log_tail or ["(nothing)"])
    rank = failure.get("rank")
    if attempt and isinstance(rank, int) and (log := paths.rank_log(attempt, rank)).exists():
        yield f"  its whole log: {log}"
