"""The text of squeue and sacct, cut into rows by a delimiter that nobody types.

Free text stands last and may hold newlines: a row ends at the end of a line, once all columns have been seen.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from slurmkit.slurm.ids import JobId

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

DELIMITER = "\x1f\x1e"
"""Two characters, so that a stray one in a job's name does no harm. It follows every column, the last too."""

_START = re.compile(rf"\d+[^\s{DELIMITER}]*{DELIMITER}", re.ASCII)


def rows(text: str, columns: Sequence[str]) -> Iterator[dict[str, str]]:
    """The rows of an answer whose first column is a job or step id, as column to text.

    Other lines between the rows, as a site's wrapper may print them, are passed over.

    Raises:
        ValueError: the last row has too few columns; holds the row.
    """
    row: list[str] = []
    seen = 0
    for line in text.split("\n"):
        if not row and not _START.match(line):
            continue
        row.append(line)
        seen += line.count(DELIMITER)
        if seen >= len(columns) and line.endswith(DELIMITER):
            cells = "\n".join(row).removesuffix(DELIMITER).split(DELIMITER, len(columns) - 1)
            yield dict(zip(columns, cells, strict=True))
            row, seen = [], 0
    if row:
        left_over = "\n".join(row)
        raise ValueError(f"a row of {seen} columns instead of {len(columns)}: {left_over!r}")


def by_base(ids: Iterable[JobId]) -> dict[int, list[JobId]]:
    """Ids by the number that a whole array or het job goes by."""
    grouped: dict[int, list[JobId]] = {}
    for one in ids:
        grouped.setdefault(one.job, []).append(one)
    return grouped


def is_wanted(job: JobId, raw: str, wanted: Mapping[int, Sequence[JobId]]) -> bool:
    """Whether a row is one of the jobs asked for, by its id or by the number that Slurm itself gave it."""
    if any(one.covers(job) for one in wanted.get(job.job, ())):
        return True
    return raw.isdigit() and JobId(int(raw)) in wanted.get(int(raw), ())


def number(text: str | None) -> int | None:
    """A count; None for a word such as UNLIMITED."""
    return int(text) if text and text.isascii() and text.isdigit() else None


def text_or_none(text: str | None) -> str | None:
    """Text; None for the words with which Slurm says that there is none."""
    return None if text in {None, "", "(null)", "N/A", "None", "None assigned"} else text
