"""A torn checkpoint is never chosen and a whole one never refused, whatever the layout, by `auto`."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from slurmkit.checkpoint import plain
from slurmkit.checkpoint.choice import choose
from slurmkit.checkpoint.layouts import LAYOUTS
from tests.unit.checkpoint.otherlike import (
    files_in,
    replaced,
    safetensors,
    saved,
    sharded_weights,
    write,
    write_later,
)
from tests.unit.checkpoint.torchlike import aged, floats, write_dcp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

GOOD, NEWER = 9, 10
UNTOLD = ("random_states_1.pkl", "scheduler.bin", "optimizer.bin")
LIGHTNING = {"pytorch-lightning_version": "2.6.6"}
CUTS = 20
"""Random ones of each, besides every file emptied, zeroed and removed."""


class Kind(NamedTuple):
    """One way of writing a checkpoint: made in a folder, of a step."""

    name: str
    layout: str
    build: Callable[[Path, int], Path]
    marker: str | None = None
    """Written last: after it, nothing else is written again."""
    optional: tuple[str, ...] = ()
    """Files whose loss nothing tells."""
    spared: tuple[str, ...] = ()
    """Files that no resume needs."""


def plain_directory(folder: Path, step: int) -> Path:
    path = write(folder / f"at-{step}", {"model.bin": floats(900), "deep/er/state": b"ab" * 150})
    plain.commit(path, step=step)
    return path


def plain_file(folder: Path, step: int) -> Path:
    path = write(folder, {f"weights.{step}": b"w" * 3000}) / f"weights.{step}"
    plain.commit(path, step=step)
    return path


def file_of(name: str, data: bytes) -> Callable[[Path, int], Path]:
    return lambda folder, step: write(folder, {name.format(step): data}) / name.format(step)


def lightning_file(folder: Path, step: int) -> Path:
    data = saved(
        epoch=1,
        global_step=step,
        **{"pytorch-lightning_version": "2.6.6"},
        state_dict={},
        optimizer_states=[],
    )
    return file_of("epoch=1-step={}.ckpt", data)(folder, step)


def lightning_directory(folder: Path, step: int) -> Path:
    path = write_dcp(folder / f"epoch=1-step={step}.ckpt")
    return write(path, {"meta.pt": saved(global_step=step, **LIGHTNING)})


def huggingface(folder: Path, step: int) -> Path:
    state = json.dumps({"global_step": step}).encode()
    files = {
        **sharded_weights(),
        "optimizer.pt": saved(state={}),
        "scheduler.pt": saved(last_epoch=3),
        "rng_state.pth": saved(python=1),
        "trainer_state.json": state,
    }
    return write(folder / f"checkpoint-{step}", files)


def accelerate(folder: Path, step: int) -> Path:
    files = {
        "model.safetensors": safetensors(),
        "optimizer.bin": saved(state={}),
        "scheduler.bin": saved(last_epoch=1),
        "random_states_0.pkl": saved(step=step),
        "random_states_1.pkl": saved(step=step),
    }
    return write(folder / f"checkpoint_{step}", files)


def deepspeed(folder: Path, step: int) -> Path:
    told = {"dp_world_size": 2, "mp_world_size": 1, "global_steps": step, "param_shapes": {"w": [3]}}
    files = {
        "mp_rank_00_model_states.pt": saved(**told),
        "zero_pp_rank_0_mp_rank_00_optim_states.pt": saved(),
        "zero_pp_rank_1_mp_rank_00_optim_states.pt": saved(),
    }
    path = write(folder / f"global_step{step}", files)
    (folder / "latest").write_text(path.name)
    return path


def megatron(folder: Path, step: int) -> Path:
    path = write_dcp(folder / f"iter_{step:07}")
    about = json.dumps({"sharded_backend": "torch_dist", "common_backend": "torch"}).encode()
    write(path, {"common.pt": saved(iteration=step), "metadata.json": about})
    (folder / "latest_checkpointed_iteration.txt").write_text(str(step))
    return path


def megatron_parts(folder: Path, step: int) -> Path:
    files = {f"mp_rank_0{rank}/model_optim_rng.pt": saved(iteration=step) for rank in (0, 1)}
    return write(folder / f"iter_{step:07}", files)


def nemo(folder: Path, step: int) -> Path:
    about = json.dumps({"sharded_backend": "torch_dist"}).encode()
    path = folder / f"gpt--step={step}-last"
    write_dcp(path / "weights")
    return write(path, {"weights/metadata.json": about, "context/model.yaml": b"a: 1\n"})


KINDS = (
    Kind("plain directory", "plain", plain_directory, plain.MANIFEST),
    Kind("plain file", "plain", plain_file),
    Kind("megatron torch_dist", "megatron", megatron, "metadata.json"),
    Kind("megatron torch", "megatron", megatron_parts, optional=("model_optim_rng.pt",)),
    Kind("torchtitan", "torchtitan", lambda folder, step: write_dcp(folder / f"step-{step}"), ".metadata"),
    Kind("deepspeed", "deepspeed", deepspeed),
    Kind("huggingface", "huggingface", huggingface, "trainer_state.json"),
    Kind(
        "accelerate",
        "accelerate",
        accelerate,
        optional=UNTOLD,
    ),
    Kind("nemo", "nemo", nemo, "metadata.json", optional=("metadata.json",), spared=("model.yaml",)),
    Kind("lightning file", "lightning", lightning_file),
    Kind("lightning directory", "lightning", lightning_directory, "meta.pt"),
    Kind("torch-dcp", "torch-dcp", lambda folder, step: write_dcp(folder / f"dcp_{step}"), ".metadata"),
    Kind("safetensors file", "safetensors", file_of("model_{}.safetensors", safetensors())),
    Kind(
        "safetensors directory",
        "safetensors",
        lambda folder, step: write(folder / f"weights-{step}", sharded_weights()),
        "model.safetensors.index.json",
    ),
    Kind("torch-save", "torch-save", file_of("model_{}.pt", saved(step=1))),
)

BY_NAME = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def test_every_layout_is_among_these() -> None:
    # Orbax's marks of a torn one are names; they stand in its own tests.
    assert {kind.layout for kind in KINDS} | {"orbax"} == {layout.name for layout in LAYOUTS}


def chosen(root: Path, layout: str = "auto", *, deep: bool = False) -> int | None:
    one = choose(root, layout, deep=deep).chosen
    return one.step if one else None


def spots(kind: Kind, path: Path) -> list[Path]:
    beside = path.with_name(plain.manifest_beside(path.name))
    files = [path] if path.is_file() else files_in(path, kind.spared)
    return [*files, *([beside] if beside.exists() else [])]


def damages(kind: Kind, path: Path) -> Iterator[str]:
    """Damage a checkpoint in one way after the other; each is undone afterwards."""
    files, lots = spots(kind, path), random.Random(4)
    for _ in range(CUTS):
        file = lots.choice(files)
        size = file.stat().st_size
        for _changed in replaced(file, file.read_bytes()[: (at := lots.randrange(size))]):
            yield f"{file.name} cut at {at:,} of {size:,}"
    for file in files:
        for _changed in replaced(file, b""):
            yield f"{file.name} empty"
        if kind.layout != "plain":  # of which only a deep look shows it, where the times are as they were
            for _changed in replaced(file, bytes(file.stat().st_size)):
                yield f"{file.name} full of zeros"
        if file.name not in kind.optional:
            hidden = file.rename(path.parent / ".elsewhere")
            yield f"{file.name} missing"
            hidden.rename(file)


@BY_NAME
def test_a_torn_one_is_never_chosen_and_a_whole_one_always(tmp_path: Path, kind: Kind) -> None:
    root = tmp_path / "a folder"
    kind.build(root, GOOD)
    path = kind.build(root, NEWER)
    found = choose(root)
    assert (found.refused, found.chosen and (found.chosen.path, found.chosen.layout, found.chosen.step)) == (
        (),
        (path, kind.layout, NEWER),
    )
    torn = 0
    for damage in damages(kind, path):
        for layout in ("auto", kind.layout):
            assert chosen(root, layout) == GOOD, (damage, layout)
        torn += 1
    assert torn > CUTS
    assert chosen(root) == chosen(root, kind.layout) == chosen(root, deep=True) == NEWER


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.marker], ids=lambda kind: kind.name)
def test_a_second_save_that_was_not_finished_is_never_chosen(tmp_path: Path, kind: Kind) -> None:
    kind.build(tmp_path, GOOD)
    path = kind.build(tmp_path, NEWER)
    refused = 0
    for file in spots(kind, path):
        if file.name in {kind.marker, *kind.optional}:
            continue
        before, times = file.read_bytes(), file.stat()
        write_later(file, bytes(reversed(before)))
        assert chosen(tmp_path) == GOOD, file.name
        refused += 1
        file.write_bytes(before)
        aged(file, file.stat().st_mtime - times.st_mtime)
    assert refused
    assert chosen(tmp_path) == NEWER


@BY_NAME
def test_the_checkpoint_itself_may_be_named_in_place_of_the_folder(tmp_path: Path, kind: Kind) -> None:
    path = kind.build(tmp_path, NEWER)
    for layout in ("auto", kind.layout):
        one = choose(path, layout).chosen
        assert one, layout
        assert (one.path, one.layout, one.step) == (path, kind.layout, NEWER)


@BY_NAME
def test_what_only_was_begun_is_no_checkpoint(tmp_path: Path, kind: Kind) -> None:
    kind.build(tmp_path, GOOD)
    path = kind.build(tmp_path, NEWER)
    files = spots(kind, path)
    if path.is_dir():
        for file in files:
            file.unlink()
    else:
        path.write_bytes(b"")
    assert chosen(tmp_path) == chosen(tmp_path, kind.layout) == GOOD


def test_layouts_in_one_folder_are_each_taken_for_what_they_are(tmp_path: Path) -> None:
    for step, kind in enumerate(KINDS, start=11):
        assert kind.build(tmp_path, step).exists()
        one = choose(tmp_path).chosen
        assert one, kind.name
        assert (one.step, one.layout) == (step, kind.layout)


@pytest.mark.parametrize(
    "name", ["checkpoint-{}", "checkpoint_{}", "step-{}", "step_{}", "global_step{}", "iter_{:07}", "{}"]
)
def test_a_framework_s_names_do_not_make_a_whole_one_torn(tmp_path: Path, name: str) -> None:
    for step in (GOOD, NEWER):
        write_dcp(tmp_path / name.format(step))
    found = choose(tmp_path)
    assert (found.chosen and found.chosen.step, found.refused) == (NEWER, ())
