"""Job records that can be asked: a DuckDB connection with the views `jobs` and `steps` of `schema`."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.errors import MissingRequirement

if TYPE_CHECKING:
    from contextlib import ExitStack
    from datetime import datetime

    from duckdb import DuckDBPyConnection

MEMORY = "700MB"
"""What DuckDB may take: login nodes are shared. Beyond it, it writes to its temporary folder."""

THREADS = 2


class Ledger(NamedTuple):
    """Records to ask. Close it, or use it in `with closing(...)`."""

    connection: DuckDBPyConnection
    as_of: datetime | None = None
    """The records are complete up to then."""
    notes: tuple[str, ...] = ()
    """What a reader of any report has to know: lines that could not be read, runaways that were left out."""
    held: ExitStack | None = None
    """What has to stay for as long as the records are asked: a lock, a temporary file."""

    def close(self) -> None:
        """Let go of the database, and of what was held for it."""
        self.connection.close()
        if self.held is not None:
            self.held.close()


def connect(*, threads: int = THREADS, memory: str = MEMORY) -> DuckDBPyConnection:
    """An empty database in memory, in UTC.

    Raises:
        MissingRequirement: DuckDB is not installed.
    """
    try:
        import duckdb
    except ModuleNotFoundError as error:
        raise MissingRequirement(
            "accounting needs DuckDB and pandas", hint="pip install 'slurmkit-hpc[reports]'"
        ) from error
    # What does not fit goes beside other temporary files: by default it would go into the working directory.
    spilled = str(Path(gettempdir()) / f"slurmkit-{os.getuid()}-spilled")
    connection = duckdb.connect(
        config={"threads": threads, "memory_limit": memory, "temp_directory": spilled}
    )
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def quoted(text: str | Path) -> str:
    """A text as a literal of SQL."""
    return "'" + os.fspath(text).replace("'", "''") + "'"


def amiss(connection: DuckDBPyConnection) -> tuple[str, ...]:
    """What a reader has to know of the attempts in the view `jobs`."""
    counted = "SELECT count(*) FILTER (is_runaway), count(problems) FROM jobs"
    return notes_on(*connection.execute(counted).fetchall()[0])


def notes_on(runaways: int, problems: int) -> tuple[str, ...]:
    """The sentences on so many runaways, and so many attempts with fields that could not be read."""
    found = []
    if runaways:
        found.append(f"runaways, which run in accounting alone and are in no sum: {runaways}")
    if problems:
        found.append(
            "attempts with fields that could not be read, or contradict each other"
            f" (column `problems`): {problems}"
        )
    return tuple(found)
