"""Each report as a function: names and options as those of `slurmkit report`, the answer a DataFrame."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, TypedDict, Unpack

from slurmkit.accounting.asking import ask, columns_read, report_named, with_default
from slurmkit.accounting.periods import local_zone, window
from slurmkit.accounting.question import question
from slurmkit.accounting.source import open_source

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pandas import DataFrame

    from slurmkit.accounting.question import Question

Moment = datetime | str | None


class Choice(TypedDict, total=False):
    """What every report may be asked; texts as the options of `slurmkit report` take them."""

    since: Moment
    until: Moment
    zone: tzinfo | None
    users: Iterable[str]
    accounts: Iterable[str]
    partitions: Iterable[str]
    qos: Iterable[str]
    states: Iterable[str]
    clusters: Iterable[str]
    names: Iterable[str]
    jobs: Iterable[str]
    limit: int | None


Source = "Path | str | None"
"""A store's folder, a dump, or None for the store that `slurmkit accounting sync` fills."""


def asked(choice: Choice, by: Iterable[str] = ()) -> Question:
    """The question that a choice stands for.

    Raises:
        UsageError: says what was not understood.
    """
    rest = dict(choice)
    zone = choice.get("zone") or local_zone()
    since, until = (rest.pop(name, None) for name in ("since", "until"))
    texts = [moment if isinstance(moment, str) else None for moment in (since, until)]
    begin, end = window(*texts, now=datetime.now(UTC), zone=zone)
    begin = since if isinstance(since, datetime) else begin
    end = until if isinstance(until, datetime) else end
    return question(**(rest | {"since": begin, "until": end, "zone": zone, "by": by}))  # type: ignore[arg-type]


def _frame(
    name: str, source: Path | str | None, by: Iterable[str] | None, table: str | None, choice: Choice
) -> DataFrame:
    report = report_named(name)
    wanted = with_default(report, asked(choice, by or ()), by_default=by is None)
    with closing(open_source(source, columns=columns_read(report, wanted))) as ledger:
        return ask(report, ledger, wanted, table=table or report.tables[0].name).frames[
            table or report.tables[0].name
        ]


def usage(
    source: Path | str | None = None,
    *,
    by: Iterable[str] | None = None,
    table: str | None = None,
    **choice: Unpack[Choice],
) -> DataFrame:
    """Jobs and what they held; seconds are whole and add up exactly, `cpu_seconds` and their like.

    Raises:
        SlurmkitError: the records or the question cannot be used; so say all functions here.
    """
    return _frame("usage", source, by, table, choice)


def efficiency(
    source: Path | str | None = None,
    *,
    by: Iterable[str] | None = None,
    table: str | None = None,
    **choice: Unpack[Choice],
) -> DataFrame:
    """What was asked for and not used; tables `worst` and `advice` beside it."""
    return _frame("efficiency", source, by, table, choice)


def waits(
    source: Path | str | None = None,
    *,
    by: Iterable[str] | None = None,
    table: str | None = None,
    **choice: Unpack[Choice],
) -> DataFrame:
    """Queue times in seconds from when a job was eligible."""
    return _frame("waits", source, by, table, choice)


def failures(
    source: Path | str | None = None,
    *,
    by: Iterable[str] | None = None,
    table: str | None = None,
    **choice: Unpack[Choice],
) -> DataFrame:
    """Failed jobs by cause; tables by node and size beside it."""
    return _frame("failures", source, by, table, choice)


def goodput(
    source: Path | str | None = None,
    *,
    by: Iterable[str] | None = None,
    table: str | None = None,
    **choice: Unpack[Choice],
) -> DataFrame:
    """GPU-seconds by what became of them; tells what runs' events say from what accounting alone can."""
    return _frame("goodput", source, by, table, choice)


def fairness(
    source: Path | str | None = None,
    *,
    by: Iterable[str] | None = None,
    table: str | None = None,
    **choice: Unpack[Choice],
) -> DataFrame:
    """Shares, and how even they are."""
    return _frame("fairness", source, by, table, choice)


def fragmentation(
    source: Path | str | None = None,
    *,
    by: Iterable[str] | None = None,
    table: str | None = None,
    **choice: Unpack[Choice],
) -> DataFrame:
    """GPUs idle while jobs waited."""
    return _frame("fragmentation", source, by, table, choice)


def jobs(
    source: Path | str | None = None,
    *,
    by: Iterable[str] | None = None,
    table: str | None = None,
    **choice: Unpack[Choice],
) -> DataFrame:
    """One row for each job, arrays summed up."""
    return _frame("jobs", source, by, table, choice)


def job(
    source: Path | str | None = None,
    *,
    by: Iterable[str] | None = None,
    table: str | None = None,
    **choice: Unpack[Choice],
) -> DataFrame:
    """The attempts of the jobs that `jobs` names; table `steps` beside it."""
    return _frame("job", source, by, table, choice)
