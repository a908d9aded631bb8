"""`slurmkit cancel`: end the jobs of runs."""

from __future__ import annotations

import click

from slurmkit.cli.context import connect, find_runs, runs_argument, system_clock
from slurmkit.cli.output import Answer, output

COLUMNS = ("id", "job_id", "cancelled", "state")


@click.command()
@runs_argument(required=True)
@output
def command(runs: tuple[str, ...]) -> Answer:
    """Cancel the jobs of runs. Runs that have ended stay as they are.

    --json gives for each run: id, job_id, cancelled, state (before).
    """
    from slurmkit.run.cancel import cancel

    rows = [
        {"id": state.id, "job_id": state.job_id, "cancelled": cancelled, "state": state.state}
        for state, cancelled in cancel(find_runs(runs), connect, system_clock())
    ]
    return Answer(data=rows, columns=COLUMNS)
