"""`slurmkit nodes --suspects`: nodes on which runs failed again and again. Asks nothing of Slurm."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from slurmkit.cli.context import runs_index, system_clock
from slurmkit.cli.output import Answer, cell, output
from slurmkit.errors import UsageError

COLUMNS = ("node", "failures", "reasons", "runs", "last", "excluded")
LONGEST_REASON = 60


@click.command()
@click.option("--suspects", "wants_suspects", is_flag=True, help="Those that failed twice for one reason.")
@output
def command(*, wants_suspects: bool) -> Answer:
    """Show the nodes on which your runs failed at least twice for the same reason within the last day.

    A run leaves a node out of its next allocation where failures come back on that node and not elsewhere:
    `excluded` says where one has. [retry] exclude_bad_nodes = false turns that off.

    --json gives, for each node: node, failures, reasons, runs, last, excluded.
    """
    from slurmkit.run.suspects import of_all_runs

    if not wants_suspects:
        raise UsageError(
            "nothing was asked for", hint="slurmkit nodes --suspects; `slurmkit doctor` checks nodes"
        )
    found = of_all_runs(runs_index(), now=system_clock().now().timestamp())
    data = [
        {
            "node": one.node,
            "failures": one.times,
            "reasons": list(one.reasons),
            "runs": list(one.runs),
            "last": datetime.fromtimestamp(one.last, UTC),
            "excluded": one.is_excluded,
        }
        for one in found
    ]
    rows = [
        {
            **row,
            "reasons": "; ".join(reason[:LONGEST_REASON] for reason in one.reasons),
            "last": cell(row["last"]),
            "excluded": "yes" if one.is_excluded else "no",
        }
        for row, one in zip(data, found, strict=True)
    ]
    return Answer(data=data, columns=COLUMNS, rows=rows, empty="no node is suspect")
