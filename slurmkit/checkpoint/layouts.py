"""The one table of layouts, in the order in which `auto` tries them."""

from __future__ import annotations

from difflib import get_close_matches

from slurmkit.checkpoint import plain, safetensors, torch_dcp
from slurmkit.checkpoint.layout import Layout
from slurmkit.errors import UsageError

AUTO = "auto"

LAYOUTS: tuple[Layout, ...] = (
    # Where somebody has called commit(), nothing else is meant.
    plain.LAYOUT,
    torch_dcp.LAYOUT,
    safetensors.LAYOUT,
)
"""Then the specific before the general: many a directory holds files that are checkpoints by themselves."""


def select(name: str) -> tuple[Layout, ...]:
    """The layouts that a name in a job file stands for: all of them for `auto`.

    Raises:
        UsageError: there is no such layout.
    """
    if name == AUTO:
        return LAYOUTS
    for layout in LAYOUTS:
        if layout.name == name:
            return (layout,)
    names = [AUTO, *(layout.name for layout in LAYOUTS)]
    close = get_close_matches(name, names, n=1)
    raise UsageError(
        f"no checkpoint layout is called {name!r}",
        hint=f"did you mean {close[0]!r}?" if close else f"one of {', '.join(names)}",
    )
