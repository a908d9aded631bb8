"""The one table of layouts, in the order in which `auto` tries them."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from slurmkit.checkpoint import (
    accelerate,
    deepspeed,
    huggingface,
    lightning,
    megatron,
    nemo,
    orbax,
    plain,
    safetensors,
    torch_dcp,
    torch_save,
    torchtitan,
)
from slurmkit.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from slurmkit.checkpoint.layout import Layout

AUTO = "auto"

LAYOUTS: tuple[Layout, ...] = (
    # Where somebody has called commit(), nothing else is meant.
    plain.LAYOUT,
    orbax.LAYOUT,
    megatron.LAYOUT,
    torchtitan.LAYOUT,
    nemo.LAYOUT,
    lightning.LAYOUT,
    torch_dcp.LAYOUT,
    # These also go by names that others use, and never hold the traces of those above.
    deepspeed.LAYOUT,
    huggingface.LAYOUT,
    accelerate.LAYOUT,
    safetensors.LAYOUT,
    torch_save.LAYOUT,
)
"""Then the specific before the general: many a directory holds files that are checkpoints by themselves."""

TRACKER_PROBLEMS: dict[str, Callable[[Path], str | None]] = {
    megatron.LAYOUT.name: megatron.tracker_problem,
    deepspeed.LAYOUT.name: deepspeed.tracker_problem,
}
"""What is wrong with a folder's tracker file, in a sentence, by layout."""


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
