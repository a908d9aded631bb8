"""Sizes of jobs in a few classes: by GPUs, and by nodes where a job has none."""

from __future__ import annotations

GPU_CLASSES = ((1, 1), (2, 7), (8, 8), (9, 63), (64, 511), (512, None))
NODE_CLASSES = ((1, 1), (2, 7), (8, 63), (64, 511), (512, None))
"""The least and the most of each class."""

ALLOCATED = ("coalesce(gpus, 0)", "nodes")
ASKED = ("coalesce(nullif(requested_gpus, 0), gpus, 0)", "greatest(requested_nodes, nodes)")
"""GPUs and nodes, as SQL over jobs: what one has, and what one that waits will have."""


def _names(unit: str, classes: tuple[tuple[int, int | None], ...]) -> dict[str, int]:
    """Each class's name and the least that belongs to it."""
    named = {}
    for least, most in classes:
        span = f"{least}" if least == most else f"{least}-{most}" if most else f"{least}+"
        named[f"{span} {unit}{'' if span == '1' else 's'}"] = least
    return named


GPU_SIZES = _names("GPU", GPU_CLASSES)
NODE_SIZES = _names("node", NODE_CLASSES)
SIZES = (*GPU_SIZES, *NODE_SIZES)
"""The names of all classes, in their order."""


def size_of(gpus: str, nodes: str) -> str:
    """SQL that names the class of a job; NULL where neither is known."""
    cases = [f"WHEN {gpus} >= {least} THEN '{name}'" for name, least in reversed(GPU_SIZES.items())]
    cases += [f"WHEN {nodes} >= {least} THEN '{name}'" for name, least in reversed(NODE_SIZES.items())]
    return f"CASE {' '.join(cases)} END"


def in_order(size: str) -> str:
    """SQL that sorts a column of class names as `SIZES` stand; NULL is last."""
    return f"coalesce(nullif(list_position([{', '.join(repr(name) for name in SIZES)}], {size}), 0), 99)"
