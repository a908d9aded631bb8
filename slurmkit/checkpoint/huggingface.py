"""Hugging Face's Trainer: `checkpoint-<step>/`, of which `trainer_state.json` is written last."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.checkpoint import deepspeed, pieces
from slurmkit.checkpoint.layout import Layout, Verdict
from slurmkit.checkpoint.names import numbered
from slurmkit.checkpoint.pieces import Piece

if TYPE_CHECKING:
    from pathlib import Path

STATE = "trainer_state.json"
BEING_WRITTEN = "checkpoint-is-incomplete.txt"
"""Stands in a checkpoint that is made at a SIGTERM until it is whole."""
step_of = numbered(r"checkpoint-(\d+)")
"""The number of `checkpoint-<step>`."""
_MODEL = ("model", "pytorch_model", "adapter_model", "pytorch_model_fsdp")
_SHARDED = re.compile(r"(pytorch_model_fsdp|optimizer)_\d+")
_RANDOM = re.compile(r"rng_state_(\d+)\.pth")
_OPTIMIZER = frozenset({"optimizer.pt", "optimizer.bin"})


class _Found(NamedTuple):
    """What stands in a checkpoint, by its part in it."""

    model: list[Piece]
    engine: list[Piece]
    """DeepSpeed's own directory, which holds model, optimizer and mostly the schedule."""
    optimizer: list[Piece]
    rest: list[Piece]
    random: list[Piece]
    """States of random generators, which ranks other than the first may write after `trainer_state.json`."""

    def fault(self, names: frozenset[str], world_size: int | None) -> str | None:
        """What is missing among them."""
        ranks = {int(found[1]) for found in map(_RANDOM.fullmatch, names) if found}
        scheduler = "scheduler.pt" in names
        if not self.model and not self.engine:
            return "it has no file of the model"
        if self.optimizer and not scheduler:
            return "scheduler.pt is not there: the optimizer would start afresh without a word"
        if (self.random or scheduler) and not self.optimizer and not self.engine:
            return "the optimizer's state is not there: it would start afresh without a word"
        if (self.optimizer or self.engine) and not self.random:
            return "no state of the random generators is there"
        if (number := pieces.lacking(ranks, world_size if ranks else None)) is not None:
            return f"rng_state_{number}.pth is not there"
        return None

    def sentence(self, step: int) -> str:
        """The reason of a whole one."""
        optimizer = "" if self.optimizer or self.engine else "; the optimizer is not in it (save_only_model)"
        ranks = f" of {len(self.random)} ranks" if len(self.random) > 1 else ""
        return f"all files{ranks} are whole, and {STATE} says step {step:,}{optimizer}"


@pieces.from_outside
def verify(path: Path, deep: bool) -> Verdict:  # noqa: FBT001
    """Whether model, optimizer and state are all there, whole, and of the step that the name says."""
    names = pieces.names_in(path)
    if not _can_be(path, names):
        return Verdict("foreign", f"{path.name} holds nothing of the Trainer's")
    verdict = _unfinished(names)
    return verdict or _verify_written(path, names, deep=deep)


def _unfinished(names: frozenset[str]) -> Verdict | None:
    if BEING_WRITTEN in names:
        return pieces.partial(f"{BEING_WRITTEN} stands in it: it was not written to its end")
    if STATE not in names:
        return pieces.partial(f"{STATE}, which is written last, is not there")
    return None


def _verify_written(path: Path, names: frozenset[str], *, deep: bool) -> Verdict:
    try:
        step = pieces.nested(pieces.read_json(path / STATE), "global_step")
    except ValueError as fault:
        return pieces.partial(f"{STATE} {fault}", STATE)
    if step is None or step_of(path.name) not in {None, step}:
        told = "no global_step" if step is None else f"step {step:,}"
        return Verdict("damaged", f"{STATE} tells {told}, and the name {path.name}", rests_on=("", STATE))
    found = _find(path, names, deep=deep)
    world_size = next((one.verdict.world_size for one in found.engine), None)
    if missing := found.fault(names, world_size):
        return pieces.partial(missing, step=step)
    return pieces.whole(
        path,
        [*found.model, *found.engine, *found.optimizer, *found.rest, *found.random],
        reason=found.sentence(step),
        marker=STATE,
        # With DeepSpeed a resume reads its own directory: weights may have been gathered from it later.
        may_be_newer={piece.name for piece in (*found.random, *(found.model if found.engine else ()))},
        step=step,
        world_size=world_size,
    )


def _find(path: Path, names: frozenset[str], *, deep: bool) -> _Found:
    sharded = pieces.sharded(path, filter(_SHARDED.fullmatch, names), deep=deep)
    optimizer_files = {
        name for name in names if name in _OPTIMIZER or re.fullmatch(r"rank\d+-of-\d+-optimizer\.pt", name)
    }
    random = {name for name in names if name == "rng_state.pth" or _RANDOM.fullmatch(name)}
    rest = names & {"scheduler.pt", "scaler.pt", "training_args.bin"}
    engines = [name for name in names if deepspeed.step_of(name) is not None]
    return _Found(
        model=[
            *pieces.weights(path, names, _MODEL, deep=deep),
            *(piece for piece in sharded if piece.name.startswith("pytorch")),
        ],
        engine=[Piece(name, deepspeed.verify(path / name, deep)) for name in sorted(engines)],
        optimizer=[
            *(piece for piece in sharded if piece.name.startswith("optimizer")),
            *pieces.files(path, optimizer_files, deep=deep),
        ],
        rest=pieces.files(path, rest, deep=deep),
        random=pieces.files(path, random, deep=deep),
    )


def _can_be(path: Path, names: frozenset[str]) -> bool:
    return step_of(path.name) is not None or bool(names & {STATE, BEING_WRITTEN})


LAYOUT = Layout(
    name="huggingface",
    summary="Hugging Face Trainer: checkpoint-<step>/ with trainer_state.json",
    resume=("--resume_from_checkpoint", "{checkpoint}"),
    reshards=False,
    step_of=step_of,
    is_named=lambda name: step_of(name) is not None,
    is_one=lambda path: pieces.holds(path, lambda names: _can_be(path, names)),
    verify=verify,
)
