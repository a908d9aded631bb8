"""Which checkpoint a program resumes from: the newest that is complete, by step, then by time."""

from __future__ import annotations

import heapq
import itertools
import math
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.checkpoint import discovery, layouts
from slurmkit.checkpoint.layout import Verdict
from slurmkit.checkpoint.names import step_in
from slurmkit.checkpoint.verdicts import Verdicts
from slurmkit.checkpoint.zips import unreadable
from slurmkit.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from slurmkit.checkpoint.discovery import Candidate
    from slurmkit.checkpoint.layout import Layout

UNKNOWN = "unknown"
"""The layout of a directory that is called like a checkpoint and holds nothing that is known as one."""
LOOKED_INTO = 64
"""Of entries whose name tells no step, so many are looked into before the others: those that changed last."""

_PLACEHOLDER = re.compile(r"\{(checkpoint|directory|name|step)\}")


class Checkpoint(NamedTuple):
    """A checkpoint, or what looks like one, and what is to be thought of it."""

    path: Path
    layout: str
    step: int | None
    verdict: Verdict
    size: int | None
    """Bytes of all that the verdict rests on, where it is complete."""


class Choice(NamedTuple):
    """What to resume from, and why not from something newer."""

    chosen: Checkpoint | None
    refused: tuple[Checkpoint, ...]
    """Newer ones that were not good enough, newest first."""
    warnings: tuple[str, ...] = ()
    """What is odd about the folder, such as a tracker file that names a checkpoint that is not complete."""


def choose(
    root: str | os.PathLike[str],
    layout: str = layouts.AUTO,
    *,
    world_size: int | None = None,
    kept: Path | None = None,
    deep: bool = False,
) -> Choice:
    """The newest complete checkpoint in a folder; none where there is none, or no folder.

    With `world_size`, one that another number of ranks wrote is passed over where its layout ties it to them.
    `kept` is the file in which verdicts are kept.

    Raises:
        UsageError: there is no such layout.
    """
    verdicts = Verdicts(kept, deep=deep)
    selected = layouts.select(layout)
    refused: list[Checkpoint] = []
    chosen = None
    for one in newest_first(Path(root).absolute(), selected, verdicts):
        reason = _mismatch(one, world_size)
        if is_complete(one) and reason is None:
            chosen = one
            break
        refused.append(one._replace(verdict=one.verdict._replace(reason=reason or one.verdict.reason)))
    verdicts.save()
    return Choice(chosen, tuple(refused), warnings_of([*refused, *([chosen] if chosen else [])]))


def survey(
    root: str | os.PathLike[str],
    layout: str = layouts.AUTO,
    *,
    kept: Path | None = None,
    deep: bool = False,
    limit: int | None = None,
) -> list[Checkpoint]:
    """All checkpoints of a folder, or the newest `limit`, newest first, whatever is to be thought of them.

    Raises:
        UsageError: there is no such layout.
    """
    verdicts = Verdicts(kept, deep=deep)
    found = newest_first(Path(root).absolute(), layouts.select(layout), verdicts)
    result = list(itertools.islice(found, limit))
    verdicts.save()
    return result


def verify(path: str | os.PathLike[str], layout: str = layouts.AUTO, *, deep: bool = False) -> Verdict:
    """What is to be thought of one checkpoint.

    Raises:
        UsageError: there is no such layout.
    """
    path = Path(path).absolute()
    selected = layouts.select(layout)
    try:
        found = (
            selected[0]
            if len(selected) == 1
            else discovery.recognise(path, discovery.named(path.name, selected))
        )
        if found is None:
            path.stat()
    except OSError as error:
        return unreadable(path, error)
    return found.verify(path, deep) if found else _nothing(path)


def resume_arguments(resume: Sequence[str], chosen: Checkpoint) -> list[str]:
    """The words of `[checkpoint] resume`: `{checkpoint}`, `{directory}`, `{name}`, `{step}` are filled in.

    Raises:
        UsageError: the step is asked for, and is not known.
    """
    values = {
        "checkpoint": str(chosen.path),
        "directory": str(chosen.path.parent),
        "name": chosen.path.name,
        "step": None if chosen.step is None else str(chosen.step),
    }

    def fill(found: re.Match[str]) -> str:
        value = values[found[1]]
        if value is None:
            raise UsageError(
                "[checkpoint] resume asks for {step}, and neither name nor content tells it",
                where=str(chosen.path),
                hint="use {checkpoint}, or name checkpoints by their step",
            )
        return value

    return [_PLACEHOLDER.sub(fill, word) for word in resume]


def newest_first(root: Path, selected: Sequence[Layout], verdicts: Verdicts) -> Iterator[Checkpoint]:
    """All checkpoints of a folder, newest first, each verified only when it is its turn.

    What a name tells is the most that a step can be: so the next to be looked into is never older than
    what has been found, and with steps in the names only those that are asked for are looked into.
    """
    candidates = discovery.discover(root, selected)
    numbers = itertools.count()
    # Highest step first, then newest; what has not been looked into comes before what has.
    queue: list[tuple[float, float, int, Candidate | Checkpoint]] = [
        (-step, -math.inf, next(numbers), one) for step, one in _ranked(candidates)
    ]
    heapq.heapify(queue)
    links = _Links(root, candidates)
    while queue:
        *_, one = heapq.heappop(queue)
        if isinstance(one, Checkpoint):
            yield one
        elif found := _look(one, selected, verdicts, links):
            step = -1 if found.step is None else found.step
            heapq.heappush(queue, (-step, -(found.verdict.saved or 0.0), next(numbers), found))


def _ranked(candidates: Sequence[Candidate]) -> list[tuple[float, Candidate]]:
    """Candidates with the most that their step can be."""
    nameless = [one for one in candidates if one.step is None]
    later: set[Path] = set()
    if len(nameless) > LOOKED_INTO:
        newest = heapq.nlargest(LOOKED_INTO, nameless, key=lambda one: _changed(one.path))
        later = {one.path for one in nameless} - {one.path for one in newest}
    return [
        (-1.0 if one.path in later else math.inf if one.step is None else one.step, one) for one in candidates
    ]


def _changed(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0


class _Links:
    """Tells which links lead to what is a candidate by itself, or has been met already."""

    def __init__(self, root: Path, candidates: Sequence[Candidate]) -> None:
        self._root = os.path.realpath(root)
        self._names = {one.path.name for one in candidates if not one.is_link}
        self._met: set[str] = set()

    def is_double(self, link: Path) -> bool:
        """Whether the link's target is counted without it.

        Raises:
            OSError: the link leads nowhere, or in a circle.
        """
        target = os.path.realpath(link, strict=True)
        folder, name = os.path.split(target)
        if target in self._met or (folder == self._root and name in self._names):
            return True
        self._met.add(target)
        return False


def _look(one: Candidate, selected: Sequence[Layout], verdicts: Verdicts, links: _Links) -> Checkpoint | None:
    """What a candidate is; None where it is no checkpoint, or is counted elsewhere."""
    # Where a layout is given, whatever goes by a step's name is told about.
    is_asked = len(selected) == 1 and (one.step is not None or one.is_root)
    problem, layout = one.problem, None
    try:
        if one.is_link and links.is_double(one.path):
            return None
        if problem is None:
            layout = one.layouts[0] if is_asked else discovery.recognise(one.path, one.layouts)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not one.is_link:
            return None  # removed since it was listed
        problem = unreadable(one.path, error)
    if problem:
        return _without_layout(one, problem)
    if layout is None:
        # One that has just been begun holds nothing yet.
        is_meant = one.is_root or (one.is_directory and step_in(one.path.name) is not None)
        return _without_layout(one, _nothing(one.path)) if is_meant else None
    verdict, size = verdicts.of(one.path, layout)
    if verdict.state == "foreign" and not is_asked:
        return None
    step = layout.step_of(one.path.name)
    return Checkpoint(one.path, layout.name, verdict.step if step is None else step, verdict, size)


def _without_layout(one: Candidate, verdict: Verdict) -> Checkpoint:
    return Checkpoint(one.path, UNKNOWN, step_in(one.path.name), verdict, None)


def _nothing(path: Path) -> Verdict:
    return Verdict("incomplete", f"{path.name} holds nothing that is known as a checkpoint")


def is_complete(one: Checkpoint) -> bool:
    """Whether a program can resume from it, as far as can be told from the outside."""
    return one.verdict.state == "complete"


def warnings_of(found: Sequence[Checkpoint]) -> tuple[str, ...]:
    """What is wrong with the tracker files beside checkpoints: programs go by them."""
    places = dict.fromkeys((one.path.parent, layouts.TRACKER_PROBLEMS.get(one.layout)) for one in found)
    problems = (problem(folder) for folder, problem in places if problem)
    return tuple(problem for problem in problems if problem)


def _mismatch(one: Checkpoint, world_size: int | None) -> str | None:
    """Why so many ranks cannot resume from a complete checkpoint."""
    written_by = one.verdict.world_size
    if not is_complete(one) or None in {world_size, written_by} or written_by == world_size:
        return None
    reshards = any(layout.name == one.layout and layout.reshards for layout in layouts.LAYOUTS)
    if reshards and not one.verdict.is_tied:
        return None
    return f"written by {written_by} ranks, and only so many can load it; now there are {world_size}"
