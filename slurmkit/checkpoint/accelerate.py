"""Hugging Face Accelerate: `checkpoint_<n>/`, where every rank writes `random_states_<rank>.pkl` last."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from slurmkit.checkpoint import deepspeed, pieces
from slurmkit.checkpoint.layout import Layout
from slurmkit.checkpoint.pieces import Piece

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from slurmkit.checkpoint.layout import Verdict

MARKER = "random_states_0.pkl"
_NAME = re.compile(r"(checkpoint|step|epoch)_(\d+)")
_RANDOM = re.compile(r"random_states_(\d+)\.pkl")
_MODEL = re.compile(r"(?:model|pytorch_model|pytorch_model_fsdp)(?:_\d+)?")
_PER_RANK = re.compile(r"((?:pytorch_model_fsdp|optimizer)(?:_\d+)?_rank)(\d+)\.bin")
_SHARDED = re.compile(r"(?:pytorch_model_fsdp|optimizer)_\d+")
_ENGINE = re.compile(r"pytorch_model(?:_\d+)?")
_OPTIMIZER = re.compile(r"optimizer(?:_(\d+))?\.bin")
_REST = re.compile(r"(?:scheduler|sampler|dl_state_dict)(?:_\d+)?\.bin|scaler\.pt|custom_checkpoint_\d+\.pkl")


def step_of(name: str) -> int | None:
    """The number of `checkpoint_<n>` or `step_<n>`; an epoch is none."""
    found = _NAME.fullmatch(name)
    return int(found[2]) if found and found[1] != "epoch" else None


@pieces.from_outside
def verify(path: Path, deep: bool) -> Verdict:  # noqa: FBT001
    """Whether models, optimizers and the states of all ranks are there and whole."""
    names = pieces.names_in(path)
    random = {name: int(found[1]) for name in names if (found := _RANDOM.fullmatch(name))}
    per_rank = {name: found for name in names if (found := _PER_RANK.fullmatch(name))}
    if MARKER not in names:
        return pieces.partial(f"{MARKER}, which is written last, is not there")
    if fault := _series_fault(names, random.values(), per_rank.values()):
        return pieces.partial(fault)
    engines = [
        Piece(name, deepspeed.verify(path / name, deep)) for name in sorted(filter(_ENGINE.fullmatch, names))
    ]
    sharded = pieces.sharded(path, filter(_SHARDED.fullmatch, names), deep=deep)
    stems = {name.split(".")[0].partition("-0")[0] for name in names}
    models = pieces.weights(path, names, {stem for stem in stems if _MODEL.fullmatch(stem)}, deep=deep)
    single = {name for name in names if _OPTIMIZER.fullmatch(name)} | per_rank.keys()
    rest = pieces.files(path, single | set(filter(_REST.fullmatch, names)), deep=deep)
    if not any(
        one.name.startswith(("model", "pytorch_model")) for one in (*engines, *sharded, *models, *rest)
    ):
        return pieces.partial("it has no file of the model")
    optimizer = bool(engines) or any(name.startswith("optimizer") for name in names)
    states = pieces.files(path, random, deep=deep)
    ranks = f"{len(random)} ranks" if len(random) > 1 else "one rank"
    bound = len(random) if per_rank or engines else None
    return pieces.whole(
        path,
        [*engines, *sharded, *models, *rest, *states],
        reason=f"all files of {ranks} are whole" + ("" if optimizer else "; no optimizer is in it"),
        marker=MARKER,
        # Other ranks are not waited for, and registered objects come after the random states.
        may_be_newer={*random, *per_rank, *(name for name in names if name.startswith("custom_checkpoint_"))},
        world_size=bound,
    )


def _series_fault(
    names: Iterable[str], random: Iterable[int], per_rank: Iterable[re.Match[str]]
) -> str | None:
    """What is missing in a series of files that are numbered from 0 on."""
    ranks = set(random)
    if (number := pieces.lacking(ranks)) is not None:
        return f"random_states_{number}.pkl is not there"
    series: dict[str, set[int]] = {}
    for found in per_rank:
        series.setdefault(found[1], set()).add(int(found[2]))
    for stem, numbers in series.items():
        if (number := pieces.lacking(numbers, len(ranks))) is not None:
            return f"{stem}{number}.bin is not there"
    optimizers = {int(found[1] or 0) for found in map(_OPTIMIZER.fullmatch, names) if found}
    if (number := pieces.lacking(optimizers)) is not None:
        return f"optimizer{f'_{number}' if number else ''}.bin is not there"
    return None


LAYOUT = Layout(
    name="accelerate",
    summary="Hugging Face Accelerate: checkpoint_<n>/ with random_states_<rank>.pkl",
    resume=("--resume_from_checkpoint", "{checkpoint}"),
    reshards=False,
    step_of=step_of,
    is_named=lambda name: _NAME.fullmatch(name) is not None,
    is_one=lambda path: pieces.holds(
        path, lambda names: any(map(_RANDOM.fullmatch, names)) or path.name.startswith("checkpoint_")
    ),
    verify=verify,
)
