"""Each report as a function: names and options as those of `slurmkit report`, the answer a DataFrame."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, Protocol, TypedDict, Unpack

from slurmkit.accounting.asking import SUMMARIES, ask, columns_read, report_named, with_default
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


class ReportFunction(Protocol):
    """A report as a function; its answer is the frame of the report's first table, or of the one named.

    `source` is a store's folder, a dump, or None for the store that `slurmkit accounting sync` fills; `by`
    groups, where None stands for the report's own. Durations are whole seconds, as `gpu_seconds`: their sums
    are exact.

    Raises:
        SlurmkitError: the records or the question cannot be used.
    """

    def __call__(
        self,
        source: Path | str | None = None,
        *,
        by: Iterable[str] | None = None,
        table: str | None = None,
        **choice: Unpack[Choice],
    ) -> DataFrame:
        """Ask it."""


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


def function(name: str) -> ReportFunction:
    """The report of that name as a function."""

    def ask_it(
        source: Path | str | None = None,
        *,
        by: Iterable[str] | None = None,
        table: str | None = None,
        **choice: Unpack[Choice],
    ) -> DataFrame:
        report = report_named(name)
        wanted = with_default(report, asked(choice, by or ()), by_default=by is None)
        chosen = table or report.tables[0].name
        with closing(open_source(source, columns=columns_read(report, wanted))) as ledger:
            return ask(report, ledger, wanted, table=chosen).frames[chosen]

    ask_it.__name__ = ask_it.__qualname__ = name
    ask_it.__doc__ = f"{SUMMARIES[name]}\n\n{ReportFunction.__doc__}"
    return ask_it
