"""What slurmkit knows of one way of writing checkpoints, and what it says of one checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Verdict(NamedTuple):
    """What can be said of a checkpoint from the outside, and on which files that rests."""

    state: str
    """`complete`, `incomplete` (pieces are missing, or it is being written), `damaged` (pieces contradict
    each other), `unverified` (only a load can tell) or `foreign` (no checkpoint of this layout)."""

    reason: str
    """One sentence that names the file: "__3_0.distcp has 1,024 bytes of 4,096"."""

    step: int | None = None
    """Where the content tells it."""

    world_size: int | None = None
    """Number of the ranks that wrote it, where that can be told."""

    rests_on: tuple[str, ...] = ()
    """Files, relative to the checkpoint, that the verdict rests on; `("",)` where it is a file itself.

    Kept verdicts are trusted only while their sizes and times stand."""

    saved: float | None = None
    """Epoch seconds at which it became complete: mtime of its marker, or of its newest file."""

    is_tied: bool = False
    """Whether only as many ranks as wrote it can load it, though its layout reshards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One way of writing checkpoints."""

    name: str
    summary: str
    resume: tuple[str, ...]
    """What `[checkpoint] resume` usually is, e.g. `("--load", "{directory}", "--ckpt-step", "{step}")`."""

    reshards: bool
    """Whether another number of ranks can load it, unless the verdict on one says that it is tied."""

    step_of: Callable[[str], int | None]
    """The step by the entry's name alone; None where the name tells none."""

    is_named: Callable[[str], bool]
    """Whether an entry of this name can be one of this layout; temporary names are none."""

    is_one: Callable[[Path], bool]
    """A cheap look: one listing of the directory, or the first bytes of a file. May raise OSError."""

    verify: Callable[[Path, bool], Verdict]
    """(path, deep) -> Verdict, from the outside; deep reads every byte. Never raises for bad content."""

    trackers: tuple[str, ...] = ()
    """Names of tracker files beside the checkpoints, such as `latest`."""
