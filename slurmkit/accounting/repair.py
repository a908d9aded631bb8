"""Records of a dump that a line does not hold: put together again, or counted as lost. Pure.

A name, a comment or a path may hold a newline, which cuts a record in two, and the delimiter, which gives it
a field too many. The fields that cannot hold any text tell whether a guess is right.
"""

from __future__ import annotations

from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.accounting.fields import FREE, SHAPES
from slurmkit.accounting.header import END

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

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
    if not 0 <= extra <= MOST_EXTRA:
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


def mend(lines: Iterable[Line], columns: Sequence[str], delimiter: str) -> Iterator[Line | Record]:
    """All records of a dump, from all its lines; a `Line` is one that is lost.

    It sees what `repair` cannot: that the rest of a record stands in a line of its own, before or after one
    that is whole by itself, or is by chance as long as a whole one.
    """
    is_whole = _whole(columns)
    held: Record | None = None
    broken: list[Line] = []
    for line in lines:
        cells = line.text.split(delimiter)
        record = Record(line.number, tuple(cells)) if is_whole(cells) else None
        if record is None:
            broken.append(line)
            text = "\n".join(one.text for one in broken)
            whole = _fitted(text.split(delimiter), columns, delimiter)
            if whole is None and len(broken) < MOST_LINES:
                continue
            record = Record(broken[0].number, whole) if whole else None
            broken = [] if whole else broken
        yield from _settled(held, broken, record, columns, delimiter)
        held, broken = _next(held, broken, record, columns), []
    yield from _settled(held, broken, None, columns, delimiter)


def _whole(columns: Sequence[str]) -> Callable[[Sequence[str]], bool]:
    """Whether cells are a record as they are, by the two fields that no record lacks."""
    count, at = len(columns), columns.index("jobid")
    shape = SHAPES["jobid"].fullmatch
    is_ended = columns[-1] == END
    return lambda cells: len(cells) == count and shape(cells[at]) is not None and not (is_ended and cells[-1])


def _settled(
    held: Record | None,
    broken: Sequence[Line],
    after: Record | None,
    columns: Sequence[str],
    delimiter: str,
) -> Iterator[Line | Record]:
    """The record before broken lines, with them where they are its last field's; else they may be lost."""
    if broken and held is not None and columns[-1] in FREE and not _begins(broken[0], columns, delimiter):
        rest = "".join("\n" + line.text for line in broken)
        yield Record(held.line, (*held.cells[:-1], held.cells[-1] + rest))
        return
    if held is not None:
        yield held
    if broken and not (after is not None and _is_first_fields(columns, held)):
        yield from (line for line in broken if line.text)


def _begins(line: Line, columns: Sequence[str], delimiter: str) -> bool:
    """Whether a broken line is the begin of a record of its own, which was cut."""
    cells, at = line.text.split(delimiter), columns.index("jobid")
    return len(cells) > at + 1 and SHAPES["jobid"].fullmatch(cells[at]) is not None


def _is_first_fields(columns: Sequence[str], held: Record | None) -> bool:
    return columns[0] in FREE and not (held is not None and columns[-1] in FREE)


def _next(
    held: Record | None, broken: Sequence[Line], record: Record | None, columns: Sequence[str]
) -> Record | None:
    """A record, with the broken lines before it where they are its first field's."""
    if record is None or not broken or not _is_first_fields(columns, held):
        return record
    before = "".join(line.text + "\n" for line in broken)
    return Record(broken[0].number, (before + record.cells[0], *record.cells[1:]))
