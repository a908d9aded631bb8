"""Text with a delimiter that nobody types, as squeue and sacct print it, cut into rows.

Free text may hold newlines, and a hostile name even the delimiter: the last column takes what is left over,
and a row begins only where a line begins with an id and the delimiter.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DELIMITER = "\x1f"

_START = re.compile(rf"(?:\A|\n)(?=\d+(?:_\d+|_\[[^\]\n]*\]|\+\d+)?(?:\.\w+)?{DELIMITER})", re.ASCII)


def rows(text: str, columns: Sequence[str]) -> Iterator[dict[str, str]]:
    """The rows of an answer whose first column is a job or step id, as column to text.

    Raises:
        ValueError: a row has too few columns; holds the row.
    """
    starts = [found.end() for found in _START.finditer(text)]
    for start, end in pairwise([*starts, len(text)]):
        row = text[start:end].removesuffix("\n")
        cells = row.split(DELIMITER, len(columns) - 1)
        if len(cells) != len(columns):
            raise ValueError(f"a row of {len(cells)} columns instead of {len(columns)}: {row!r}")
        yield dict(zip(columns, cells, strict=True))
