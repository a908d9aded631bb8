"""Job records for tests: what a test does not say is what an ordinary job has."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from slurmkit.accounting.ledger import Ledger, connect
from slurmkit.accounting.schema import JOBS, STEPS, definition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from slurmkit.accounting.schema import Column

GIB = 1024**3

NOON = datetime(2026, 11, 2, 12, tzinfo=UTC)
"""When jobs start of which nothing else is said."""

JOB = {
    "cluster": "test",
    "array_tasks": 1,
    "user": "anna",
    "account": "physics",
    "partition": "train",
    "qos": "normal",
    "state": "COMPLETED",
    "exit_code": 0,
    "exit_signal": 0,
    "suspended": 0,
    "time_limit": 7200.0,
    "nodes": 1,
    "node_list": "node1",
    "cpus": 8,
    "memory": 32 * GIB,
    "gpus": 0,
    "shards": 0,
    "billing": 8,
    "name": "train",
    "is_runaway": False,
}
STEP = {
    "cluster": "test",
    "step": "0",
    "state": "COMPLETED",
    "exit_code": 0,
    "exit_signal": 0,
    "nodes": 1,
    "node_list": "node1",
    "tasks": 1,
    "cpus": 8,
    "gpus": 0,
}
NOT_STARTED: dict[str, object] = {
    "start_time": None, "elapsed": 0, "nodes": 0, "node_list": None, "cpus": 0, "memory": 0, "gpus": 0,
    "billing": 0, "exit_code": 0,
}  # fmt: skip
"""Fields of a job that waits, or was cancelled while it did: `{"state": "PENDING", **NOT_STARTED}`."""


def moment(value: object) -> object:
    """A time as the tables hold it: texts are ISO 8601, in UTC where they say nothing else."""
    if not isinstance(value, str):
        return value
    given = datetime.fromisoformat(value)
    return given if given.tzinfo else given.replace(tzinfo=UTC)


def ledger_of(
    jobs: Iterable[Mapping[str, object]],
    steps: Iterable[Mapping[str, object]] = (),
    *,
    as_of: datetime = NOON,
) -> Ledger:
    """The records as a ledger, in memory.

    A job has its elapsed time and its end from each other; one hour where it has neither, and no end where
    it is said to be None: then it runs, and its time is known until `elapsed` after its start. Numbers
    count from 1. A step belongs to the last of `jobs` that has its number, by default the first's.
    """
    rows = [_job(index, one) for index, one in enumerate(jobs, 1)]
    of_number = {row["job_number"]: row for row in rows}
    connection = connect()
    for name, columns in (("jobs", JOBS), ("steps", STEPS)):
        connection.execute(f"CREATE TABLE {name} ({definition(columns)})")
    _insert(connection, "jobs", JOBS, rows)
    _insert(connection, "steps", STEPS, [_step(one, of_number) for one in steps])
    return Ledger(connection, as_of)


def _job(index: int, given: Mapping[str, object]) -> dict[str, Any]:
    number = given.get("job_number", index)
    row: dict[str, Any] = (
        {"job_number": number, "job_id": str(number), "start_time": NOON} | JOB | dict(given)
    )
    for name in ("submit_time", "eligible_time", "start_time", "end_time"):
        row[name] = moment(row.get(name))
    start, end = row["start_time"], row["end_time"]
    if "end_time" in given and start is not None and end is None:
        row["state"] = given.get("state", "RUNNING")
    row.setdefault("elapsed", int((end - start).total_seconds()) if end and start else 3600)
    if start is not None:
        until = start + timedelta(seconds=row["elapsed"] + row["suspended"])
        if "end_time" not in given:
            row["end_time"] = until
        row.setdefault("until_time", row["end_time"] or until)
    row["submit_time"] = row["submit_time"] or start or NOON
    row["eligible_time"] = row["eligible_time"] or row["submit_time"]
    row.setdefault("is_final", row["state"] not in {"RUNNING", "PENDING", "SUSPENDED"})
    for name in ("nodes", "cpus", "memory", "gpus"):
        row.setdefault(f"requested_{name}", row[name])
    return row


def _step(given: Mapping[str, object], of_number: Mapping[object, dict[str, Any]]) -> dict[str, Any]:
    job = of_number[given.get("job_number", next(iter(of_number)))]
    row = {name: job[name] for name in ("job_number", "job_id", "start_time", "end_time", "elapsed", "cpus")}
    row |= {"job_submit_time": job["submit_time"], "job_start_time": job["start_time"]}
    row = STEP | row | {"gpus": job["gpus"], "cluster": job["cluster"]} | dict(given)
    return {name: moment(value) if name.endswith("_time") else value for name, value in row.items()}


def _insert(connection: Any, table: str, columns: Sequence[Column], rows: list[dict[str, Any]]) -> None:
    known = [column.name for column in columns]
    for row in rows:
        if strange := row.keys() - set(known):
            raise AssertionError(f"{table} has no column {', '.join(sorted(strange))}")
    if rows:
        marks = ", ".join(["(" + ", ".join("?" * len(known)) + ")"] * len(rows))
        values = [row.get(name) for row in rows for name in known]
        connection.execute(f"INSERT INTO {table} VALUES {marks}", values)
