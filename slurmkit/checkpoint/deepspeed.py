"""DeepSpeed: `global_step<n>/` with a file of every rank, and `latest` beside it, which names the newest.

`latest` is no proof: the first rank writes it straight after its own files, while others still write theirs.
What there must be is told by the model's file itself, which holds the numbers of ranks.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from slurmkit.checkpoint import pieces
from slurmkit.checkpoint.layout import Layout, Verdict
from slurmkit.checkpoint.names import is_temporary, numbered, step_in
from slurmkit.checkpoint.trackers import Tracker

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

TRACKER = "latest"
UNIVERSAL_TRACKER = "latest_universal"
step_of = numbered(r"global_step(\d+)(?:_universal)?")
"""The number of `global_step<n>` or of its universal form."""
_MODEL = re.compile(r"(?:zero_pp_rank_(\d+)_)?mp_rank_(\d+)_model_states\.pt")
_OPTIMIZER = re.compile(r"((?:bf16_|fp16_)?)zero_pp_rank_(\d+)_mp_rank_(\d+)_optim_states\.pt")
_REST = re.compile(r".*[_-](?:model|optim)_states\.pt")
_OF_FIRST_RANK = re.compile(r"(?:.*zero_pp_rank_0_)?mp_rank_00_(?:model|optim)_states\.pt")


class _Told(NamedTuple):
    """What a model's file says of the run that wrote it; None where it doesn't."""

    data_parallel: int | None
    model_parallel: int | None
    step: int | None
    partitioned: bool
    """Whether every rank has a file of the optimizer (ZeRO)."""


@pieces.from_outside
def verify(path: Path, deep: bool) -> Verdict:  # noqa: FBT001
    """Whether the files of all ranks are there and whole."""
    names = pieces.names_in(path)
    models = sorted(filter(_MODEL.fullmatch, names))
    if "zero" in names:
        return _verify_universal(path, models, deep=deep)
    files = sorted(filter(_REST.fullmatch, names))
    if not models:
        state = "incomplete" if files or step_of(path.name) is not None else "foreign"
        return Verdict(
            state, f"{path.name} has no file of the model (mp_rank_00_model_states.pt)", rests_on=("",)
        )
    told = _read(path / models[0])
    step = told.step if step_of(path.name) is None else step_of(path.name)
    if fault := _fault(names, told):
        return pieces.partial(fault, models[0], step=step)
    size = told.data_parallel * (told.model_parallel or 1) if told.data_parallel else None
    ranks = f" of {size} ranks" if size else ""
    every = pieces.files(path, files, deep=deep)
    verdict = pieces.whole(
        path,
        every,
        reason=f"all {len(files):,} files{ranks} are there and whole",
        step=step,
        world_size=size,
    )
    if verdict.state != "complete":
        return verdict
    return _TRACKER.not_older(path, (one for one in every if _OF_FIRST_RANK.fullmatch(one.name)), verdict)


def tracker_problem(root: Path) -> str | None:
    """What is wrong with `latest`, in one sentence: a program then starts from nothing, or fails."""
    return _TRACKER.problem(root)


def _read(model: Path) -> _Told:
    saved = pieces.saved_in(model)
    stage = pieces.nested(saved, "ds_config", "zero_optimization", "stage") or 0
    return _Told(
        _positive(saved, "dp_world_size"),
        _positive(saved, "mp_world_size"),
        pieces.nested(saved, "global_steps"),
        partitioned=stage > 0 if saved.get("param_shapes") is None else True,
    )


def _positive(saved: Mapping[Any, Any], name: str) -> int | None:
    number = pieces.nested(saved, name)
    return number if number and number > 0 else None


def _fault(names: Iterable[str], told: _Told) -> str | None:
    """The first file that is missing."""
    models = [found for name in names if (found := _MODEL.fullmatch(name))]
    optimizers = [found for name in names if (found := _OPTIMIZER.fullmatch(name))]
    partitioned = [found for found in models if found[1] is not None]
    plain = {int(found[2]) for found in models if found[1] is None}
    if partitioned:
        places = {(int(found[1]), int(found[2])) for found in partitioned}
        if missing := _missing(places, told):
            return f"zero_pp_rank_{missing[0]}_mp_rank_{missing[1]:02}_model_states.pt is not there"
    elif (rank := pieces.lacking(plain, told.model_parallel)) is not None:
        return f"mp_rank_{rank:02}_model_states.pt is not there"
    if told.partitioned and not optimizers:
        return "no file of the optimizer is there (zero_pp_rank_0_mp_rank_00_optim_states.pt)"
    if optimizers:
        places = {(int(found[2]), int(found[3])) for found in optimizers}
        if missing := _missing(places, told):
            start = optimizers[0][1]
            return f"{start}zero_pp_rank_{missing[0]}_mp_rank_{missing[1]:02}_optim_states.pt is not there"
    return None


def _missing(places: set[tuple[int, int]], told: _Told) -> tuple[int, int] | None:
    """The first (data, model) place of the grid of ranks that is not there."""
    rows = told.data_parallel or max(row for row, _column in places) + 1
    columns = max(told.model_parallel or 1, max(column for _row, column in places) + 1)
    grid = ((row, column) for column in range(columns) for row in range(rows))
    return next((place for place in grid if place not in places), None)


def _verify_universal(path: Path, models: Iterable[str], *, deep: bool) -> Verdict:
    """A checkpoint that was made independent of the number of ranks: `zero/<parameter>/fp32.pt` and so on."""
    inside = sorted(str(file.relative_to(path)) for file in (path / "zero").glob("**/*.pt"))
    step = step_of(path.name)
    if not inside or not models:
        return pieces.partial(
            "zero/ is empty" if not inside else "mp_rank_00_model_states.pt is not there", step=step
        )
    return pieces.whole(
        path,
        pieces.files(path, [*models, *inside], deep=deep),
        reason=f"all {len(inside):,} files of parameters are whole, for any number of ranks",
        step=step,
    )


_TRACKER = Tracker(TRACKER, lambda text: None if "/" in text else text or None, step_of, verify)

LAYOUT = Layout(
    name="deepspeed",
    summary="DeepSpeed: global_step<n>/ with a file of every rank, and the tracker latest",
    resume=(),
    reshards=False,
    step_of=lambda name: step_in(name.removesuffix("_universal")),
    is_named=lambda name: not is_temporary(name) and name not in {TRACKER, UNIVERSAL_TRACKER},
    is_one=lambda path: pieces.holds(
        path, lambda names: any(map(_REST.fullmatch, names)) or step_of(path.name) is not None
    ),
    verify=verify,
    trackers=(TRACKER, UNIVERSAL_TRACKER),
)
