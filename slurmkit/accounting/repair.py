"""Records of a dump that a line does not hold: put together again, or counted as lost. Pure.

A name, a comment or a path may hold a newline, which cuts a record in two, and the delimiter, which gives it
a field too many. The fields that cannot hold any text tell whether a guess is right.
"""

from __future__ import annotations

from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.accounting.fields import FREE, SHAPES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MOST_LINES = 50
"""Lines that one record may be spread over."""

MOST_EXTRA = 4
"""Delimiters within free text that are looked for."""


class Line(NamedTuple):
    """A line that does not have the header's number of fields."""

    number: int
    text: str
    newlines: int = 1
    """Bytes between it and the broken line before: newlines alone, where there are too few for a record."""


class Record(NamedTuple):
    """A record whose fields are known, and the line on which it begins."""

    line: int
    cells: tuple[str, ...]


class Repaired(NamedTuple):
    """What became of broken lines."""

    records: tuple[Record, ...]
    lost: tuple[Line, ...]
    before: tuple[int, ...] = ()
    """For each record, how many broken lines stand before it in the dump."""


def repair(lines: Sequence[Line], columns: Sequence[str], delimiter: str) -> Repaired:
    """The records of broken lines, which are in the order of the dump."""
    records: list[Record] = []
    lost: list[Line] = []
    before: list[int] = []
    at = 0
    while at < len(lines):
        found = _record(lines, at, columns, delimiter)
        if found is None:
            lost.append(lines[at])
            at += 1
            continue
        cells, used = found
        records.append(Record(lines[at].number, cells))
        before.append(at)
        at += used
    return Repaired(tuple(records), tuple(lost), tuple(before))


def _record(
    lines: Sequence[Line], at: int, columns: Sequence[str], delimiter: str
) -> tuple[tuple[str, ...], int] | None:
    """The record that begins at a line, and how many of the broken lines it takes."""
    text = lines[at].text
    for used in range(1, min(MOST_LINES, len(lines) - at) + 1):
        if used > 1:
            line = lines[at + used - 1]
            # A whole record between them would have as many delimiters, and more.
            if not 0 < line.newlines <= (len(columns) - 1) * len(delimiter) + 1:
                return None
            text += "\n" * line.newlines + line.text
        cells = text.split(delimiter)
        if len(cells) >= len(columns):
            whole = _fitted(cells, columns, delimiter)
            if whole is not None:
                return whole, used
    return None


def _fitted(cells: Sequence[str], columns: Sequence[str], delimiter: str) -> tuple[str, ...] | None:
    """The cells as the columns have them; those too many become part of free text."""
    extra = len(cells) - len(columns)
    if extra > MOST_EXTRA:
        return None
    return next(
        (made for made in _guesses(cells, columns, delimiter, extra) if is_valid(made, columns)), None
    )


def _guesses(
    cells: Sequence[str], columns: Sequence[str], delimiter: str, extra: int
) -> Iterator[tuple[str, ...]]:
    free = sorted((name for name in columns if name in FREE), key=FREE.index)
    if not extra:
        yield tuple(cells)
        return
    # One field with all of them first, then every way to share them out.
    choices = sorted(combinations_with_replacement(free, extra), key=lambda names: len(set(names)))
    for names in choices:
        made: list[str] = []
        at = 0
        for column in columns:
            width = 1 + names.count(column)
            made.append(delimiter.join(cells[at : at + width]))
            at += width
        yield tuple(made)


def is_valid(cells: Sequence[str], columns: Sequence[str]) -> bool:
    """Whether every field of a known shape has it."""
    return all(
        SHAPES[name].fullmatch(cell) for name, cell in zip(columns, cells, strict=True) if name in SHAPES
    )
