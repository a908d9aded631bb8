"""The store: job records as Parquet files, which grow without ever being half written.

Layout: `manifest.json`; `jobs/` and `steps/`, in each `cluster=NAME/`, in that `day=2026-11-30/` by the UTC
day on which the attempts ended, `month=2026-09/` for months long past, and `open/` for what has not ended.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from slurmkit.accounting.ledger import Ledger, connect, notes_on, quoted
from slurmkit.accounting.manifest import NAME, TEMPORARY, Cluster, Manifest, hold, load, replaced, save
from slurmkit.accounting.merge import COLUMNS, Place, merge, parquet, stage
from slurmkit.accounting.schema import JOBS, STEPS, definition
from slurmkit.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from datetime import datetime

    from duckdb import DuckDBPyConnection

    from slurmkit.accounting.manifest import Kind


def default_store(environ: Mapping[str, str]) -> Path:
    """The folder of a user's store: `$XDG_DATA_HOME/slurmkit/accounting`."""
    data = environ.get("XDG_DATA_HOME", "")
    # The specification says that a relative path there is to be ignored.
    base = Path(data) if data.startswith("/") else Path(environ.get("HOME") or Path.home()) / ".local/share"
    return base / "slurmkit" / "accounting"


def is_store(path: Path) -> bool:
    """Whether a folder is a store."""
    return (path / NAME).is_file()


def open_store(path: Path | None = None) -> Ledger:
    """The records of a store, the user's own by default; later additions do not change what is read here.

    Raises:
        UsageError: there is none, or it cannot be read.
    """
    store = path or default_store(os.environ)
    with ExitStack() as held:
        if (readers := hold(store)) is not None:
            held.enter_context(readers)
        manifest = load(store)
        if manifest is None:
            raise UsageError(
                "there is no store of job records",
                where=str(store),
                hint="slurmkit accounting sync makes one",
            )
        connection = connect()
        held.callback(connection.close)
        for kind in ("jobs", "steps"):
            _show(connection, store, manifest, kind)
        known = [cluster.as_of for cluster in manifest.clusters.values() if cluster.as_of]
        notes = tuple(_notes(connection, store, manifest))
        kept = held.pop_all()
    return Ledger(connection, min(known, default=None), notes, kept)


def add(
    store: Path,
    ledger: Ledger,
    *,
    cluster: str | None = None,
    horizon: datetime | None = None,
    source: str | None = None,
    change: Callable[[Cluster], Cluster] | None = None,
    sought: Collection[int] = (),
) -> set[int]:
    """Add records to a store; those that are there already are replaced. Only inside of `manifest.writing`.

    `cluster` names the one whose records do not name it. Attempts that ended at `horizon` or later are kept
    apart, as if they were open: the records from then on are not complete. The notes of the ledger are kept
    under `source`, in the place of those that it left before. `change` is made to what the manifest says of
    each cluster that is added to, and of `cluster`, in the same moment as the records. What comes back are
    those numbers of `sought` that were among the jobs.

    Raises:
        UsageError: the records could not be read or written; the store is as it was.
    """
    import duckdb

    manifest = load(store) or Manifest()
    try:
        with tempfile.TemporaryDirectory(dir=store / TEMPORARY) as folder:
            names = stage(ledger.connection, Path(folder), cluster)
            seen = _sought(ledger.connection, Path(folder), sought)
            changed = _merged(store, manifest, Path(folder), names, horizon)
        changed = {
            name: structs.replace(one, as_of=_later(one.as_of, ledger.as_of)) for name, one in changed.items()
        }
        if change is not None:
            if cluster is not None:
                changed.setdefault(cluster, manifest.clusters.get(cluster, Cluster()))
            changed = {name: change(one) for name, one in changed.items()}
        if source is not None:
            changed = {name: noted(one, source, ledger.notes) for name, one in changed.items()}
        save(store, replaced(manifest, changed))
    except (duckdb.Error, OSError) as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error).splitlines()[0]
        raise UsageError(
            f"the records could not be added, and the store is as it was: {said}", where=str(store)
        ) from error
    return seen


def _sought(connection: DuckDBPyConnection, staged: Path, sought: Collection[int]) -> set[int]:
    found = connection.execute(
        f"SELECT DISTINCT job_number FROM {parquet([staged / 'jobs.parquet'])}"
        " WHERE job_number IN (SELECT unnest($sought::BIGINT[]))",
        {"sought": list(sought)},
    )
    return {number for (number,) in found.fetchall()}


def _merged(
    store: Path, manifest: Manifest, folder: Path, names: Sequence[str], horizon: datetime | None
) -> dict[str, Cluster]:
    """The clusters of these names with the staged records, whose files are written."""
    changed = {}
    with closing(connect()) as connection:
        connection.execute(f"SET temp_directory = {quoted(folder / 'spilled')}")
        connection.execute("SET preserve_insertion_order = false")
        for name in names:
            old = manifest.clusters.get(name, Cluster())
            jobs, steps = merge(connection, folder, Place(store, name, manifest.generation + 1), old, horizon)
            newest = connection.execute("SELECT max(until_time) FROM incoming").fetchall()[0][0]
            changed[name] = structs.replace(old, jobs=jobs, steps=steps, as_of=_later(old.as_of, newest))
    return changed


def noted(cluster: Cluster, source: str, notes: Sequence[str]) -> Cluster:
    """A cluster whose notes of one source are these."""
    others = {name: said for name, said in cluster.notes.items() if name != source}
    return structs.replace(cluster, notes=others | ({source: tuple(notes)} if notes else {}))


def _later(*moments: datetime | None) -> datetime | None:
    return max((moment for moment in moments if moment), default=None)


def _show(connection: DuckDBPyConnection, store: Path, manifest: Manifest, kind: Kind) -> None:
    """Make the view of a table, or the table itself where there is no file."""
    paths = [store / file.path for cluster in manifest.clusters.values() for file in cluster.files(kind)]
    if paths:
        connection.execute(f"CREATE VIEW {kind} AS SELECT {COLUMNS[kind]} FROM {parquet(paths)}")
    else:
        connection.execute(f"CREATE TABLE {kind} ({definition(JOBS if kind == 'jobs' else STEPS)})")


def _notes(connection: DuckDBPyConnection, store: Path, manifest: Manifest) -> Iterator[str]:
    """What a reader has to know: runaways, fields and lines that could not be read."""
    clusters = manifest.clusters.values()
    waiting = [store / file.path for cluster in clusters for file in cluster.jobs if not file.part]
    runaways = 0
    if waiting:
        counted = f"SELECT count(*) FROM {parquet(waiting)} WHERE is_runaway"
        runaways = connection.execute(counted).fetchall()[0][0]
    yield from notes_on(runaways, sum(file.problems for cluster in clusters for file in cluster.jobs))
    for cluster in clusters:
        for source, notes in sorted(cluster.notes.items()):
            yield from (f"{source}: {note}" for note in notes)
