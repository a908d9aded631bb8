"""`slurmkit status`: where runs stand, and why."""

from __future__ import annotations

import sys
from datetime import timedelta
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

import click

from slurmkit.cli.context import connect, find_runs, runs_argument, runs_index, system_clock
from slurmkit.cli.output import Answer, cell, output

if TYPE_CHECKING:
    from datetime import datetime

    from slurmkit.run.paths import RunPaths
    from slurmkit.run.state import RunState

RECENT_HOURS = 24
COLUMNS = ("id", "state", "job_id", "submitted", "elapsed", "nodes", "reason")
COLUMNS_OF_PROGRESS = ("id", "state", "job_id", "elapsed", "step", "speed", "time_left", "reason")
"""Where any of the runs has told how far it is."""

NARROW_COLUMNS = ("id", "state", "job_id", "step", "speed", "time_left")
"""The same where there is no room; the reasons stand beneath."""

WIDE = 110
"""Columns of a terminal from which on there is room."""


@click.command()
@runs_argument(required=False)
@click.option("--all", "every", is_flag=True, help="Also runs that ended more than a day ago.")
@output
def command(runs: tuple[str, ...], every: bool) -> Answer:
    """Show where runs stand, and why.

    Without RUN: all that go on, and those that ended within the last day. However many they are, Slurm is
    asked once.

    --json gives for each run: id, name, state, reason, job_id, cluster, job_state (Slurm's word), exit_code,
    submitted, started, ended (ISO 8601 with offset), elapsed (seconds), nodes, attempts, tasks (of an array:
    how many in which of Slurm's states), directory; and where its ranks tell of their progress: step (that
    of the slowest rank), total, steps_per_second, seconds_left, straggler (a sentence). What is not known is
    null.
    """
    from slurmkit.run.index import all_runs
    from slurmkit.run.survey import survey

    chosen = find_runs(runs) if runs else all_runs(runs_index())
    clock = system_clock()
    now = clock.now()
    rows = [
        row(paths, state, now)
        for paths, state in zip(chosen, survey(chosen, connect, clock), strict=True)
        if runs or every or is_recent(state, now)
    ]
    return _answer(
        rows,
        empty="no run goes on or ended within the last day; `slurmkit runs` lists all"
        if chosen
        else "there is no run yet; `slurmkit submit job.toml` makes one",
        is_wide=not sys.stdout.isatty() or get_terminal_size().columns >= WIDE,
    )


def _answer(rows: list[dict[str, Any]], *, empty: str, is_wide: bool) -> Answer:
    """The table; on a terminal of 80 columns with as many of its columns as can be read there."""
    if all(row["step"] is None for row in rows):
        return Answer(rows, COLUMNS, empty=empty)
    beneath = ("straggler",) if is_wide else ("reason", "straggler")
    notes = [f"{row['id']}: {cell(row[name])}" for row in rows for name in beneath if row[name]]
    return Answer(
        rows,
        COLUMNS_OF_PROGRESS if is_wide else NARROW_COLUMNS,
        rows=list(map(_table_row, rows)),
        text="\n".join(notes),
    )


def is_recent(state: RunState, now: datetime) -> bool:
    """Whether a run goes on, or ended not long ago."""
    last = state.ended or state.started or state.submitted
    return not state.is_end or last is None or (now - last).total_seconds() < RECENT_HOURS * 3600


def row(paths: RunPaths, state: RunState, now: datetime) -> dict[str, Any]:
    """One run as `--json` prints it. `elapsed` is from start to end, or to now."""
    return {
        "id": state.id,
        "name": state.name,
        "state": state.state,
        "reason": state.reason,
        "job_id": state.job_id,
        "cluster": state.cluster,
        "job_state": state.job_state,
        "exit_code": state.exit_code,
        "submitted": state.submitted,
        "started": state.started,
        "ended": state.ended,
        "elapsed": _elapsed(state, now),
        "nodes": state.nodes,
        "attempts": state.attempts,
        "tasks": dict(state.tasks),
        "directory": str(paths.root),
        **_progress(paths, state, now),
    }


def _progress(paths: RunPaths, state: RunState, now: datetime) -> dict[str, Any]:
    """How far the run is, and who holds it up."""
    unknown = dict.fromkeys(("step", "total", "steps_per_second", "seconds_left", "straggler"))
    if state.attempt is None:
        return unknown
    from slurmkit.run.progress import read_current
    from slurmkit.run.sentences import straggler

    progress = read_current(paths, state, now)
    if progress is None:
        return unknown
    slow = progress.stragglers
    more = f"; {len(slow) - 1} more" if len(slow) > 1 else ""
    return {
        "step": progress.step,
        "total": progress.total,
        "steps_per_second": progress.steps_per_second,
        "seconds_left": progress.seconds_left,
        "straggler": straggler(slow[0]) + more if slow else None,
    }


def _table_row(row: dict[str, Any]) -> dict[str, object]:
    """A row as the table shows it."""
    from slurmkit.run.sentences import duration, speed

    step, total, rate, left = (row[name] for name in ("step", "total", "steps_per_second", "seconds_left"))
    return row | {
        "step": step if step is None or total is None else f"{step}/{total}",
        "speed": None if rate is None else speed(rate).replace(" steps", ""),
        "time_left": None if left is None else duration(left),
    }


def _elapsed(state: RunState, now: datetime) -> timedelta | None:
    if state.started is None:
        return None
    # Slurm's times are cut to the second, the agent's are not.
    return max((state.ended or now) - state.started, timedelta())
