"""Job records of a few lines, as a ledger."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from slurmkit.accounting.ledger import Ledger, connect
from slurmkit.accounting.schema import JOBS, STEPS, definition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from slurmkit.accounting.schema import Column

Record = dict[str, Any]
NOON = datetime(2026, 11, 10, 12, tzinfo=UTC)


def at(hours: float = 0, day: datetime = NOON) -> datetime:
    """A time so many hours after noon of 10 November 2026."""
    return day + timedelta(hours=hours)


def job(number: int, start: datetime | None = NOON, hours: float = 1, **fields: Any) -> Record:
    """An attempt that ran so many hours, submitted an hour before its start."""
    end = start + timedelta(hours=hours) if start else None
    return {
        "cluster": "aurora",
        "job_id": str(number),
        "job_number": number,
        "user": "ada",
        "state": "COMPLETED",
        "submit_time": (start or NOON) - timedelta(hours=1),
        "start_time": start,
        "end_time": end,
        "until_time": end,
        "elapsed": int(hours * 3600) if start else 0,
        "cpus": 4,
        "is_final": True,
        "is_runaway": False,
        **fields,
    }


def running(number: int, start: datetime | None = NOON, hours: float = 1, **fields: Any) -> Record:
    """An attempt that has run so many hours when it is seen."""
    return job(number, start, hours, **({"state": "RUNNING", "end_time": None, "is_final": False} | fields))


def pending(number: int, submit: datetime, **fields: Any) -> Record:
    """An attempt that waits."""
    fields = {"state": "PENDING", "submit_time": submit, "until_time": None} | fields
    return running(number, None, 0, **fields)


def step(of: Record, name: str = "batch", **fields: Any) -> Record:
    """A step of an attempt."""
    same = {field: of[field] for field in ("cluster", "job_id", "job_number", "start_time", "end_time")}
    key = {"job_submit_time": of["submit_time"], "job_start_time": of["start_time"]}
    return {**same, **key, "step": name, **fields}


def ledger(jobs: Iterable[Record] = (), steps: Iterable[Record] = (), **fields: Any) -> Ledger:
    """A ledger with these rows."""
    connection = connect()
    for table, columns, rows in (("jobs", JOBS, jobs), ("steps", STEPS, steps)):
        connection.execute(f"CREATE TABLE {table} ({definition(columns)})")
        for row in rows:
            _insert(connection, table, columns, row)
    return Ledger(connection, **fields)


def _insert(connection: Any, table: str, columns: tuple[Column, ...], row: Record) -> None:
    assert row.keys() <= {column.name for column in columns}
    names = ", ".join(f'"{name}"' for name in row)
    marks = ", ".join("?" for _ in row)
    connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(row.values()))
