"""Orbax: a directory for each step that gets its name when it is whole, with `_CHECKPOINT_METADATA` in it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from slurmkit.checkpoint import pieces
from slurmkit.checkpoint.layout import Layout, Verdict

if TYPE_CHECKING:
    from pathlib import Path

METADATA = "_CHECKPOINT_METADATA"
TEMPORARY = ".orbax-checkpoint-tmp"
COMMITTED = "commit_success.txt"
_NAME = re.compile(r"(?:.*_)?(\d+)")
_TREE = frozenset({"_METADATA", "_sharding", "manifest.ocdbt", "array_metadatas"})
"""What stands in the directory of an item of arrays."""


def step_of(name: str) -> int | None:
    """The number of `<step>` or `<prefix>_<step>`."""
    found = _NAME.fullmatch(name)
    return int(found[1]) if found else None


@pieces.from_outside
def verify(path: Path, deep: bool) -> Verdict:  # noqa: FBT001
    """Whether it was committed and its items are all there."""
    names = pieces.names_in(path)
    step = step_of(path.name)
    if TEMPORARY in path.name:
        return pieces.partial(f"{path.name} is the name of one that is being written", step=step)
    if METADATA not in names:
        state = "incomplete" if names & (_TREE | {COMMITTED}) or step is not None else "foreign"
        return Verdict(state, f"{METADATA} is not there", step, rests_on=("",))
    try:
        about = pieces.read_json(path / METADATA)
    except ValueError as fault:
        return pieces.partial(f"{METADATA} {fault}", METADATA, step=step)
    if not pieces.nested(about, "commit_timestamp_nsecs"):
        return pieces.partial(f"{METADATA} has no time of its commit", METADATA, step=step)
    items = _items(about, names)
    for item in items:
        inside = pieces.names_in(path / item)
        if unfinished := sorted(name for name in inside if TEMPORARY in name):
            return pieces.partial(f"{unfinished[0]} was not finished", item, step=step)
    return Verdict(
        "complete", "committed", step, rests_on=("", METADATA), saved=(path / METADATA).stat().st_mtime
    )


def _items(about: dict[str, Any], names: frozenset[str]) -> list[str]:
    """The directories of the items that the metadata name; the checkpoint itself where it is a single one."""
    handlers = about.get("item_handlers")
    return sorted(handlers) if isinstance(handlers, dict) else ["."]


LAYOUT = Layout(
    name="orbax",
    summary="Orbax: <step>/ with _CHECKPOINT_METADATA, as of CheckpointManager",
    resume=(),
    reshards=True,
    step_of=step_of,
    is_named=lambda name: not name.startswith(".") and TEMPORARY not in name,
    is_one=lambda path: pieces.holds(path, lambda names: METADATA in names or "manifest.ocdbt" in names),
    verify=verify,
)
