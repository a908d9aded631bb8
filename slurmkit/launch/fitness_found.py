"""What a check of a node has found, and how it is said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LONGEST = 300


class Found(NamedTuple):
    """What makes the node unfit, what is odd, what else there is to know."""

    problems: Sequence[str] = ()
    warnings: Sequence[str] = ()
    facts: Mapping[str, Any] = {}


def one_line(text: str) -> str:
    """Text that fits a line and steers no terminal."""
    shown = "".join(c if c.isprintable() else " " for c in text).strip()
    return shown if len(shown) <= LONGEST else shown[: LONGEST - 1] + "…"


def in_seconds(seconds: float) -> str:
    """A time limit as people write it."""
    return "%.0f s" % seconds if seconds >= 1 else "%.1f s" % seconds


def amount(count: int) -> str:
    """Bytes as people write them: 64 MiB."""
    power = min(max(count.bit_length() - 1, 0) // 10, 4)
    return "%.4g %s" % (count / 1024**power, ("B", "KiB", "MiB", "GiB", "TiB")[power])
