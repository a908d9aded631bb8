"""A report as text: aligned columns, Markdown, CSV, JSON. People read hours; programs get whole seconds."""

from __future__ import annotations

import json
import os
from contextlib import closing
from datetime import datetime, timedelta
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from slurmkit.accounting.asking import table_named
from slurmkit.accounting.report import columns_of
from slurmkit.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import tzinfo
    from pathlib import Path

    from pandas import DataFrame

    from slurmkit.accounting.asking import Answered
    from slurmkit.accounting.report import Kind, Measure, Table

SUMMED = frozenset({"count", "hours", "memory_hours"})
"""Kinds of which the groups of a table add up to the whole."""

TEXT = frozenset({"text", "time"})
"""Kinds that stand at the left of their column."""

SHORTEST = 12
"""Columns of a terminal that a text keeps, however narrow that is."""


class Sheet(NamedTuple):
    """A table for people: every cell is text."""

    title: str
    columns: tuple[Measure, ...]
    rows: tuple[tuple[str, ...], ...]
    total: tuple[str, ...] | None = None


def in_words(value: Any, kind: Kind, zone: tzinfo) -> str:  # noqa: ANN401 - a cell of a DataFrame
    """A value as a person reads it; `-` where it is not known."""
    if _is_missing(value):
        return "-"
    if kind == "time":
        return f"{value.astimezone(zone):%Y-%m-%d %H:%M:%S}"
    if kind == "text":
        return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in str(value))
    return WORDS[kind](float(value))


def _is_missing(value: Any) -> bool:  # noqa: ANN401 - a cell of a DataFrame
    from pandas import isna

    return bool(isna(value))


def _ratio(value: float) -> str:
    return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def _hours(hours: float) -> str:
    return f"{hours:,.1f}" if hours == 0 or abs(hours) >= 0.1 else f"{hours:.3g}"


def hours(seconds: float) -> str:
    """Seconds in hours, with as many digits as tell something."""
    return _hours(seconds / 3600)


def _duration(seconds: float) -> str:
    if not isfinite(seconds):
        return "unlimited"
    whole = int(abs(seconds))
    days, rest = divmod(whole, 86400)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return ("-" if seconds < 0 else "") + (f"{days}-{clock}" if days else clock)


def _memory(size: float) -> str:
    for unit in "BKMGTP":
        if size < 1024 or unit == "P":
            break
        size /= 1024
    digits = f"{size:.0f}" if size >= 100 or size == int(size) else f"{size:.1f}"
    return "0" if size == 0 else f"{digits}{unit}"


WORDS: Mapping[str, Callable[[float], str]] = {
    "count": lambda value: f"{value:,.0f}",
    "hours": hours,
    "memory_hours": lambda value: _hours(value / 3600 / 1024),
    "duration": _duration,
    "share": lambda value: f"{value * 100:.1f} %",
    "ratio": _ratio,
    "memory": _memory,
}
"""How a number of each kind is written."""


def sheets(answered: Answered) -> Iterator[Sheet]:
    """The tables of a report that was asked, for people."""
    for name, frame in answered.frames.items():
        yield _sheet(answered, table_named(answered.report, name), frame)


def _sheet(answered: Answered, table: Table, frame: DataFrame) -> Sheet:
    columns = columns_of(table, answered.question)
    zone = answered.question.zone
    rows = [
        tuple(in_words(value, column.kind, zone) for value, column in zip(row, columns, strict=True))
        for row in frame[[column.name for column in columns]].itertuples(index=False, name=None)
    ]
    total = None
    if table.is_grouped and answered.question.by and len(frame) > 1:
        cells = [
            in_words(frame[column.name].sum(min_count=1), column.kind, zone) if column.kind in SUMMED else ""
            for column in columns
        ]
        total = ("total", *cells[1:])
    return Sheet(table.title, columns, tuple(rows), total)


def heading(answered: Answered) -> str:
    """What the report is, and which time it covers."""
    question, window = answered.question, answered.window
    zone = question.zone
    by = f" by {' and '.join(question.by).replace('_', ' ')}" if question.by else ""
    begin, end = (f"{moment.astimezone(zone):%Y-%m-%d %H:%M}" for moment in window)
    return f"{answered.report.name}{by}, {begin} to {end} ({zone})"


def as_text(answered: Answered, *, width: int | None = None, header: Any = str) -> str:  # noqa: ANN401
    """Aligned columns; texts are cut where `width` is narrower. `header` styles the titles of columns."""
    lines = [heading(answered), ""]
    several = len(answered.frames) > 1
    for sheet in sheets(answered):
        if several:
            lines += [sheet.title, ""]
        lines += [*_aligned(sheet, width, header), ""]
    lines += [f"! {line}" for line in answered.report.stands_out(answered.frames)]
    lines += [f"note: {note}" for note in answered.notes]
    return "\n".join(lines).rstrip() + "\n"


def _aligned(sheet: Sheet, width: int | None, header: Any) -> Iterator[str]:  # noqa: ANN401
    if not sheet.rows:
        yield "  (nothing)"
        return
    titles = tuple(column.title.upper() for column in sheet.columns)
    last = [sheet.total] if sheet.total else []
    widths = [max(map(len, cells)) for cells in zip(titles, *sheet.rows, *last, strict=True)]
    _narrow(widths, sheet.columns, width)
    yield header(_line(titles, widths, sheet.columns))
    for row in sheet.rows:
        yield _line(row, widths, sheet.columns)
    if sheet.total:
        yield header(_line(sheet.total, widths, sheet.columns))


def _narrow(widths: list[int], columns: Sequence[Measure], width: int | None) -> None:
    """Take from the widest texts what is too much."""
    texts = [index for index, column in enumerate(columns) if column.kind == "text"]
    while width and texts and sum(widths) + 2 * (len(widths) - 1) > width:
        widest = max(texts, key=widths.__getitem__)
        if widths[widest] <= SHORTEST:
            return
        widths[widest] -= 1


def _line(cells: Sequence[str], widths: Sequence[int], columns: Sequence[Measure]) -> str:
    placed = (
        _cut(text, width).ljust(width) if column.kind in TEXT else text.rjust(width)
        for text, width, column in zip(cells, widths, columns, strict=True)
    )
    return "  ".join(placed).rstrip()


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def as_markdown(answered: Answered) -> str:
    """Tables as Markdown has them."""
    lines = [f"# {heading(answered)}", ""]
    for sheet in sheets(answered):
        rule = ["---" if column.kind in TEXT else "---:" for column in sheet.columns]
        titles = [column.title for column in sheet.columns]
        total = [[f"**{cell}**" if cell else "" for cell in sheet.total]] if sheet.total else []
        lines += [f"## {sheet.title}", "", _row(titles), "|" + "|".join(rule) + "|"]
        lines += [*(_row([_escaped(cell) for cell in row]) for row in sheet.rows), *map(_row, total), ""]
    lines += [f"- {line}" for line in (*answered.report.stands_out(answered.frames), *answered.notes)]
    return "\n".join(lines).rstrip() + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _escaped(cell: str) -> str:
    return "".join(f"\\{letter}" if letter in "\\`*_[]<>|#" else letter for letter in cell)


def as_csv(answered: Answered) -> str:
    """The first of the report's tables, with a line of names."""
    name, frame = next(iter(answered.frames.items()))
    columns = columns_of(table_named(answered.report, name), answered.question)
    text: str = frame[[column.name for column in columns]].to_csv(index=False, lineterminator="\n")
    return text


def as_data(answered: Answered) -> dict[str, Any]:
    """All of it as JSON has it: whole seconds, times in ISO 8601, null for what is not known."""
    return {
        "report": answered.report.name,
        "by": list(answered.question.by),
        "since": answered.window.since.isoformat(),
        "until": answered.window.until.isoformat(),
        "tables": {name: records(frame) for name, frame in answered.frames.items()},
        "stands_out": list(answered.report.stands_out(answered.frames)),
        "notes": list(answered.notes),
    }


def as_json(answered: Answered) -> str:
    """`as_data`, as text."""
    return json.dumps(as_data(answered), indent=2, ensure_ascii=False) + "\n"


def records(frame: DataFrame) -> list[dict[str, Any]]:
    """The rows of a frame as plain values."""
    names = list(frame.columns)
    return [
        dict(zip(names, map(_plain, row), strict=True)) for row in frame.itertuples(index=False, name=None)
    ]


def _plain(value: Any) -> Any:  # noqa: ANN401 - a cell of a DataFrame
    if _is_missing(value):
        return None
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, float) and not isfinite(value):
        return None
    return value.item() if hasattr(value, "item") else value


def write_parquet(answered: Answered, path: Path) -> None:
    """The first of the report's tables as a Parquet file, whole or not at all.

    Raises:
        UsageError: the file cannot be written.
    """
    import duckdb

    name, frame = next(iter(answered.frames.items()))
    columns = columns_of(table_named(answered.report, name), answered.question)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with closing(duckdb.connect()) as connection:
            connection.register("frame", frame[[column.name for column in columns]])
            connection.execute("SET TimeZone = 'UTC'")
            connection.sql("FROM frame").write_parquet(str(beside), compression="zstd")
        beside.replace(path)
    except (duckdb.Error, OSError) as error:
        raise UsageError(f"the report cannot be written: {error}", where=str(path)) from error
    finally:
        beside.unlink(missing_ok=True)
