"""A store that follows Slurm's accounting: what can have changed is asked for, a window of time at a time.

Each window is in the store before the next is asked for: whoever is interrupted goes on from there.
"""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from slurmkit.accounting.ledger import Ledger, connect
from slurmkit.accounting.manifest import TEMPORARY, Cluster, Manifest, load, sweep, writing
from slurmkit.accounting.merge import parquet
from slurmkit.accounting.store import add, noted
from slurmkit.accounting.windows import after, asked_until, first_window, joined, pause, smaller, span
from slurmkit.errors import Refused, SlurmError, UsageError
from slurmkit.slurm.dumping import Asked, Query, dump, known_fields
from slurmkit.slurm.rows import DELIMITER

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from datetime import datetime
    from pathlib import Path

    from slurmkit.accounting.windows import Span, Window
    from slurmkit.slurm.clock import Clock
    from slurmkit.slurm.protocol import Slurm

CHUNK = 1000
"""Attempts that are asked for by their ids at once."""

GONE = "accounting"
"""Under which the notes of a cluster say what slurmdbd has no more."""


class Accounting(NamedTuple):
    """How one cluster is asked."""

    cluster: str
    dump: Callable[[Query, Path], bool]
    """sacct's records into a file; False where it took too long. Raises `SlurmError`."""
    known: Callable[[], Collection[str] | None]
    """The ids of all jobs that slurmctld knows; None where it does not tell of all."""


class Synced(NamedTuple):
    """What a sync has done."""

    cluster: str
    windows: int
    since: datetime
    until: datetime
    seconds: float
    """That sacct took."""


def sync(
    store: Path,
    accounting: Accounting,
    *,
    clock: Clock,
    since: datetime | None = None,
    say: Callable[[Window, Span], None] | None = None,
) -> Synced:
    """Bring a store up to now, from `since` or where the last sync ended. `say` hears of each window first.

    Raises:
        UsageError: the store cannot be used.
        SlurmError: sacct failed; what was done before is kept.
    """
    with writing(store):
        manifest = load(store) or Manifest()
        sweep(store, manifest)
        before = manifest.clusters.get(accounting.cluster, Cluster())
        waiting = set(_open_numbers(store, before))
        whole = left = span(before.synced_since, before.synced_until, now=clock.now(), since=since)
        asking = _Asking(store, accounting, clock)
        windows = 0
        while window := first_window(left):
            if say is not None:
                say(window, left)
            took = asking.window(window, waiting, whole)
            if took is None:
                left = _divided(left, window)
                continue
            windows += 1
            left = after(left, window, took)
        asking.by_id(sorted(waiting), whole)
        asking.runaways()
    return Synced(accounting.cluster, windows, whole.since, whole.until, asking.seconds)


def accounting_of(cluster: str | None, slurm: Slurm, environ: Mapping[str, str], clock: Clock) -> Accounting:
    """How the cluster of this name is asked, or the one that this machine belongs to.

    Raises:
        SlurmkitError: Slurm cannot be asked for its name, or sacct not for its fields.
    """
    config = slurm.config()
    asked = Asked(known_fields(environ, clock), cluster)
    tells_of_all = "jobs" not in config.get("PrivateData", "").lower().split(",") or os.geteuid() == 0
    return Accounting(
        cluster=cluster or config["ClusterName"],
        dump=lambda query, target: dump(query, asked, target, environ=environ),
        known=lambda: {str(job.id) for job in slurm.jobs()} if tells_of_all else None,
    )


def _divided(left: Span, window: Window) -> Span:
    shorter = smaller(left, window)
    if shorter is None:
        raise SlurmError(
            "sacct does not answer in time, however little it is asked for",
            where=f"{window.since:%Y-%m-%d %H:%M} to {window.until:%H:%M} UTC",
        )
    return shorter


class _Asking:
    """One question at a time, and after each a pause as long as it took."""

    def __init__(self, store: Path, accounting: Accounting, clock: Clock) -> None:
        self.store = store
        self.accounting = accounting
        self.clock = clock
        self.seconds = 0.0
        self._pause = 0.0

    def window(self, window: Window, waiting: set[int], whole: Span) -> float | None:
        """Add the records of a window, and take out of `waiting` what it has; None where it was too much."""
        try:
            took = self._ask(Query(window.since, asked_until(whole, window)))
        except Refused:
            if smaller(whole, window) is None:
                raise
            return None
        if took is None:
            return None

        def done(cluster: Cluster) -> Cluster:
            since, until = joined(cluster.synced_since, cluster.synced_until, window)
            return structs.replace(cluster, synced_since=since, synced_until=until, as_of=until)

        waiting -= self._add(window.until, waiting, f"sync of {window.since:%Y-%m-%d}", done)
        return took

    def by_id(self, numbers: list[int], whole: Span) -> None:
        """Ask for attempts that were open and that no window had; note those that slurmdbd has no more."""
        kept = (load(self.store) or Manifest()).clusters.get(self.accounting.cluster, Cluster())
        if not numbers and GONE not in kept.notes:
            return
        gone = set(numbers)
        for begin in range(0, len(numbers), CHUNK):
            if self._ask(Query(ids=numbers[begin : begin + CHUNK])) is None:
                raise SlurmError("sacct does not answer in time", where=f"{CHUNK} jobs by their ids")
            gone -= self._add(whole.until, gone, "jobs asked for by their ids")
        lost = (f"{len(gone)} attempts that had not ended are gone from it; as last seen",) if gone else ()
        with closing(_nothing()) as empty:
            add(
                self.store,
                empty,
                cluster=self.accounting.cluster,
                horizon=whole.until,
                change=lambda cluster: noted(cluster, GONE, lost),
            )

    def runaways(self) -> None:
        """Mark what runs in accounting and what slurmctld, which is asked last, does not know."""
        kept = (load(self.store) or Manifest()).clusters.get(self.accounting.cluster, Cluster())
        paths = [self.store / file.path for file in kept.jobs if not file.part]
        running = "start_time IS NOT NULL AND NOT is_final"
        with closing(_nothing()) as marked:
            if not paths:
                return
            rows = f"FROM {parquet(paths)} WHERE {running}"
            if not marked.connection.execute(f"SELECT 1 {rows} LIMIT 1").fetchall():
                return
            known = self.accounting.known()
            if known is None:
                return
            marked.connection.execute(
                "INSERT INTO jobs SELECT * REPLACE (true AS is_runaway)"
                f" {rows} AND job_id NOT IN (SELECT unnest($known::VARCHAR[]))",
                {"known": sorted(known)},
            )
            add(self.store, marked, cluster=self.accounting.cluster, horizon=kept.synced_until)

    def _ask(self, query: Query) -> float | None:
        """Let sacct write into the store's own folder; the seconds that took, None where it was not all."""
        if self._pause:
            self.clock.sleep(self._pause)
        began = self.clock.monotonic()
        try:
            is_whole = self.accounting.dump(query, self._target)
        except OSError as error:
            raise UsageError(
                f"the records cannot be written: {error.strerror}", where=str(self._target)
            ) from error
        took = self.clock.monotonic() - began
        self.seconds += took
        self._pause = pause(took)
        return took if is_whole else None

    @property
    def _target(self) -> Path:
        return self.store / TEMPORARY / "sacct.txt"

    def _add(
        self,
        horizon: datetime,
        waiting: Collection[int],
        source: str,
        change: Callable[[Cluster], Cluster] | None = None,
    ) -> set[int]:
        """Add what sacct wrote; which of `waiting` were there."""
        from slurmkit.accounting.dump import open_dump

        with closing(open_dump(self._target, delimiter=DELIMITER)) as ledger:
            seen = add(
                self.store,
                ledger,
                cluster=self.accounting.cluster,
                horizon=horizon,
                source=source,
                change=change,
                sought=waiting,
            )
        self._target.unlink()
        return seen


def _open_numbers(store: Path, cluster: Cluster) -> list[int]:
    paths = [store / file.path for file in cluster.jobs if not file.part]
    if not paths:
        return []
    with closing(connect()) as connection:
        asked = f"SELECT DISTINCT job_number FROM {parquet(paths)} WHERE job_number IS NOT NULL"
        return [number for (number,) in connection.execute(asked).fetchall()]


def _nothing() -> Ledger:
    """A ledger without records."""
    from slurmkit.accounting.schema import JOBS, STEPS, definition

    connection = connect()
    for table, columns in (("jobs", JOBS), ("steps", STEPS)):
        connection.execute(f"CREATE TABLE {table} ({definition(columns)})")
    return Ledger(connection)
