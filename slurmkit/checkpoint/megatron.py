"""Megatron-LM: `iter_<seven digits>/` in one of its formats, and the tracker beside it that names the newest.

- `torch_dist`: torch.distributed.checkpoint with `metadata.json`, written last, beside it
- `torch`: a directory `mp_rank_<tensor>[_<pipeline>][_<expert>]` for each part of the model
- `torch_dcp`, `fsdp_dtensor`: torch.distributed.checkpoint alone

Where the tracker is empty or garbage, Megatron says so and ends with exit code 0, as if the work were done.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any

from slurmkit.checkpoint import pickles, pieces, torch_dcp, zips
from slurmkit.checkpoint.layout import Layout, Verdict
from slurmkit.checkpoint.names import numbered
from slurmkit.checkpoint.pieces import Piece
from slurmkit.checkpoint.trackers import Tracker

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

TRACKER = "latest_checkpointed_iteration.txt"
METADATA = "metadata.json"
COMMON = "common.pt"
INTEGRITY = "integrity.json"
RELEASE = "release"
step_of = numbered(r"iter_(\d{7,})")
"""The number of `iter_<iteration>`."""
_PART = re.compile(r"mp_rank_(\d{2,})(?:_(\d{3,}))?(?:_(\d{3,}))?")
_MODELS = ("model_optim_rng.pt", "model_rng.pt")
_SIZES = ("tensor_model_parallel_size", "pipeline_model_parallel_size", "expert_model_parallel_size")
_OF_MEGATRON = b"mcore_data"
"""Stands in the `.metadata` of the format torch_dist, and in that of no other."""


@pieces.from_outside
def verify(path: Path, deep: bool) -> Verdict:  # noqa: FBT001
    """Whether it is whole by the rule of the format that it is of."""
    names = pieces.names_in(path)
    parts = sorted(filter(_PART.fullmatch, names))
    if METADATA in names:
        verdict = _verify_distributed(path, names, deep=deep)
    elif parts:
        verdict = _verify_parts(path, parts, deep=deep)
    elif COMMON in names or _is_of_megatron(path, names):
        verdict = pieces.partial(f"{METADATA}, which is written last, is not there")
    else:
        verdict = torch_dcp.verify(path, deep)
        if verdict.state == "foreign" and step_of(path.name) is not None:
            verdict = pieces.partial(f"{path.name} holds nothing of a checkpoint yet")
    return verdict._replace(step=step_of(path.name))


def tracker_problem(root: Path) -> str | None:
    """What is wrong with the tracker: Megatron then ends with exit code 0, or starts from nothing."""
    return _TRACKER.problem(root)


def _name_of(text: str) -> str | None:
    if re.fullmatch(r"[0-9]{1,18}", text):
        return f"iter_{int(text):07}"
    return text if text == RELEASE else None


def _is_of_megatron(path: Path, names: Collection[str]) -> bool:
    if torch_dcp.METADATA not in names:
        return False
    with (path / torch_dcp.METADATA).open("rb") as file:
        return _OF_MEGATRON in file.read(pickles.LIMIT)


def _verify_distributed(path: Path, names: Collection[str], *, deep: bool) -> Verdict:
    try:
        about = pieces.read_json(path / METADATA)
    except ValueError as fault:
        return pieces.partial(f"{METADATA} {fault}", METADATA)
    if about.get("sharded_backend") not in {"torch_dist", "fsdp_dtensor"}:
        return Verdict(
            "unverified",
            f"{METADATA} names the format {about.get('sharded_backend')!r}",
            rests_on=(METADATA,),
        )
    found = torch_dcp.verify(path, deep)
    every = [Piece("", found)]
    world_size = None
    if COMMON in names:
        every.append(Piece(COMMON, zips.verify_file(path / COMMON, deep)))
        world_size = pieces.nested(pieces.saved_in(path / COMMON), "args", "world_size")
    elif about.get("common_backend"):
        return pieces.partial(f"{COMMON} is not there")
    verdict = pieces.whole(path, every, reason=found.reason, marker=METADATA, world_size=world_size)
    if not deep or verdict.state != "complete" or INTEGRITY not in names:
        return verdict
    contradiction = _integrity_fault(path)
    return verdict._replace(
        state="damaged" if contradiction else "complete",
        reason=contradiction or f"{verdict.reason}, and as {INTEGRITY} says",
        rests_on=(*verdict.rests_on, INTEGRITY),
    )


def _integrity_fault(path: Path) -> str | None:
    """What contradicts the SHA-256 that Megatron kept of every file."""
    try:
        kept = pieces.read_json(path / INTEGRITY)
    except ValueError as fault:
        return f"{INTEGRITY} {fault}"
    sums = kept.get("files")
    if kept.get("algorithm", "sha256") != "sha256" or not isinstance(sums, dict):
        return f"{INTEGRITY} holds no SHA-256 of files"
    for name, kept_sum in sums.items():
        if "/" in name or name in {"", "..", "."} or "\0" in name:
            return f"{INTEGRITY} names a file outside: {name!r}"
        with (path / name).open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != kept_sum:
                return f"{name} is not as {INTEGRITY} says"
    return None


def _verify_parts(path: Path, parts: list[str], *, deep: bool) -> Verdict:
    every: list[Piece] = []
    held = {
        part: frozenset(name for name in pieces.names_in(path / part) if name.endswith(".pt"))
        for part in parts
    }
    alike = frozenset.union(*held.values()) & {*_MODELS, "distrib_optim.pt"}
    if not alike & set(_MODELS):
        return pieces.partial(f"{parts[0]}/{_MODELS[0]} is not there", *parts)
    for part in parts:
        if missing := sorted(alike - held[part]):
            return pieces.partial(f"{part}/{missing[0]} is not there", *parts)
        names = [f"{part}/{name}" for name in held[part]]
        every += pieces.files(path, names, deep=deep)
    saved = pieces.saved_in(path / parts[0] / min(alike & set(_MODELS)))
    if missing_part := _missing_part(parts, saved):
        return pieces.partial(f"{missing_part} is not there")
    iteration = pieces.nested(saved, "iteration")
    if iteration is not None and step_of(path.name) not in {None, iteration}:
        reason = f"{parts[0]} is of iteration {iteration:,}, not of {path.name}"
        return Verdict("damaged", reason, rests_on=tuple(piece.name for piece in every))
    verdict = pieces.whole(
        path,
        every,
        reason=f"all {len(parts):,} parts of the model are there and whole",
        world_size=pieces.nested(saved, "args", "world_size"),
    )
    return _TRACKER.not_older(path, every, verdict) if verdict.state == "complete" else verdict


def _missing_part(parts: Iterable[str], saved: dict[Any, Any]) -> str | None:
    """The first part of the grid tensor x pipeline x expert that has no directory."""
    found = [tuple(match.groups()) for match in map(_PART.fullmatch, parts) if match]
    width = max(sum(number is not None for number in place) for place in found)
    places = {tuple(int(number or 0) for number in place[:width]) for place in found}
    counts = [max(place[axis] for place in places) + 1 for axis in range(width)]
    told = [pieces.nested(saved, "args", name) for name in _SIZES]
    # With two numbers the second is of the pipeline, or of the experts where there is no pipeline.
    if width == 2 and (told[1] or 1) == 1 and (told[2] or 1) > 1:
        told[1] = told[2]
    counts = [max(count, size or 1) for count, size in zip(counts, told, strict=False)]
    missing = next((place for place in _grid(counts) if place not in places), None)
    if missing is None:
        return None
    return "mp_rank_" + "_".join(f"{number:0{2 if axis == 0 else 3}}" for axis, number in enumerate(missing))


def _grid(counts: list[int]) -> Iterable[tuple[int, ...]]:
    if not counts:
        return iter([()])
    return ((*rest, number) for rest in _grid(counts[:-1]) for number in range(counts[-1]))


_TRACKER = Tracker(TRACKER, _name_of, step_of, verify)

LAYOUT = Layout(
    name="megatron",
    summary=f"Megatron-LM: iter_<iteration>/ of torch_dist, torch or torch_dcp, and {TRACKER}",
    resume=("--load", "{directory}", "--ckpt-step", "{step}"),
    reshards=True,
    step_of=step_of,
    is_named=lambda name: step_of(name) is not None or name == RELEASE,
    is_one=lambda path: pieces.holds(
        path,
        lambda names: step_of(path.name) is not None or METADATA in names or any(map(_PART.fullmatch, names)),
    ),
    verify=verify,
    trackers=(TRACKER,),
)
