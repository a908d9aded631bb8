"""What a report is made of: tables, the meaning of their columns, and what stands out in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pandas import DataFrame

    from slurmkit.accounting.ledger import Ledger
    from slurmkit.accounting.question import Question

Kind = Literal[
    "text",  # as it is
    "count",  # whole numbers
    "hours",  # seconds of a resource, whole; people read hours
    "memory_hours",  # MiB-seconds, whole; people read GiB-hours
    "duration",  # seconds; people read 1-02:03:04
    "share",  # a fraction; people read percent
    "ratio",  # a number
    "memory",  # bytes
    "time",  # a point in time
]
"""What the values of a column are: in a DataFrame and a file for a program, and for people."""


class Measure(NamedTuple):
    """A column of a table. The group's own columns stand before, under the group's names."""

    name: str
    title: str
    kind: Kind
    meaning: str


class Chart(NamedTuple):
    """How a page draws a table: its rows along `x` ("" is the one group), their values of `y`."""

    form: Literal["bars", "lines", "heatmap"]
    x: str
    y: tuple[str, ...]
    """Columns; of a heatmap the one that its rows stand for, and the one that colours."""


class Table(NamedTuple):
    """One table of a report; `build` makes its DataFrame, which has the group's columns and the measures."""

    name: str
    title: str
    measures: tuple[Measure, ...]
    build: Callable[[Ledger, Question], DataFrame]
    is_grouped: bool = True
    """Whether `by` speaks of this table."""
    keys: tuple[Measure, ...] = ()
    """Columns that name a row, where it is not grouped by `by`."""
    chart: Chart | None = None


class Report(NamedTuple):
    """A report: its first table is the one that a DataFrame or a CSV file gives."""

    name: str
    summary: str
    tables: tuple[Table, ...]
    stands_out: Callable[[Mapping[str, DataFrame]], Sequence[str]]
    """Sentences, from the frames by the tables' names."""
    default_by: tuple[str, ...] = ()
    columns: tuple[str, ...] | None = None
    """Of jobs, that it reads whatever it is asked; None where it reads all of them, or steps."""
    explanation: str = ""
    """How its figures are meant: a paragraph for --help and the page."""


def columns_of(table: Table, question: Question) -> tuple[Measure, ...]:
    """All columns of a table's frame, in their order."""
    if not table.is_grouped:
        return (*table.keys, *table.measures)
    groups = (Measure(name, name.replace("_", " "), "text", "the group") for name in question.by)
    return (*groups, *table.keys, *table.measures)
