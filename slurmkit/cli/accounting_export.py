"""`slurmkit accounting export`: figures of a cluster for Prometheus' node exporter."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slurmkit.cli.context import connect, system_clock
from slurmkit.cli.output import note
from slurmkit.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from slurmkit.accounting.prometheus import Family

READABLE = 0o644
"""node exporter runs as another user."""


def in_store(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the option that says where the store is."""
    return click.option(
        "--store",
        "folder",
        type=click.Path(path_type=Path, file_okay=False),
        help="Its folder; by default $XDG_DATA_HOME/slurmkit/accounting.",
    )(function)


@click.command("export")
@click.option(
    "--textfile",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    metavar="PATH",
    help="Write here; the name ends in .prom.",
)
@click.option(
    "--window", default="7d", show_default=True, metavar="D", help="How far back records are asked."
)
@in_store
def command(*, textfile: Path, window: str, folder: Path | None) -> None:
    """Write the state of the cluster where Prometheus' node exporter looks for it.

    Jobs and GPUs come from slurmctld and are as of now. How long jobs waited and how they ended come from the
    records that `slurmkit accounting sync` has stored, where there are some. The file is replaced as a whole.
    """
    from slurmkit.accounting import prometheus
    from slurmkit.launch.files import write_atomically

    if textfile.suffix != ".prom":
        raise UsageError(
            f"{textfile.name} would not be read", hint="node exporter takes only files that end in .prom"
        )
    slurm = connect()
    cluster = slurm.config().get("ClusterName", "")
    families = prometheus.live(cluster, slurm.partitions(), slurm.nodes(), slurm.jobs())
    text = prometheus.exposition([*families, *_of_records(folder, window)])
    narrowed = os.umask(0o777 & ~READABLE)
    try:
        write_atomically(textfile, text.encode(), READABLE)
    except OSError as error:
        raise UsageError(f"the file cannot be written: {error.strerror}", where=str(textfile)) from error
    finally:
        os.umask(narrowed)


def _of_records(folder: Path | None, window: str) -> list[Family]:
    """What the records say; nothing, and a note, where there is no store yet."""
    from contextlib import closing

    from slurmkit.accounting import periods, prometheus
    from slurmkit.accounting.question import question
    from slurmkit.accounting.store import open_store

    now, zone = system_clock().now(), periods.local_zone()
    since, until = periods.window(window, None, now=now, zone=zone)
    try:
        ledger = open_store(folder)
    except UsageError as error:
        if folder is not None:
            raise
        note(f"nothing of how jobs waited and ended: {error}")
        return []
    with closing(ledger):
        return prometheus.history(ledger, question(since=since, until=until or now, zone=zone))
