"""Lightning: `*.ckpt`, a file of torch.save, or, sharded, a directory with `meta.pt`, its last."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from slurmkit.checkpoint import torch_dcp, torch_save, zips
from slurmkit.checkpoint.layout import Layout, Verdict
from slurmkit.checkpoint.names import is_temporary
from slurmkit.checkpoint.safetensors import MARKER_TOLERANCE

if TYPE_CHECKING:
    from pathlib import Path

META = "meta.pt"
VERSION_KEY = "pytorch-lightning_version"
SUFFIX = ".ckpt"
_STEP = re.compile(r"(?:^|[-_/])step=(\d+)(?=[-_.])")
_GIVEN_NAME = re.compile(r"(?:.*[-_])?(?:epoch|step)=.*|last(?:-v\d+)?\.ckpt|hpc_ckpt_\d+\.ckpt")
_FIRST = 4096
"""Bytes within which Lightning's version stands: it is the third entry that is saved."""


def verify(path: Path, deep: bool) -> Verdict:  # noqa: FBT001
    """Whether a file or a sharded directory is whole and holds what a training goes on from."""
    try:
        return _verify_directory(path, deep=deep) if path.is_dir() else _verify_file(path, deep=deep)
    except OSError as error:
        return zips.unreadable(path, error)


def _verify_file(path: Path, *, deep: bool) -> Verdict:
    verdict = zips.verify_file(path, deep)
    if verdict.state != "complete":
        return verdict
    saved = zips.saved(path)
    if VERSION_KEY not in saved:
        return Verdict("foreign", f"{path.name} was not saved by Lightning")
    if "optimizer_states" not in saved:
        return Verdict("incomplete", f"{path.name} holds weights only: no training can go on from it")
    return verdict._replace(step=torch_save.step_in_dict(saved))


def _verify_directory(path: Path, *, deep: bool) -> Verdict:
    verdict = torch_dcp.verify(path, deep)
    if verdict.state != "complete":
        return verdict
    meta = zips.verify_file(path / META, deep)
    if meta.state != "complete":
        return meta._replace(rests_on=(), saved=None)
    written = meta.saved or 0.0
    if (verdict.saved or 0.0) > written + MARKER_TOLERANCE:
        return Verdict("damaged", f"a second save into it was not finished: .metadata is newer than {META}")
    return verdict._replace(
        step=torch_save.step_in_dict(zips.saved(path / META)),
        rests_on=(*verdict.rests_on, META),
        saved=max(written, verdict.saved or 0.0),
    )


def step_of(name: str) -> int | None:
    """The step in `epoch=3-step=100.ckpt` and `epoch=3-step=100-v1.ckpt`; others' content tells it."""
    found = _STEP.findall(name)
    return int(found[-1]) if found else None


def _is_one(path: Path) -> bool:
    if path.is_dir():
        names = {entry.name for entry in path.iterdir()}
        return META in names or (
            path.name.endswith(SUFFIX) and (not names or any(map(torch_dcp.is_trace, names)))
        )
    with path.open("rb") as file:
        head = file.read(_FIRST)
    if head.startswith(zips.HEAD):
        return VERSION_KEY.encode() in head
    return not any(head[: len(zips.HEAD)]) and _GIVEN_NAME.fullmatch(path.name) is not None


LAYOUT = Layout(
    name="lightning",
    summary="Lightning: *.ckpt, a file, or a directory with meta.pt where the strategy is a sharded one",
    resume=("--ckpt_path", "{checkpoint}"),
    reshards=True,
    step_of=step_of,
    is_named=lambda name: name.endswith(SUFFIX) and not is_temporary(name),
    is_one=_is_one,
    verify=verify,
)
