"""The last lines of a log that may be long, still growing, and meant for a terminal of its own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

REACH = 16 * 1024
"""Bytes from the end that are looked at."""

_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*(?:[@-~]|$)|[]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~]|$)"
    r"|\x9b[0-?]*[ -/]*[@-~]"
)
"""Colours, movements of the cursor, titles of windows: they were meant for another screen."""


def tail(path: Path, count: int) -> list[str]:
    """The last `count` lines, without escape sequences; of what was overwritten in place, the last state."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(size - REACH, 0))
            data = file.read(REACH)
    except OSError:
        return []
    lines = data.decode("utf-8", "replace").split("\n")
    if size > REACH:
        del lines[0]
    if lines and not lines[-1]:
        lines.pop()
    return [_as_seen(line) for line in lines[-count:]]


def _as_seen(line: str) -> str:
    """A line as it stood there last: a progress bar goes back to its start with each change."""
    shown = line.rstrip("\r").rpartition("\r")[2]
    return _ESCAPES.sub("", shown).expandtabs(4)
