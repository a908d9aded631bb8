"""New records joined with those of a store: each attempt once, in the file of the day on which it ended.

The days of months long past are one file: a thousand small files take longer to open than to read. Attempts
that have not ended stand in a file that every addition writes anew, and so do those that ended later than
the records are complete. Nothing here changes a file: others are written.
"""

from __future__ import annotations

import os
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.accounting.ledger import quoted
from slurmkit.accounting.manifest import Cluster, File, Kind, folder_of
from slurmkit.accounting.schema import JOBS, STEPS
from slurmkit.launch.files import sync_directory

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from datetime import datetime

    from duckdb import DuckDBPyConnection

BATCH = 300_000
"""Rows that are taken into memory at once, a day or month at least."""

MONTH = 1_000_000
"""Attempts of a month up to which it becomes one file, once another month has passed."""

ENDED = "coalesce(end_time, until_time, start_time, submit_time, TIMESTAMPTZ 'epoch')"
"""When an attempt ended, also where a dump has no End."""

SAME_ATTEMPT = (
    "{a}.job_number IS NOT DISTINCT FROM {b}.job_number"
    " AND {a}.submit_time IS NOT DISTINCT FROM {b}.submit_time"
    " AND {a}.start_time IS NOT DISTINCT FROM {b}.start_time"
)
ITS_STEP = (
    "{s}.job_number IS NOT DISTINCT FROM {j}.job_number"
    " AND {s}.job_submit_time IS NOT DISTINCT FROM {j}.submit_time"
    " AND {s}.job_start_time IS NOT DISTINCT FROM {j}.start_time"
)
ENDED_SINCE = (
    "e.job_number = o.job_number AND e.submit_time IS NOT DISTINCT FROM o.submit_time"
    " AND (o.start_time IS NULL OR e.start_time >= o.start_time)"
)
"""That the open attempt `o` is known by now as the ended one `e`: what waited has a start since."""

NEWEST = "until_time DESC NULLS LAST, is_new DESC"
ONE_OF_EACH = (
    "QUALIFY row_number() OVER (PARTITION BY job_number, job_submit_time, job_start_time, step"
    " ORDER BY is_new DESC, end_time DESC NULLS LAST) = 1"
)
COLUMNS = {
    "jobs": ", ".join(f'"{column.name}"' for column in JOBS),
    "steps": ", ".join(f'"{column.name}"' for column in STEPS),
}

Files = dict[Kind, dict[str, File]]
"""The files of a cluster by table and part."""


class Place(NamedTuple):
    """Where the files of one cluster are written."""

    store: Path
    cluster: str
    generation: int
    months: tuple[str, ...] = ()
    """Those that are one file each."""

    @property
    def part(self) -> str:
        """SQL: the day on which an attempt ended, or the month, as its file is named."""
        day, month = (f"strftime({ENDED}, '{form}')" for form in ("%Y-%m-%d", "%Y-%m"))
        listed = ", ".join(map(quoted, self.months))
        return f"CASE WHEN {month} IN ({listed}) THEN {month} ELSE {day} END" if listed else day


def stage(connection: DuckDBPyConnection, folder: Path, cluster: str | None) -> list[str]:
    """Write the views `jobs` and `steps` into a folder, read once; the clusters that they speak of.

    `cluster` is the name of the one whose records do not name it.

    Raises:
        duckdb.Error: they cannot be read, or the folder not be written.
    """
    name = f"coalesce(nullif(cluster, ''), {quoted(cluster or '')}) AS cluster"
    for kind, columns in COLUMNS.items():
        named = columns.replace('"cluster"', name, 1)
        query = f"SELECT {named} FROM {kind}"
        target = quoted(folder / f"{kind}.parquet")
        connection.execute(f"COPY ({query}) TO {target} (FORMAT parquet)")
    found = connection.execute(
        f"SELECT DISTINCT cluster FROM {parquet([folder / 'jobs.parquet'])} ORDER BY 1"
    )
    return [name for (name,) in found.fetchall()]


def merge(
    connection: DuckDBPyConnection, staged: Path, place: Place, old: Cluster, horizon: datetime | None
) -> tuple[tuple[File, ...], tuple[File, ...]]:
    """Write the files that the staged records of one cluster change; all files of jobs and steps by then.

    Attempts that ended before `horizon` go to their days, all that have ended where there is none.

    Raises:
        duckdb.Error, OSError: a file could not be written.
    """
    _see(connection, staged, place, old, horizon)
    place = place._replace(months=_months(connection, old))
    connection.execute(f"CREATE OR REPLACE TEMP VIEW ended AS SELECT *, {place.part} AS part FROM settled")
    moved = _moved(connection, place, old)
    _see_steps(connection, staged, place, old, moved)
    files: Files = {
        "jobs": {file.part: file for file in old.jobs},
        "steps": {file.part: file for file in old.steps},
    }
    grown = {month for month in place.months if _within(files["jobs"], month) - {month}}
    for parts in _batches(connection, {*moved, *grown}):
        _take(connection, place, parts)
        for part in parts:
            _write_part(connection, place, files, part, "ended" if part in moved else "taken")
    _write_open(connection, place, files)
    return tuple(_in_order(files["jobs"])), tuple(_in_order(files["steps"]))


def parquet(paths: Sequence[Path]) -> str:
    """A relation over files; the folders' names are no columns of it."""
    return f"read_parquet([{', '.join(map(quoted, paths))}], hive_partitioning = false)"


def _see(
    connection: DuckDBPyConnection, staged: Path, place: Place, old: Cluster, horizon: datetime | None
) -> None:
    """Make `settled`, a view, and `waiting`, a table, of the new records and those that were open."""
    columns, limit = COLUMNS["jobs"], horizon.isoformat() if horizon else "infinity"
    open_paths = [file.path for file in old.jobs if not file.part]
    connection.execute(
        f"CREATE OR REPLACE TEMP VIEW incoming AS SELECT {columns}, 1 AS is_new"
        f" FROM {parquet([staged / 'jobs.parquet'])} WHERE cluster = {quoted(place.cluster)}"
        f" UNION ALL SELECT {columns}, 0 FROM {_relation(place, open_paths, 'jobs')}"
    )
    is_settled = f"coalesce(is_final, false) AND {ENDED} < TIMESTAMPTZ '{limit}'"
    connection.execute(f"CREATE OR REPLACE TEMP VIEW settled AS SELECT * FROM incoming WHERE {is_settled}")
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE waiting AS SELECT * FROM incoming WHERE NOT ({is_settled})"
        " QUALIFY row_number() OVER (PARTITION BY job_number, submit_time, start_time"
        f" ORDER BY is_final DESC, {NEWEST}) = 1"
        # Of an attempt that waited when it was last seen and runs now there are two records.
        " AND (is_final OR start_time IS NOT DISTINCT FROM"
        " max(start_time) OVER (PARTITION BY job_number, submit_time))"
    )
    first = connection.execute("SELECT strftime(min(submit_time), '%Y-%m-%d') FROM incoming").fetchall()
    since = first[0][0] or ""
    recent = [file.path for file in old.jobs if file.part and file.part >= since[: len(file.part)]]
    connection.execute(
        f"CREATE OR REPLACE TEMP VIEW stored AS SELECT {columns} FROM {_relation(place, recent, 'jobs')}"
    )
    for ended in ("settled", "stored"):
        connection.execute(
            "DELETE FROM waiting WHERE rowid IN"
            f" (SELECT o.rowid FROM {ended} e JOIN waiting o ON {ENDED_SINCE})"
        )


def _months(connection: DuckDBPyConnection, old: Cluster) -> tuple[str, ...]:
    """The months that are one file each: small ones before the last two."""
    counted = connection.execute(f"SELECT strftime({ENDED}, '%Y-%m'), count(*) FROM settled GROUP BY 1")
    rows: dict[str, int] = {}
    for month, count in [
        *counted.fetchall(),
        *((file.part[:7], file.rows) for file in old.jobs if file.part),
    ]:
        rows[month] = rows.get(month, 0) + count
    already = {file.part for file in old.jobs if len(file.part) == len("2026-11")}
    return tuple(sorted(already | {month for month in sorted(rows)[:-2] if rows[month] <= MONTH}))


def _moved(connection: DuckDBPyConnection, place: Place, old: Cluster) -> list[str]:
    """The parts whose files have an attempt that has now ended in another: its end was wrong before.

    Makes `doubled` of the attempts that are told of twice.
    """
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE doubled AS"
        " SELECT job_number, submit_time, start_time, max(part) AS part"
        " FROM ended GROUP BY ALL HAVING count(*) > 1"
    )
    if not any(file.part for file in old.jobs):
        return []
    same = SAME_ATTEMPT.format(a="s", b="e")
    found = connection.execute(
        f"SELECT DISTINCT s.part FROM (SELECT *, {place.part} AS part FROM stored) s"
        f" JOIN ended e ON {same} WHERE s.part <> e.part ORDER BY 1"
    ).fetchall()
    return [part for (part,) in found]


def _see_steps(
    connection: DuckDBPyConnection, staged: Path, place: Place, old: Cluster, moved: Sequence[str]
) -> None:
    """Make `incoming_steps` of the new steps and of those whose attempts were open or change their part."""
    kept = [
        file.path
        for file in old.steps
        if not file.part or any(file.part[: len(part)] == part for part in moved)
    ]
    connection.execute(
        f"CREATE OR REPLACE TEMP VIEW incoming_steps AS SELECT {COLUMNS['steps']}, 1 AS is_new"
        f" FROM {parquet([staged / 'steps.parquet'])} WHERE cluster = {quoted(place.cluster)}"
        f" UNION ALL SELECT {COLUMNS['steps']}, 0 FROM {_relation(place, kept, 'steps')}"
    )


def _batches(connection: DuckDBPyConnection, more: Collection[str]) -> Iterator[list[str]]:
    """The parts of `ended` and `more` in order, so many together as have about as many rows as fit."""
    counted = dict(connection.execute("SELECT part, count(*) FROM ended GROUP BY 1").fetchall())
    parts: list[str] = []
    rows = 0
    for part in sorted({*counted, *more}):
        count = counted.get(part, 0)
        if parts and rows + count > BATCH:
            yield parts
            parts, rows = [], 0
        parts.append(part)
        rows += count
    if parts:
        yield parts


def _take(connection: DuckDBPyConnection, place: Place, parts: Sequence[str]) -> None:
    """Make the tables `taken` and `taken_steps` of the attempts that ended in these parts."""
    first, last = (date.fromisoformat(f"{part}-01"[:10]) for part in (parts[0], parts[-1]))
    after = last + timedelta(days=32 if parts[-1] in place.months else 1)
    same = SAME_ATTEMPT.format(a="d", b="e")
    # By their times, not all records have to be read for each batch.
    inside = (
        f"{ENDED} >= TIMESTAMPTZ '{first} 00:00:00+00' AND {ENDED} < TIMESTAMPTZ '{after} 00:00:00+00'"
        f" AND e.part IN ({', '.join(map(quoted, parts))})"
    )
    # To number the records of each attempt costs more than all else: it is left to those that need it.
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE taken AS"
        f" SELECT * FROM ended e WHERE {inside} AND NOT EXISTS (SELECT 1 FROM doubled d WHERE {same})"
        f" UNION ALL SELECT * FROM ended e WHERE {inside}"
        f" AND EXISTS (SELECT 1 FROM doubled d WHERE {same} AND d.part = e.part)"
        " QUALIFY row_number() OVER"
        f" (PARTITION BY job_number, submit_time, start_time ORDER BY {NEWEST}) = 1"
    )
    its = ITS_STEP.format(s="s", j="t")
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE taken_steps AS SELECT s.*, t.part"
        f" FROM incoming_steps s JOIN taken t ON {its}"
    )


def _write_part(connection: DuckDBPyConnection, place: Place, files: Files, part: str, over: str) -> None:
    """Write the two files of a part: what is taken, and what was there but for attempts of `over`."""
    stored = {
        kind: _relation(place, [found[one].path for one in sorted(_within(found, part))], kind)
        for kind, found in files.items()
    }
    same, its = SAME_ATTEMPT.format(a="s", b="t"), ITS_STEP.format(s="s", j="t")
    jobs, steps = COLUMNS["jobs"], COLUMNS["steps"]
    queries: dict[Kind, str] = {
        "jobs": f"SELECT {jobs} FROM taken WHERE part = '{part}'"
        f" UNION ALL SELECT {jobs} FROM {stored['jobs']} s"
        f" WHERE NOT EXISTS (SELECT 1 FROM {over} t WHERE {same}) ORDER BY start_time, job_number",
        "steps": f"SELECT {steps} FROM (SELECT {steps}, is_new FROM taken_steps WHERE part = '{part}'"
        f" UNION ALL SELECT {steps}, -1 FROM {stored['steps']} s"
        f" WHERE NOT EXISTS (SELECT 1 FROM {over} t WHERE {its} AND t.part <> '{part}'))"
        f" {ONE_OF_EACH} ORDER BY job_start_time, job_number",
    }
    for kind, query in queries.items():
        written = _write(connection, place, kind, part, query)
        files[kind] = {
            name: file for name, file in files[kind].items() if name not in _within(files[kind], part)
        }
        files[kind] |= {part: written} if written else {}


def _write_open(connection: DuckDBPyConnection, place: Place, files: Files) -> None:
    its = ITS_STEP.format(s="s", j="t")
    queries: dict[Kind, str] = {
        "jobs": f"SELECT {COLUMNS['jobs']} FROM waiting ORDER BY job_number",
        "steps": f"SELECT {COLUMNS['steps']} FROM incoming_steps s"
        f" WHERE EXISTS (SELECT 1 FROM waiting t WHERE {its}) {ONE_OF_EACH} ORDER BY job_number",
    }
    for kind, query in queries.items():
        written = _write(connection, place, kind, "", query)
        files[kind] = {name: file for name, file in files[kind].items() if name}
        files[kind] |= {"": written} if written else {}


def _write(connection: DuckDBPyConnection, place: Place, kind: Kind, part: str, query: str) -> File | None:
    """Write one file to the disk; None where it would have no rows."""
    path = f"{folder_of(kind, place.cluster, part)}/{place.generation:08}.parquet"
    target = place.store / path
    target.parent.mkdir(parents=True, exist_ok=True)
    copied = f"COPY ({query}) TO {quoted(target)} (FORMAT parquet, COMPRESSION zstd)"
    rows = connection.execute(copied).fetchall()[0][0]
    if not rows:
        target.unlink(missing_ok=True)
        return None
    descriptor = os.open(target, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    for folder in target.parents[: len(Path(path).parents)]:
        sync_directory(os.fspath(folder))
    odd = connection.execute(f"SELECT count(problems) FROM {parquet([target])}").fetchall()[0][0]
    return File(path, part, rows, target.stat().st_size, odd)


def _relation(place: Place, paths: Sequence[str], kind: Kind) -> str:
    """Files of the store; of none of them an empty relation with the same columns."""
    if paths:
        return parquet([place.store / path for path in paths])
    columns = JOBS if kind == "jobs" else STEPS
    nothing = ", ".join(f'NULL::{column.type} AS "{column.name}"' for column in columns)
    return f"(SELECT {nothing} WHERE false)"


def _within(files: dict[str, File], part: str) -> set[str]:
    """The part itself, and the days of it where it is a month, as far as there are files."""
    return {name for name in files if name == part or (len(part) == len("2026-11") and name.startswith(part))}


def _in_order(files: dict[str, File]) -> Iterator[File]:
    return (files[part] for part in sorted(files))
