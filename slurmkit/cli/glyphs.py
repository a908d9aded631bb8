"""Bars and curves of block characters, with a second set for terminals that know ASCII only. Pure."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Glyphs(NamedTuple):
    """What bars and curves are drawn with."""

    parts: str
    """Of a bar: a cell from nearly empty to full."""
    rest: str
    """Of a bar: a cell that is not reached yet."""
    heights: str
    """A cell of a curve, from lowest to highest."""
    shades: str
    """Kinds that can be told apart without colour."""
    rule: str
    ellipsis: str


BLOCKS = Glyphs("╸━", "─", "▁▂▃▄▅▆▇█", "█▓▒░▞", "─", "…")
ASCII = Glyphs("#", ".", "_.-=+*#", "#=-.:", "-", "~")


def glyphs_for(encoding: str | None) -> Glyphs:
    """The set that an encoding can write."""
    try:
        "".join(BLOCKS).encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return BLOCKS


def bar(part: float, width: int, glyphs: Glyphs) -> tuple[str, str]:
    """A bar of which `part`, from 0 to 1, is full; and the rest of it."""
    fine = len(glyphs.parts)
    filled = int(min(max(part, 0.0), 1.0) * width * fine)
    cells, remainder = divmod(filled, fine)
    full = glyphs.parts[-1] * cells + (glyphs.parts[remainder - 1] if remainder else "")
    return full, glyphs.rest * (width - len(full))


def curve(values: Sequence[float], width: int, glyphs: Glyphs) -> str:
    """Values as heights, oldest first; where there are more than columns, their means.

    The ground is the lowest, or half of the highest, lest small changes look large or cannot be seen.
    """
    if not values or width < 1:
        return ""
    columns = min(width, len(values))
    edges = [len(values) * index // columns for index in range(columns + 1)]
    means = [sum(values[first:last]) / (last - first) for first, last in pairwise(edges)]
    highest, top = max(means), len(glyphs.heights) - 1
    lowest = min(*means, highest / 2)
    span = highest - lowest or 1.0
    return "".join(glyphs.heights[round((mean - lowest) / span * top)] for mean in means)


def split(parts: Sequence[float], width: int) -> list[int]:
    """Shares as numbers of cells that add up to `width`; the largest remainders are rounded up."""
    exact = [part * width for part in parts]
    cells = [int(one) for one in exact]
    by_remainder = sorted(range(len(parts)), key=lambda index: cells[index] - exact[index])
    for index in by_remainder[: width - sum(cells)]:
        cells[index] += 1
    return cells
