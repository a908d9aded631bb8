"""Removing old checkpoints: never what may still be needed."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from slurmkit.checkpoint import layouts, plain
from slurmkit.checkpoint.choice import is_complete, newest_first
from slurmkit.checkpoint.verdicts import Verdicts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slurmkit.checkpoint.choice import Checkpoint
    from slurmkit.checkpoint.layout import Layout

LEAST = 2
"""Complete checkpoints that stay, whatever is asked for: the newest may turn out to be worth nothing."""
_NUMBER = re.compile(r"\d+")
REMOVING = ".slurmkit-removing."
"""Stands before the name of what is being removed: hidden, so that nobody takes it for a checkpoint."""


def prune(root: Path, layout: str, keep: int, *, kept: Path | None = None) -> list[Path]:
    """Remove checkpoints older than the newest `keep` complete ones, and return them. At least two stay.

    Older is what has both a lower step and an earlier time. Only what is of the layout of those that stay,
    and called as they are but for the numbers, is removed: data may lie about. What is not complete goes with
    them where it is surely a checkpoint; what only a load can tell, links, and what a link in the folder
    points at stay. What cannot be removed stays, and is tried again the next time.

    Raises:
        UsageError: there is no such layout.
    """
    root = Path(root).absolute()
    selected = layouts.select(layout)
    try:
        protected = _tidy(root)
    except OSError:
        return []
    verdicts = Verdicts(kept)
    old = _old(list(newest_first(root, selected, verdicts)), max(keep, LEAST))
    verdicts.save()
    return [
        one.path
        for one in old
        if one.path != root
        and os.path.realpath(one.path) not in protected
        and (is_complete(one) or _is_surely(one, selected))
        and _remove(one.path)
    ]


def _old(found: Sequence[Checkpoint], keep: int) -> list[Checkpoint]:
    """Those that come after the last that stays, and were not saved later than all that stay.

    After somebody went back to an earlier step, what is newest has no high step.
    """
    places = [place for place, one in enumerate(found) if is_complete(one)][:keep]
    if len(places) < keep:
        return []
    staying = [found[place] for place in places]
    newest = max(one.verdict.saved or 0.0 for one in staying)
    kinds = set(map(_kind, staying))
    return [
        one
        for one in found[places[-1] + 1 :]
        if one.step is not None and _kind(one) in kinds and _time_of(one) <= newest
    ]


def _kind(one: Checkpoint) -> tuple[str, str]:
    return one.layout, _NUMBER.sub("0", one.path.name)


def _time_of(one: Checkpoint) -> float:
    try:
        return one.path.stat().st_mtime if one.verdict.saved is None else one.verdict.saved
    except OSError:
        return float("inf")


def _is_surely(one: Checkpoint, selected: Sequence[Layout]) -> bool:
    """Whether what is incomplete or damaged is a checkpoint at all, and no folder of something else."""
    if one.verdict.state not in {"incomplete", "damaged"}:
        return False
    try:
        return any(layout.name == one.layout and layout.is_one(one.path) for layout in selected)
    except OSError:
        return False


def _tidy(root: Path) -> set[str]:
    """Finish removals that were interrupted; returns what the links in the folder point at.

    Raises:
        OSError: there is no such folder, or it cannot be read.
    """
    with os.scandir(root) as entries:
        found = [(entry.name, entry.is_symlink()) for entry in entries]
    for name, _ in found:
        if name.startswith(REMOVING):
            with contextlib.suppress(OSError):
                _delete(root / name, root / plain.manifest_beside(name.removeprefix(REMOVING)))
    return {os.path.realpath(root / name) for name, is_link in found if is_link}


def _remove(path: Path) -> bool:
    """Take a checkpoint away under its name, all at once, then delete it piece by piece."""
    if path.is_symlink():
        return False
    hidden = path.with_name(REMOVING + path.name)
    try:
        path.rename(hidden)
    except OSError:
        return False
    # What is left of it now is removed the next time.
    with contextlib.suppress(OSError):
        _delete(hidden, path.with_name(plain.manifest_beside(path.name)))
    return True


def _delete(hidden: Path, manifest: Path) -> None:
    """Delete what was taken away; the manifest of a file first, by which the next time knows of it."""
    if hidden.is_dir() and not hidden.is_symlink():
        shutil.rmtree(hidden)
    else:
        manifest.unlink(missing_ok=True)
        hidden.unlink()
