"""Runs of slurmkit among the jobs of accounting, and what the time of their attempts went into."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from slurmkit.run import events
from slurmkit.run.identity import read_tag
from slurmkit.run.index import index_of
from slurmkit.run.paths import RunPaths
from slurmkit.run.reckoning import reckon_run
from slurmkit.run.state import RunState
from slurmkit.slurm.ids import JobId
from slurmkit.slurm.records import Job
from slurmkit.slurm.states import JobState
from slurmkit.slurm.tres import Tres

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from slurmkit.accounting.ledger import Ledger
    from slurmkit.run.events import Event
    from slurmkit.run.spans import Span

TAG = (
    "coalesce(nullif(regexp_extract(comment, 'slurmkit:([a-z0-9+-]+)', 1), ''), CASE WHEN"
    " contains(submit_line, '/job.sbatch') THEN"
    " nullif(regexp_extract(submit_line, '/([a-z0-9+-]+)/job\\.sbatch', 1), '') END)"
)
"""SQL over jobs: what marks the job of a run; its script bears it too, for sites that keep no comments."""

KINDS = ("productive", "checkpointing", "startup", "lost", "hung", "idle")
"""What GPU-hours of a run go into."""

_KIND = {"computing": "productive", "checkpointing": "checkpointing", "starting": "startup", "lost": "lost"}


class Attempt(NamedTuple):
    """An attempt as accounting has it. Times in epoch seconds."""

    job_id: str
    start: float
    until: float
    end: float | None
    gpus: int
    state: str


class KnownRun(NamedTuple):
    """A run whose agent's events can be read."""

    paths: RunPaths
    told: tuple[Event, ...]


def known_runs(ledger: Ledger, source: str, values: Mapping[str, Any]) -> dict[str, KnownRun]:
    """The runs of the jobs of `source`, a SELECT of jobs, by run id: those whose events can be read."""
    sql = (
        "SELECT tag, any_value(submit_line), any_value(work_dir)"
        f" FROM (SELECT *, {TAG} AS tag FROM ({source})) WHERE tag IS NOT NULL GROUP BY tag ORDER BY tag"
    )
    found: dict[str, KnownRun] = {}
    for tag, submit_line, work_dir in ledger.connection.execute(sql, dict(values)).fetchall():
        run_id, _ = read_tag(tag)
        if run_id in found:
            continue
        for root in _places(run_id, submit_line, work_dir):
            paths = RunPaths(root)
            told = _events(paths)
            if any(event.kind == "attempt-started" for event in told):
                found[run_id] = KnownRun(paths, told)
                break
    return found


def _places(run_id: str, submit_line: str | None, work_dir: str | None) -> Iterable[Path]:
    """Where a run may be: by its script, by the list of runs, where a submit makes it by default."""
    before, found, _ = (submit_line or "").rpartition(f"/{run_id}/")
    if found:  # blanks in it are not told from those between words
        starts = (place for place in range(len(before)) if f" {before}"[place : place + 2] == " /")
        yield from (Path(before[start:]) / run_id for start in starts)
    link = index_of(os.environ) / run_id
    if link.is_symlink():
        yield link.resolve()
    if work_dir:
        yield Path(work_dir) / "runs" / run_id


def _events(paths: RunPaths) -> tuple[Event, ...]:
    """A run's events; none where they cannot be read, as of another user's run."""
    try:
        return tuple(events.read(paths)) if paths.events.is_file() else ()
    except OSError:
        return ()


def spans_of(run: KnownRun, attempts: Sequence[Attempt]) -> list[Span]:
    """What the time of a run went into, as far as its events and its attempts tell."""
    last = max(attempts, key=lambda one: one.start)
    is_done = last.state == "COMPLETED" or any(
        event.kind == "run-ended" and event.text("outcome") == "completed" for event in run.told
    )
    # One that has not done its work is not "interrupted" here: its time ends with its last attempt.
    state = "running" if last.end is None else "completed" if is_done else "failed"
    now = datetime.fromtimestamp(last.until, UTC)
    reckoning = reckon_run(
        run.paths, run.told, [_job(one) for one in attempts], RunState(run.paths.run_id, state), now
    )
    return [span for each in reckoning.spans for span in each]


def _job(one: Attempt) -> Job:
    return Job(
        id=JobId.parse(one.job_id),
        name="",
        user="",
        state=JobState.parse(one.state),
        start_time=datetime.fromtimestamp(one.start, UTC),
        end_time=None if one.end is None else datetime.fromtimestamp(one.end, UTC),
        tres=Tres.of({"gres/gpu": one.gpus}),
    )


def split(held: int, begin: float, end: float, spans: Iterable[Span], *, job_id: str) -> dict[str, int]:
    """GPU-seconds that a job held between two times, by kind; they add up to `held`. Pure.

    What no span covers is `unknown`. Whole seconds by largest remainder.
    """
    covered = dict.fromkeys((*KINDS, "unknown"), 0.0)
    for span in spans:
        inside = min(span.end, end) - max(span.begin, begin)
        if inside > 0 and span.attempt is not None and span.attempt.rpartition("-")[0] == job_id:
            kind = _KIND.get(span.kind) or ("hung" if span.why == "hung" else "idle")
            covered[kind] += inside
    length = max(end - begin, sum(covered.values()))
    if length <= 0:
        return dict.fromkeys(covered, 0) | {"unknown": held}
    covered["unknown"] = length - sum(covered.values())
    shares = {kind: held * seconds / length for kind, seconds in covered.items()}
    whole = {kind: int(share) for kind, share in shares.items()}
    left = held - sum(whole.values())
    for kind in sorted(shares, key=lambda kind: whole[kind] - shares[kind])[:left]:
        whole[kind] += 1
    return whole
