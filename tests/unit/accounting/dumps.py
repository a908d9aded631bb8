"""Dumps of sacct for tests: written from rows, and read back."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC
from typing import TYPE_CHECKING, Any

from slurmkit.accounting.dump import open_dump

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import tzinfo
    from pathlib import Path

RAN = {"NodeList": "n1", "Start": "2026-01-01T00:00:00"}
"""What a job has that has started."""


def text_of(rows: Sequence[Mapping[str, str]], delimiter: str = "|") -> str:
    """A dump as `sacct --parsable2` prints it: the fields of the first row, in its order."""
    fields = list(rows[0])
    lines = [fields, *([row[name] for name in fields] for row in rows)]
    return "".join(delimiter.join(line) + "\n" for line in lines)


def asked(
    folder: Path, dump: str | bytes, columns: str, table: str = "jobs", *, zone: tzinfo = UTC
) -> list[Any]:
    """Columns of a dump's records in the order of job_id; a list of values where it is one column."""
    path = folder / "dump"
    path.write_bytes(dump if isinstance(dump, bytes) else dump.encode())
    with closing(open_dump(path, zone=zone)) as ledger:
        order = "job_number, job_id" if table == "jobs" else "job_number, job_start_time, step"
        rows = ledger.connection.execute(f"SELECT {columns} FROM {table} ORDER BY {order}").fetchall()
    return [row[0] for row in rows] if rows and len(rows[0]) == 1 else rows


def numbered(rows: Sequence[Mapping[str, str]]) -> Iterator[dict[str, str]]:
    """The rows, each with an id, in their order."""
    for number, row in enumerate(rows, 1):
        yield {"JobID": str(number), "JobIDRaw": str(number), **row}


def of_texts(folder: Path, field: str, texts: Sequence[str], column: str, **others: str) -> list[Any]:
    """What a column is for each text of one field, all else being `others`."""
    rows = [{field: text, **others} for text in texts]
    return asked(folder, text_of(list(numbered(rows))), column)
