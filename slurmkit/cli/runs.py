"""`slurmkit runs`: all runs, and deleting those long over."""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from slurmkit.cli.context import connect, runs_index, system_clock
from slurmkit.cli.output import Answer, cell, note, output
from slurmkit.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from slurmkit.run.paths import RunPaths
    from slurmkit.run.state import RunState

COLUMNS = ("id", "state", "submitted", "ended", "directory")
PRUNED_COLUMNS = ("id", "state", "ended", "deleted")
DEFAULT_AGE = "30d"


@click.command()
@click.option("--prune", is_flag=True, help="Delete the directories of runs that ended long ago.")
@click.option("--older-than", metavar="TIME", help=f"With --prune: how long ago.  [default: {DEFAULT_AGE}]")
@click.option("--yes", "-y", is_flag=True, help="With --prune: do not ask.")
@output
def command(prune: bool, older_than: str | None, yes: bool) -> Answer:
    """List all runs, or delete those long over.

    --prune deletes what slurmkit wrote: logs, scripts, events. Files of others in a run's directory stay,
    and so does every run that has not ended.

    --json gives what `status` gives; with --prune, for each run: id, state, ended, deleted.
    """
    from slurmkit.cli.status import row
    from slurmkit.run.index import all_runs
    from slurmkit.run.prune import prunable
    from slurmkit.run.survey import survey

    if not prune and (older_than or yes):
        raise UsageError("--older-than and --yes go with --prune")
    index = runs_index()
    runs = all_runs(index)
    clock = system_clock()
    states = survey(runs, connect, clock)
    if prune:
        old = prunable(runs, states, clock.now() - _age(older_than or DEFAULT_AGE))
        return _delete(index, old, asks=not yes)
    rows = [row(paths, state, clock.now()) for paths, state in zip(runs, states, strict=True)]
    return Answer(
        data=rows, columns=COLUMNS, empty="there is no run yet; `slurmkit submit job.toml` makes one"
    )


def _age(text: str) -> timedelta:
    from slurmkit.spec.units import parse_duration

    try:
        return timedelta(seconds=parse_duration(text))
    except ValueError as error:
        raise UsageError(f"--older-than: {error}", hint="30d, 12h, 1h30m") from None


def _delete(index: Path, old: list[tuple[RunPaths, RunState]], *, asks: bool) -> Answer:
    from slurmkit.run.prune import prune

    if old and asks:
        for paths, state in old:
            note(f"{state.id}  {state.state}  {cell(state.ended)}  {paths.root}")
        if not sys.stdin.isatty():
            raise UsageError("nobody is there to be asked", hint="--yes deletes without a question")
        click.confirm(f"Delete these {len(old)} runs?", abort=True, err=True)
    rows: list[dict[str, Any]] = []
    for paths, state in old:
        deleted = prune(index, paths)
        if not deleted:
            note(f"{paths.root} stays: it holds files that are not slurmkit's")
        rows.append({"id": state.id, "state": state.state, "ended": state.ended, "deleted": deleted})
    return Answer(data=rows, columns=PRUNED_COLUMNS, empty="no run is that old")
