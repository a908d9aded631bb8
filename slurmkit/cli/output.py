"""How commands print. `@output` gives a command `--json`; what it returns is printed here.

JSON where asked for; a rich table on a terminal; plain aligned text in a pipe, with rich never imported.
In JSON, times are ISO 8601 with offset, durations seconds, ids text, and every key is always there.
"""

from __future__ import annotations

import functools
import json
import sys
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

STATE_COLOURS = {
    "completed": "green",
    "running": "cyan",
    "pending": "yellow",
    "submitting": "yellow",
    "failed": "red",
    "blocked": "red",
}
"""Of the column `state`, on a terminal."""


PROSE = frozenset({"reason", "resume", "summary"})
"""Columns that may take several lines."""


class Answer(NamedTuple):
    """What a command has found out. With `columns`, `data` is a list of mappings and prints as a table."""

    data: Any
    columns: Sequence[str] = ()
    rows: Sequence[Mapping[str, object]] | None = None
    """Of the table, where it shows other than what JSON has."""
    text: str = ""
    """Printed instead of a table; beneath it, where there are columns."""
    empty: str = "nothing to show"
    """Printed on stderr where a table has no rows."""
    exit_code: int = 0


def output(function: Callable[..., Answer | int]) -> Callable[..., None]:
    """Make a click callback of a function that returns an `Answer`: prints it, exits with its code.

    A function that has printed all there was to say returns the exit code alone.
    """

    @click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
    @functools.wraps(function)
    def command(*args: Any, as_json: bool, **kwargs: Any) -> None:  # noqa: ANN401
        answer = function(*args, **kwargs)
        if isinstance(answer, Answer):
            print_answer(answer, as_json=as_json)
            answer = answer.exit_code
        if answer:
            click.get_current_context().exit(answer)

    return command


def print_answer(answer: Answer, *, as_json: bool = False) -> None:
    """Print an answer on stdout."""
    if as_json:
        click.echo(json.dumps(answer.data, indent=2, default=as_plain))
        return
    if answer.columns and not answer.data:
        click.echo(answer.empty, err=True)
    elif answer.columns:
        _print_table(answer.columns, answer.data if answer.rows is None else answer.rows)
    if answer.text:
        click.echo(answer.text)


def note(text: str) -> None:
    """Say something aside, on stderr, so that stdout holds the answer and nothing else."""
    click.echo(text, err=True)


def cell(value: object) -> str:
    """A value as a person reads it: local time to the second, durations as Slurm writes them."""
    match value:
        case None:
            return "-"
        case datetime():
            return value.astimezone().strftime("%Y-%m-%d %H:%M:%S")
        case timedelta():
            days, seconds = divmod(int(value.total_seconds()), 86400)
            clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
            return f"{days}-{clock}" if days else clock
        case list() | tuple():
            return ",".join(map(cell, value)) or "-"
    return _one_line(str(value))


def _one_line(text: str) -> str:
    """Text that neither breaks a table nor steers the terminal: control characters are escaped."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def as_plain(value: object) -> object:
    """A value that JSON lacks, as this project writes it: for json's `default`."""
    match value:
        case datetime():
            return value.astimezone().isoformat(timespec="seconds")
        case timedelta():
            return value.total_seconds()
    return str(value)


def _print_table(columns: Sequence[str], rows: Sequence[Mapping[str, object]]) -> None:
    titles = [column.replace("_", " ").upper() for column in columns]
    cells = [[cell(row[column]) for column in columns] for row in rows]
    if sys.stdout.isatty():
        _print_rich(columns, titles, cells)
        return
    widths = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]
    for line in [titles, *cells]:
        click.echo("  ".join(map(str.ljust, line, widths)).rstrip())


def _print_rich(columns: Sequence[str], titles: list[str], cells: list[list[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, title in zip(columns, titles, strict=True):
        # A reason may take several lines, and must not take the room of what has to be copied.
        is_prose = name in PROSE
        table.add_column(title, no_wrap=not is_prose, overflow="fold" if is_prose else "ellipsis")
    for row in cells:
        styles = (
            STATE_COLOURS.get(text, "") if name == "state" else ""
            for name, text in zip(columns, row, strict=True)
        )
        table.add_row(*map(Text, row, styles))
    Console().print(table)
