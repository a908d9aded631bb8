"""Hugging Face Accelerate: `checkpoint_<n>/`, where every rank writes `random_states_<rank>.pkl` last."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from slurmkit.checkpoint import deepspeed, pieces
from slurmkit.checkpoint.layout import Layout, Verdict
from slurmkit.checkpoint.pieces import Piece

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

MARKER = "random_states_0.pkl"
_NAME = re.compile(r"(checkpoint|step|epoch)_(\d+)")
_RANDOM = re.compile(r"random_states_\d+\.pkl")
_OF_ANY_RANK = re.compile(
    r"(random_states_|(?:pytorch_model_fsdp|optimizer)(?:_\d+)?_rank)(\d+)(\.pkl|\.bin)"
)
_MODEL = re.compile(r"(?:model|pytorch_model|pytorch_model_fsdp)(?:_\d+)?")
_ONE_OF_SEVERAL = re.compile(r"(model|pytorch_model|optimizer)(?:_(\d+))?(\.safetensors|\.bin|)")
_SHARDED = re.compile(r"(?:pytorch_model_fsdp|optimizer)_\d+")
_ENGINE = re.compile(r"pytorch_model(?:_\d+)?")
_FILES = re.compile(
    r"(?:random_states|custom_checkpoint)_\d+\.pkl|scaler\.pt|pytorch_model_fsdp(?:_\d+)?_rank\d+\.bin"
    r"|(?:optimizer|scheduler|sampler|dl_state_dict)(?:_\d+)?(?:_rank\d+)?\.bin"
)


def step_of(name: str) -> int | None:
    """The number of `checkpoint_<n>` or `step_<n>`; an epoch is none."""
    found = _NAME.fullmatch(name)
    return int(found[2]) if found and found[1] != "epoch" else None


@pieces.from_outside
def verify(path: Path, deep: bool) -> Verdict:  # noqa: FBT001
    """Whether models, optimizers and the states of all ranks are there and whole."""
    names = pieces.names_in(path)
    if not _can_be(path, names):
        return Verdict("foreign", f"{path.name} holds nothing of Accelerate's")
    if MARKER not in names:
        return pieces.partial(f"{MARKER}, which is written last, is not there")
    every = _pieces(path, names, deep=deep)
    if not any(one.name.startswith(("model", "pytorch_model")) for one in every):
        return pieces.partial("it has no file of the model")
    world_size = next((one.verdict.world_size for one in every if _ENGINE.fullmatch(one.name)), None)
    series = _series(names)
    if any("_rank" in start for start, _end in series):
        world_size = max(map(len, series.values()))
    for (start, end), numbers in series.items():
        if (number := pieces.lacking(numbers, world_size)) is not None:
            return pieces.partial(f"{start}{number}{end} is not there")
    if missing := _missing_one(names):
        return pieces.partial(f"{missing} is not there")
    ranks = len(series["random_states_", ".pkl"])
    has_optimizer = any(_ENGINE.fullmatch(one.name) or one.name.startswith("optimizer") for one in every)
    return pieces.whole(
        path,
        every,
        reason=f"all files of {ranks} rank{'s' if ranks > 1 else ''} are whole"
        + ("" if has_optimizer else "; no optimizer is in it"),
        marker=MARKER,
        # Other ranks are not waited for, and registered objects come after the random states.
        may_be_newer={name for name in names if _OF_ANY_RANK.fullmatch(name) or name.startswith("custom_")},
        world_size=world_size,
    )


def _can_be(path: Path, names: Iterable[str]) -> bool:
    return path.name.startswith("checkpoint_") or any(map(_RANDOM.fullmatch, names))


def _pieces(path: Path, names: frozenset[str], *, deep: bool) -> list[Piece]:
    engines = sorted(filter(_ENGINE.fullmatch, names))
    stems = {name.split(".")[0].partition("-0")[0] for name in names}
    return [
        *(Piece(name, deepspeed.verify(path / name, deep)) for name in engines),
        *pieces.sharded(path, filter(_SHARDED.fullmatch, names), deep=deep),
        *pieces.weights(path, names, {stem for stem in stems if _MODEL.fullmatch(stem)}, deep=deep),
        *pieces.files(path, filter(_FILES.fullmatch, names), deep=deep),
    ]


def _series(names: Iterable[str]) -> dict[tuple[str, str], set[int]]:
    """The numbers of files that are counted from 0 on: start and end of their names -> numbers."""
    series: dict[tuple[str, str], set[int]] = {}
    for name in names:
        if found := _OF_ANY_RANK.fullmatch(name):
            series.setdefault((found[1], found[3]), set()).add(int(found[2]))
    return series


def _missing_one(names: Iterable[str]) -> str | None:
    """What is missing where there is a second model or optimizer: `model_1` and no `model`."""
    series: dict[tuple[str, str], set[int]] = {}
    for found in map(_ONE_OF_SEVERAL.fullmatch, names):
        if found:
            series.setdefault((found[1], found[3]), set()).add(int(found[2] or 0))
    for (stem, end), numbers in series.items():
        if (number := pieces.lacking(numbers)) is not None:
            return f"{stem}{f'_{number}' if number else ''}{end}"
    return None


LAYOUT = Layout(
    name="accelerate",
    summary="Hugging Face Accelerate: checkpoint_<n>/ with random_states_<rank>.pkl",
    resume=("--resume_from_checkpoint", "{checkpoint}"),
    reshards=False,
    step_of=step_of,
    is_named=lambda name: _NAME.fullmatch(name) is not None,
    is_one=lambda path: pieces.holds(path, lambda names: _can_be(path, names)),
    verify=verify,
)
