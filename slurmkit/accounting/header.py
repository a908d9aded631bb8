"""What the first lines of a dump tell: its fields and its delimiter, or why it cannot be read. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.accounting.fields import KNOWN, canonical
from slurmkit.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

HOW = "sacct --parsable2 --format=JobID,JobIDRaw,State,... > FILE"
END = "end_of_line"
"""The column after a delimiter at the end of lines, as `sacct --parsable` prints it."""
_FIRST = re.compile(r"\s*(\w+)(\W+)(?=\w)")


class Header(NamedTuple):
    """How the lines of a dump are made."""

    columns: tuple[str, ...]
    """Canonical names; fields that nobody knows keep their own."""
    delimiter: str
    unknown: tuple[str, ...] = ()


def read_header(head: Sequence[str], name: str, delimiter: str | None = None) -> Header:
    """The fields and the delimiter of a dump, from its first lines.

    Raises:
        UsageError: it has no header, or one that cannot be; or its texts were cut to a width.
    """
    first = head[0].removeprefix("\ufeff").rstrip("\r") if head else ""
    found = _FIRST.match(first)
    name_of_first = (found[1] if found else first.strip()).lower()
    if canonical(name_of_first) not in KNOWN:
        raise UsageError(
            "the first line does not name sacct's fields" if first else "the dump is empty",
            where=f"{name}:1",
            hint=f"make it with its header: {HOW}",
        )
    if len(head) > 1 and re.fullmatch(r"[-\s]+", head[1]):
        raise UsageError("the texts were cut to the width of columns", where=f"{name}:2", hint=HOW)
    between = delimiter or (found[2] if found else "|")
    if delimiter and delimiter not in first and found:
        raise UsageError(f"the delimiter {delimiter!r} is not in the header", where=f"{name}:1")
    names = first.split(between)
    names[-1] = names[-1] or END
    columns, unknown = _columns(names, name)
    return Header(columns, between, unknown)


def _columns(names: Sequence[str], where: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    columns: list[str] = []
    for given in names:
        own, known = given.strip().lower().partition("%")[0], canonical(given)
        if own in columns:
            raise UsageError(f"the header has the column {given.strip()} twice", where=f"{where}:1")
        columns.append(own if known in columns else known)
    if "jobid" not in columns:
        if "jobidraw" not in columns:
            raise UsageError("the dump has no column JobID", where=f"{where}:1", hint=HOW)
        columns[columns.index("jobidraw")] = "jobid"
    unknown = tuple(name for name in columns if name not in KNOWN and name != END)
    return tuple(columns), unknown
