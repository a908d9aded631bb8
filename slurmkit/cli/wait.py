"""`slurmkit wait`: until runs have ended."""

from __future__ import annotations

import click

from slurmkit.cli.context import find_runs, runs_argument, system_clock, watch_runs
from slurmkit.cli.failure import say_failure
from slurmkit.cli.output import Answer, output
from slurmkit.cli.waiting import wait_for

COLUMNS = ("id", "state", "exit_code", "reason")


@click.command()
@runs_argument(required=True)
@output
def command(runs: tuple[str, ...]) -> Answer:
    """Wait until all of the runs have ended. Exit code 0 if all completed, else 1.

    Each change of state is said on stderr, and of a run that failed, which rank failed first and why. Slurm
    may go away and come back meanwhile. Ctrl-C ends the waiting, never a job. --json gives what `status`
    gives.
    """
    from slurmkit.cli.status import row

    chosen = find_runs(runs)
    states = wait_for(watch_runs(chosen), chosen)
    for paths, state in zip(chosen, states, strict=True):
        say_failure(paths, state)
    now = system_clock().now()
    return Answer(
        data=[row(paths, state, now) for paths, state in zip(chosen, states, strict=True)],
        columns=COLUMNS,
        exit_code=0 if all(state.is_success for state in states) else 1,
    )
