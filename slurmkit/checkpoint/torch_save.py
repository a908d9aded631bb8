"""One file of torch.save for each checkpoint, as most programs write it that save by themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slurmkit.checkpoint import zips
from slurmkit.checkpoint.layout import Layout, Verdict
from slurmkit.checkpoint.names import is_temporary, step_in

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SUFFIXES = (".pt", ".pth", ".bin", ".ckpt", ".pt.tar", ".pth.tar")
STEP_NAMES = ("global_step", "step", "iteration", "iter", "global_steps")
"""Under which programs keep their step, the surest first."""
ADVICE = "save without _use_new_zipfile_serialization=False, and its size can be told"


def verify(path: Path, deep: bool) -> Verdict:  # noqa: FBT001
    """Whether the file is whole, and the step where the saved dict holds one; deep compares its checksums."""
    verdict = zips.verify_file(path, deep)
    if verdict.state == "unverified":
        return verdict._replace(reason=f"{verdict.reason}; {ADVICE}")
    return verdict._replace(step=step_inside(path)) if verdict.state == "complete" else verdict


def step_inside(path: Path) -> int | None:
    """The step that the saved dict of a whole file holds."""
    try:
        return step_in_dict(zips.saved(path))
    except OSError:
        return None


def step_in_dict(saved: Mapping[Any, Any]) -> int | None:
    """The step that a saved dict holds under one of the usual names."""
    steps = (saved.get(name) for name in STEP_NAMES)
    return next((step for step in steps if type(step) is int and step >= 0), None)


def is_named(name: str) -> bool:
    """Whether a name has one of the suffixes that files of torch.save have."""
    return name.lower().endswith(SUFFIXES) and not is_temporary(name)


def _is_one(path: Path) -> bool:
    """Whether it is a file that begins as torch.save's do, or one that is so named and holds nothing yet."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(len(zips.HEAD))
    return zips.HEAD.startswith(head) or head == zips.LEGACY_HEAD or not any(head)


LAYOUT = Layout(
    name="torch-save",
    summary="torch.save: one file, *.pt, *.pth, *.bin or *.ckpt",
    resume=("--resume", "{checkpoint}"),
    reshards=True,
    step_of=step_in,
    is_named=is_named,
    is_one=_is_one,
    verify=verify,
)
