"""`slurmkit accounting`: keep a copy of Slurm's job records, from which reports are made in seconds."""

from __future__ import annotations

import os
import sys
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slurmkit.cli.accounting_export import command as export
from slurmkit.cli.accounting_export import in_store
from slurmkit.cli.output import Answer, output
from slurmkit.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from slurmkit.accounting.manifest import Cluster
    from slurmkit.accounting.windows import Span, Window

COLUMNS = ("cluster", "jobs", "open", "steps", "first", "last", "size", "as_of")


@click.group()
def command() -> None:
    """Keep a copy of Slurm's job records, and hand on what they say.

    `slurmkit report` reads the copy: Slurm's own database is asked only for what is new.
    """


command.add_command(export)


@command.command()
@in_store
@click.option(
    "--since", metavar="TIME", help="From: 2026-11-01, 90d, 'last month'. The first sync takes 30d."
)
@click.option("--cluster", "-M", "clusters", metavar="LIST", help="These clusters; by default this one.")
@click.option(
    "--from-file",
    "dumps",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="DUMP",
    help="Take what somebody let sacct print, in place of asking Slurm.",
)
@output
def sync(*, folder: Path | None, since: str | None, clusters: str | None, dumps: tuple[Path, ...]) -> Answer:
    """Bring the copy up to now: ask for what can have changed, a day at a time, one question at a time.

    Interrupted at any moment, it loses nothing, and the next sync goes on from there. All users' records come
    where Slurm lets you see them. A dump is the text of `sacct --parsable2` with any fields and delimiter,
    gzip or zstd too, `sacct --json`, or what Open XDMoD reads; --cluster is for records that name none.

    --json gives, for each cluster: cluster, jobs, open, steps, first, last, size, as_of, since, until.
    """
    from slurmkit.accounting.store import default_store

    store = folder or default_store(os.environ)
    if dumps:
        if since:
            raise UsageError("--since asks Slurm, and --from-file does not")
        for dump in dumps:
            _take(store, dump, clusters)
    else:
        _ask(store, _moment(since), [name for name in (clusters or "").split(",") if name] or [None])
    return _answer(store)


@command.command()
@in_store
@output
def status(*, folder: Path | None) -> Answer:
    """Say what the copy holds: clusters, jobs, from when to when, how large it is, and what was amiss.

    --json gives: store, clusters (cluster, jobs, open, steps, first, last, size, as_of, since, until), notes.
    """
    from slurmkit.accounting.store import default_store, open_store

    store = folder or default_store(os.environ)
    answer = _answer(store)
    with closing(open_store(store)) as ledger:
        notes = ledger.notes
    data = {"store": str(store), "clusters": answer.data, "notes": list(notes)}
    return answer._replace(data=data, text="\n".join([str(store), *(f"note: {one}" for one in notes)]))


def _take(store: Path, dump: Path, cluster: str | None) -> None:
    from slurmkit.accounting.manifest import Manifest, load, sweep, writing
    from slurmkit.accounting.source import open_file
    from slurmkit.accounting.store import add

    with writing(store):
        sweep(store, load(store) or Manifest())
        with closing(open_file(dump)) as ledger:
            add(store, ledger, cluster=cluster, source=dump.name)


def _ask(store: Path, since: datetime | None, clusters: list[str] | list[None]) -> None:
    from slurmkit.accounting.sync import accounting_of, sync
    from slurmkit.cli.context import connect, system_clock

    for name in clusters:
        accounting = accounting_of(name, connect(name), os.environ, system_clock())
        with _progress(accounting.cluster) as say:
            sync(store, accounting, clock=system_clock(), since=since, say=say)


def _moment(text: str | None) -> datetime | None:
    from slurmkit.accounting.periods import local_zone, window

    return window(text, None, now=datetime.now(UTC), zone=local_zone())[0]


@contextmanager
def _progress(cluster: str) -> Iterator[Callable[[Window, Span], None] | None]:
    """A bar on stderr, where that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(cluster, total=None)
        begin: list[datetime] = []

        def say(window: Window, left: Span) -> None:
            begin[:] = begin or [left.since]
            whole, done = (moment - begin[0] for moment in (left.until, window.since))
            bar.update(
                task,
                total=whole.total_seconds(),
                completed=done.total_seconds(),
                description=f"{cluster} {window.since:%Y-%m-%d}",
            )

        yield say


def _answer(store: Path) -> Answer:
    from slurmkit.accounting.manifest import load

    manifest = load(store)
    if manifest is None:
        raise UsageError(
            "there is no store of job records", where=str(store), hint="slurmkit accounting sync makes one"
        )
    found = [_row(name, cluster) for name, cluster in sorted(manifest.clusters.items())]
    rows = [{**row, "size": f"{row['size'] / 2**20:.1f} MiB"} for row in found]
    return Answer(data=found, columns=COLUMNS, rows=rows, empty="the store is empty")


def _row(name: str, cluster: Cluster) -> dict[str, Any]:
    parts = sorted(file.part for file in cluster.jobs if file.part)
    return {
        "cluster": name,
        "jobs": sum(file.rows for file in cluster.jobs),
        "open": sum(file.rows for file in cluster.jobs if not file.part),
        "steps": sum(file.rows for file in cluster.steps),
        "first": parts[0] if parts else None,
        "last": parts[-1] if parts else None,
        "size": sum(file.size for file in cluster.jobs + cluster.steps),
        "as_of": cluster.as_of,
        "since": cluster.synced_since,
        "until": cluster.synced_until,
    }
