"""`slurmkit supervise`: carry on with runs whose jobs are gone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from slurmkit.cli.context import connect, find_runs, runs_argument, runs_index, system_clock
from slurmkit.cli.output import Answer, as_plain, output
from slurmkit.errors import UsageError

if TYPE_CHECKING:
    from slurmkit.recovery.supervise import Outcome
    from slurmkit.run.paths import RunPaths

SILENT = frozenset({"busy"})
"""Not worth a line in cron's mail."""


@click.command()
@runs_argument(required=False)
@click.option("--all", "every", is_flag=True, help="All runs of the list that `slurmkit runs` shows.")
@click.option("--once", is_flag=True, help="One round, as for cron.")
@click.option("--every", "pause", default="60s", show_default=True, metavar="TIME", help="Between rounds.")
@output
def command(runs: tuple[str, ...], *, every: bool, once: bool, pause: str) -> Answer | int:
    """Carry on with runs whose jobs are gone, or hang half-way through a requeue.

    A run that has [checkpoint] or [retry] is submitted again under its own id, or stopped with the reason, by
    the same rules as in the job itself. Runs that were cancelled, and jobs that are alive, are left alone.
    Tasks of an array are not submitted again. Safe in cron, and twice at once.

    Without --once it goes on until all runs have ended; with --all, until it is stopped.

    One line for each run that something was done about. Exit code 3 where a run could not be observed.
    --json gives for each: id, action (adopted, submitted, released, stopped, done, busy, left, unseen,
    failed), text, exit_code; without --once one object a line.
    """
    from slurmkit.run.index import all_runs
    from slurmkit.spec.units import parse_duration

    if bool(runs) == every:
        raise UsageError("either runs or --all is needed", hint="slurmkit supervise --once --all")
    try:
        seconds = max(float(parse_duration(pause)), 1.0)
    except ValueError as error:
        raise UsageError(f"--every: {error}") from error
    chosen = None if every else find_runs(runs)
    if once:
        outcomes, _ = _round(chosen if chosen is not None else all_runs(runs_index()))
        return Answer(
            data=[one._asdict() for one in outcomes],
            text="\n".join(_line(one) for one in outcomes if one.action not in SILENT),
            exit_code=max((one.exit_code for one in outcomes), default=0),
        )
    as_json = click.get_current_context().params["as_json"]
    said: set[Outcome] = set()
    while True:
        outcomes, all_over = _round(chosen if chosen is not None else all_runs(runs_index()))
        for one in outcomes:
            if one not in said and (as_json or one.action not in SILENT):
                click.echo(json.dumps(as_plain(one._asdict())) if as_json else _line(one))
        said = set(outcomes)
        if all_over and chosen is not None:
            return max((one.exit_code for one in outcomes), default=0)
        system_clock().sleep(seconds)


def _round(runs: list[RunPaths]) -> tuple[list[Outcome], bool]:
    """One round: what was done, and whether nothing is left to look after."""
    import random

    from slurmkit.recovery.supervise import supervise

    done = supervise(runs, connect, system_clock(), random.random)
    over = not done.outcomes and all(state.is_end and state.state != "blocked" for state in done.states)
    return list(done.outcomes), over


def _line(outcome: Outcome) -> str:
    return f"{outcome.id}: {outcome.action}: {outcome.text}"
