"""`slurmkit status`: where runs stand, and why."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from slurmkit.cli.context import connect, find_runs, runs_argument, runs_index, system_clock
from slurmkit.cli.output import Answer, output

if TYPE_CHECKING:
    from datetime import datetime

    from slurmkit.run.paths import RunPaths
    from slurmkit.run.state import RunState

RECENT_HOURS = 24
COLUMNS = ("id", "state", "job_id", "submitted", "elapsed", "nodes", "reason")


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
    how many in which of Slurm's states), directory. What is not known is null.
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
    return Answer(
        data=rows,
        columns=COLUMNS,
        empty="no run goes on or ended within the last day; `slurmkit runs` lists all"
        if chosen
        else "there is no run yet; `slurmkit submit job.toml` makes one",
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
    }


def _elapsed(state: RunState, now: datetime) -> timedelta | None:
    if state.started is None:
        return None
    # Slurm's times are cut to the second, the agent's are not.
    return max((state.ended or now) - state.started, timedelta())
