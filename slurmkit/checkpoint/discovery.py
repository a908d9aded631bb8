"""What there is in a checkpoint folder: one listing, names first, a look inside only where it is needed."""

from __future__ import annotations

import heapq
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.checkpoint import plain
from slurmkit.checkpoint.layout import Verdict
from slurmkit.checkpoint.names import is_temporary
from slurmkit.checkpoint.zips import unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from slurmkit.checkpoint.layout import Layout

LOOKED_AT = 8
"""Entries, the newest, that are looked into to tell a folder of checkpoints from a checkpoint."""

_PIECE = re.compile(r"-\d{5,}-of-\d{5,}\.")
"""In the name of a file that is nothing without others."""


class Candidate(NamedTuple):
    """An entry that can be a checkpoint by its name."""

    path: Path
    layouts: tuple[Layout, ...]
    """Those that its name allows, in the order of recognition."""
    step: int | None = None
    """The highest that the name can mean; None where a layout has to look inside."""
    is_link: bool = False
    is_directory: bool = False
    is_root: bool = False
    """Whether it is what was asked about, and no entry of it."""
    problem: Verdict | None = None
    """Why it cannot be looked at."""


def discover(root: Path, layouts: Sequence[Layout]) -> list[Candidate]:
    """The candidates in a folder, in no order; the folder alone where it is a checkpoint itself.

    Nothing where there is no such folder: no checkpoint has been written yet.
    """
    try:
        entries = _list(root)
    except FileNotFoundError:
        return [_refused(root, FileNotFoundError())] if root.is_symlink() else []
    except NotADirectoryError:
        return [Candidate(root, named(root.name, layouts), is_root=True)]
    except OSError as error:
        return [_refused(root, error)]
    trackers = {name for layout in layouts for name in layout.trackers}
    names = {entry.name for entry in entries}
    found = []
    for entry in entries:
        if entry.name not in trackers and not is_temporary(entry.name) and not _PIECE.search(entry.name):
            is_committed = len(layouts) == 1 or plain.manifest_beside(entry.name) in names
            if candidate := _candidate(root, entry, layouts, is_committed=is_committed):
                found.append(candidate)
    if itself := _itself(root, found, layouts):
        return [Candidate(root, (itself,), is_directory=True, is_root=True)]
    return found


def named(name: str, layouts: Sequence[Layout]) -> tuple[Layout, ...]:
    """The layouts that a name allows; all where it allows none, for somebody has named it on purpose."""
    return tuple(layout for layout in layouts if layout.is_named(name)) or tuple(layouts)


def recognise(path: Path, layouts: Iterable[Layout]) -> Layout | None:
    """The first layout that a look inside shows; None where it is none of them.

    Raises:
        OSError: it cannot be looked at.
    """
    return next((layout for layout in layouts if layout.is_one(path)), None)


def _list(root: Path) -> list[os.DirEntry[str]]:
    with os.scandir(root) as entries:
        return list(entries)


def _candidate(
    root: Path, entry: os.DirEntry[str], layouts: Sequence[Layout], *, is_committed: bool
) -> Candidate | None:
    is_link, is_directory = entry.is_symlink(), entry.is_dir(follow_symlinks=False)
    possible = tuple(
        layout
        for layout in layouts
        if layout.is_named(entry.name)
        # Of plain files there are many; the listing tells which have a manifest.
        and (layout is not plain.LAYOUT or is_directory or is_link or is_committed)
    )
    if not possible:
        return None
    return Candidate(root / entry.name, possible, _step(entry.name, possible), is_link, is_directory)


def _step(name: str, layouts: Sequence[Layout]) -> int | None:
    steps = [(layout.step_of(name), has_own_names(layout)) for layout in layouts]
    if (None, True) in steps:
        return None  # such as `epoch=3.ckpt`, of which only the content tells the step
    return max((step for step, _ in steps if step is not None), default=None)


def _refused(path: Path, error: OSError) -> Candidate:
    return Candidate(path, (), problem=unreadable(path, error))


def has_own_names(layout: Layout) -> bool:
    """Whether a layout's checkpoints are called as no others are, such as `iter_0000100`."""
    return not layout.is_named("anything")


def _itself(root: Path, found: Sequence[Candidate], layouts: Sequence[Layout]) -> Layout | None:
    """The layout of the folder, where it is no folder of checkpoints but one itself.

    Its name decides, then what is in its newest entries, then what is in it.
    """
    try:
        for layout in layouts:
            is_called_so = layout.is_named(root.name) and layout.step_of(root.name) is not None
            if is_called_so and (len(layouts) == 1 or has_own_names(layout)) and layout.is_one(root):
                return layout
        if any(_holds(found, layouts)):
            return None
        itself = recognise(root, named(root.name, layouts))
        return None if itself and any(_are(found, itself)) else itself
    except OSError:
        return None


def _newest(found: Sequence[Candidate], *, is_directory: bool) -> list[Candidate]:
    of_kind = (one for one in found if one.is_directory is is_directory and one.step is not None)
    return heapq.nlargest(LOOKED_AT, of_kind, key=lambda one: one.step or 0)


def _are(found: Sequence[Candidate], layout: Layout) -> Iterator[bool]:
    """For the newest files, whether each is a checkpoint of a layout that makes a whole of such files too."""
    for one in _newest(found, is_directory=False):
        yield not has_own_names(layout) and layout in one.layouts and layout.is_one(one.path)


def _holds(found: Sequence[Candidate], layouts: Sequence[Layout]) -> Iterator[bool]:
    """For the newest directories, whether each is surely a checkpoint of its own."""
    for one in _newest(found, is_directory=True):
        for layout in one.layouts:
            is_sure = len(layouts) == 1 or has_own_names(layout) or layout is plain.LAYOUT
            yield is_sure and layout.is_one(one.path)
