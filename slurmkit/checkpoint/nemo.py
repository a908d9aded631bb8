"""NeMo: checkpoints of Lightning and Megatron, with `<name>-unfinished` beside those that are not whole."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from slurmkit.checkpoint import megatron, pieces, torch_dcp, zips
from slurmkit.checkpoint.layout import Layout, Verdict
from slurmkit.checkpoint.names import is_temporary, step_in

if TYPE_CHECKING:
    from pathlib import Path

_SENTINEL = "-unfinished"
_ENDING = re.compile(r"(?:-EMA)?\.(?:ckpt|nemo)$")
_WEIGHTS = "weights"


@pieces.from_outside
def verify(path: Path, deep: bool) -> Verdict:  # noqa: FBT001
    """Whether no sentinel stands beside it, and what is in it is whole."""
    sentinel = _sentinel(path)
    if sentinel.exists():
        return Verdict(
            "incomplete", f"{sentinel.name} stands beside it: it was not written to its end", rests_on=("..",)
        )
    if not path.is_dir():
        return zips.verify_file(path, deep)
    names = pieces.names_in(path)
    if _WEIGHTS not in names:
        verdict = (megatron.verify if _is_distributed(names) else torch_dcp.verify)(path, deep)
    else:
        inside = megatron.verify(path / _WEIGHTS, deep)
        verdict = pieces.whole(
            path,
            [pieces.Piece(_WEIGHTS, inside)],
            reason=f"{_WEIGHTS}: {inside.reason}",
            world_size=inside.world_size,
        )
    return verdict._replace(rests_on=(*verdict.rests_on, ".."))


def _sentinel(path: Path) -> Path:
    return path.with_name(_ENDING.sub("", path.name) + _SENTINEL)


def _is_distributed(names: frozenset[str]) -> bool:
    return megatron.METADATA in names or "common.pt" in names


def _is_one(path: Path) -> bool:
    """Plain `.ckpt` files without a sentinel are Lightning's, whose rule is the same."""
    if _sentinel(path).exists():
        return True
    return pieces.holds(path, lambda names: _is_distributed(names) or {_WEIGHTS, "context"} <= names)


LAYOUT = Layout(
    name="nemo",
    summary="NeMo: <name>.ckpt or a directory of Megatron's; <name>-unfinished stands beside while written",
    resume=("exp_manager.resume_if_exists=true",),
    reshards=True,
    step_of=step_in,
    is_named=lambda name: not is_temporary(name) and not name.endswith(_SENTINEL),
    is_one=_is_one,
    verify=verify,
)
