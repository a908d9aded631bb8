"""torch.distributed.checkpoint: `__<rank>_<n>.distcp` files, and `.metadata`, written last, that places all.

Into a directory that holds a checkpoint already torch writes the data in place and leaves the old `.metadata`
until the end: after a save that was killed all names and sizes are right, and a load gives half of either.
Only the times of the files tell.
"""

from __future__ import annotations

import itertools
import re
import stat
from math import prod
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from slurmkit.checkpoint import pickles, safetensors, zips
from slurmkit.checkpoint.layout import Layout, Verdict
from slurmkit.checkpoint.names import is_temporary, step_in
from slurmkit.checkpoint.safetensors import MARKER_TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence, Set

METADATA = ".metadata"
SPOTS = 1024
"""Data files of which the first and last items are looked at; of those beyond, the size is."""
_SHARD = re.compile(r"__(\d+)_\d+\.distcp")
_RANK_METADATA = re.compile(r"__(\d+)\.metadata")


class _Item(NamedTuple):
    """One tensor's piece, or one object."""

    offset: int
    length: int
    is_tensor: bool
    is_transformed: bool
    """Compressed, say: its place then tells no size."""

    @property
    def end(self) -> int:
        return self.offset + self.length


class _Saved(NamedTuple):
    """What a metadata file says."""

    marker: str
    at: float
    """Its own mtime."""
    files: dict[str, list[_Item]]
    tensors: dict[Any, Any]


class _Fault(Exception):
    """The checkpoint is not whole."""

    def __init__(self, state: str, reason: str) -> None:
        super().__init__(reason)
        self.verdict = Verdict(state, reason)


def verify(path: Path, deep: bool) -> Verdict:  # noqa: FBT001
    """Whether a directory of torch.distributed.checkpoint is whole; deep compares every item's checksums."""
    try:
        return _verify_names(path, {entry.name for entry in path.iterdir()}, deep=deep)
    except _Fault as fault:
        return fault.verdict
    except OSError as error:
        return zips.unreadable(path, error)


def _verify_names(path: Path, names: Set[str], *, deep: bool) -> Verdict:
    if METADATA in names:
        return _verify_saved(path, names, [METADATA], deep=deep)
    ranks = sorted(int(found[1]) for found in map(_RANK_METADATA.fullmatch, names) if found)
    if ranks:
        return _verify_ranks(path, names, ranks, deep=deep)
    if f"{METADATA}.tmp" in names:
        return Verdict(
            "incomplete", f"{METADATA}.tmp was not renamed to {METADATA}: the save was not finished"
        )
    if any(map(_SHARD.fullmatch, names)):
        return Verdict("incomplete", f"{METADATA} is not there, which is written last")
    return Verdict("foreign", f"{path.name} holds nothing of torch.distributed.checkpoint")


def _verify_ranks(path: Path, names: Set[str], ranks: Sequence[int], *, deep: bool) -> Verdict:
    """Saved with `use_collectives=False`: each rank has metadata of its own, and loads by these alone."""
    lacking = next(rank for rank in itertools.count() if rank not in ranks)
    writers = {int(found[1]) for found in map(_SHARD.fullmatch, names) if found}
    silent = sorted(writers - set(ranks))
    if lacking < len(ranks) or silent:
        raise _Fault("incomplete", f"__{silent[0] if silent else lacking}{METADATA} is not there")
    verdict = _verify_saved(path, names, [f"__{rank}{METADATA}" for rank in ranks], deep=deep)
    return verdict._replace(world_size=len(ranks), is_tied=True)


def _verify_saved(path: Path, names: Set[str], markers: Sequence[str], *, deep: bool) -> Verdict:
    on_trust = False
    every: list[_Saved] = []
    for marker in markers:
        saved = _read(path / marker)
        _check_unfinished(path, names, saved)
        on_trust |= _check_files(path, saved, deep=deep)
        every.append(saved)
    if len(every) > 1:
        _check_cover(every)
    files = sorted({name for saved in every for name in saved.files})
    if not files:
        return Verdict("unverified", f"{markers[0]} places no data: only a load shows what it is good for")
    words = "" if not deep else zips.ON_TRUST if on_trust else ", as its checksums say"
    return Verdict(
        "complete",
        f"every data file that {markers[0]} names is there and whole, {len(files):,} in all{words}",
        rests_on=(*markers, *files),
        saved=max(saved.at for saved in every),
    )


def _read(marker: Path) -> _Saved:
    """What a metadata file says, read without trust."""
    at = marker.stat().st_mtime
    with marker.open("rb") as file:
        try:
            metadata = pickles.fields(pickles.load(file))
        except ValueError as fault:
            raise _Fault("damaged", f"{marker.name} cannot be read: {fault}") from fault
    places = metadata.get("storage_data")
    if "state_dict_metadata" not in metadata or not isinstance(places, dict | None):
        raise _Fault("foreign", f"{marker.name} is none of torch.distributed.checkpoint's")
    files: dict[str, list[_Item]] = {}
    for index, place in (places or {}).items():
        name, item = _placed(marker.name, pickles.fields(index), pickles.fields(place))
        files.setdefault(name, []).append(item)
    return _Saved(marker.name, at, files, pickles.fields(metadata["state_dict_metadata"]))


def _placed(marker: str, index: dict[Any, Any], place: dict[Any, Any]) -> tuple[str, _Item]:
    name, offset, length = place.get("relative_path"), place.get("offset"), place.get("length")
    if not (isinstance(name, str) and isinstance(offset, int) and isinstance(length, int)):
        raise _Fault("unverified", f"{marker} does not say where in which file its data are")
    pure = PurePath(name)
    if pure.is_absolute() or ".." in pure.parts or "\0" in name or offset < 0 or length < 0:
        raise _Fault("damaged", f"{marker} places data outside its directory: {name!r}")
    return name, _Item(
        offset, length, index.get("offset") is not None, bool(place.get("transform_descriptors"))
    )


def _check_unfinished(path: Path, names: Set[str], saved: _Saved) -> None:
    """A later save into the same directory that was killed: its traces are newer than the metadata."""
    temporary = f"{saved.marker}.tmp"
    if temporary in names and (path / temporary).stat().st_mtime >= saved.at - MARKER_TOLERANCE:
        raise _unfinished(temporary, saved.marker)
    if saved.marker == METADATA:
        for name in sorted(names - saved.files.keys()):
            if _SHARD.fullmatch(name) and (path / name).stat().st_mtime > saved.at + MARKER_TOLERANCE:
                raise _unfinished(name, saved.marker)


def _unfinished(newer: str, marker: str) -> _Fault:
    return _Fault(
        "damaged",
        f"a second save into it was not finished: {newer} is newer than {marker} "
        f"(a copy that kept no times looks the same: touch {marker} if it was one)",
    )


def _check_files(path: Path, saved: _Saved, *, deep: bool) -> bool:
    """Check every data file that the metadata names; returns whether anything in them lacks checksums."""
    on_trust = False
    names = sorted(saved.files)
    spots = set(names if deep or len(names) <= SPOTS else _spread(names))
    for name in names:
        items = sorted(saved.files[name])
        is_plain = not name.endswith(safetensors.SUFFIX) and not any(item.is_transformed for item in items)
        _check_file(path / name, name, items[-1].end if is_plain else None, saved)
        if name not in spots:
            continue
        if is_plain:
            on_trust |= _check_items(path / name, name, items if deep else [items[0], items[-1]], deep=deep)
        else:
            on_trust = True
        if name.endswith(safetensors.SUFFIX):
            inner = safetensors.verify_file(path / name, deep)
            if inner.state != "complete":
                raise _Fault("damaged" if inner.state == "foreign" else inner.state, inner.reason)
    return on_trust


def _spread(names: Sequence[str]) -> list[str]:
    return [names[number * (len(names) - 1) // (SPOTS - 1)] for number in range(SPOTS)]


def _check_file(path: Path, name: str, size: int | None, saved: _Saved) -> None:
    try:
        status = path.stat()
    except FileNotFoundError as error:
        raise _Fault("incomplete", f"{name} is not there") from error
    if not stat.S_ISREG(status.st_mode):
        raise _Fault("damaged", f"{name} is no file")
    if status.st_size == 0 and size != 0:
        raise _Fault("incomplete", f"{name} is empty")
    if size is not None and status.st_size != size:
        state = "incomplete" if status.st_size < size else "damaged"
        raise _Fault(state, f"{name} has {status.st_size:,} bytes of {size:,}")
    if status.st_mtime > saved.at + MARKER_TOLERANCE:
        raise _unfinished(name, saved.marker)


def _check_items(path: Path, name: str, items: Iterable[_Item], *, deep: bool) -> bool:
    """Check items, each of them a zip if it is a tensor; returns whether any lacks checksums."""
    on_trust = False
    with path.open("rb") as file:
        for item in items:
            what = f"{name} from byte {item.offset:,} on"
            file.seek(item.offset)
            head = file.read(min(len(zips.HEAD), item.length))
            if head != zips.HEAD:
                if item.is_tensor:
                    raise _Fault("damaged", f"{what} holds no tensor")
                if item.length and not any(head):
                    raise _Fault("damaged", f"{what} holds nothing but zeros")
                on_trust = True  # what a planner of the program's own made of an object
            elif deep:
                inner = zips.verify_part(file, what, item.offset, item.length, deep=True)
                if inner.state != "complete":
                    raise _Fault("damaged", inner.reason)
                on_trust |= inner.reason.endswith(zips.ON_TRUST)
            else:
                file.seek(max(item.end - zips.TAIL_SIZE, item.offset))
                if file.read(len(zips.TAIL)) != zips.TAIL:
                    raise _Fault("damaged", f"{what} holds a tensor without its end")
    return on_trust


def _check_cover(every: Iterable[_Saved]) -> None:
    """Check that the ranks' pieces together make up every tensor: else a rank's metadata are not there."""
    pieces: dict[Any, set[tuple[Any, ...]]] = {}
    wholes: dict[Any, tuple[int, ...]] = {}
    for saved in every:
        for name, tensor in saved.tensors.items():
            about = pickles.fields(tensor)
            if "chunks" in about:
                wholes[name] = _shape(about.get("size"))
                chunks = [pickles.fields(chunk) for chunk in about["chunks"]]
                pieces.setdefault(name, set()).update(
                    (_shape(chunk.get("offsets")), _shape(chunk.get("sizes"))) for chunk in chunks
                )
    for name, shape in wholes.items():
        there = sum(prod(sizes) for _offsets, sizes in pieces[name])
        if there < prod(shape):
            raise _Fault(
                "incomplete", f"the ranks' {METADATA} place {there:,} of {prod(shape):,} numbers of {name}"
            )


def _shape(size: Any) -> tuple[int, ...]:  # noqa: ANN401
    """The numbers of a torch.Size."""
    args = size.args[0] if isinstance(size, pickles.Inert) and size.args else ()
    return tuple(number for number in args if isinstance(number, int)) if isinstance(args, tuple) else ()


def is_trace(name: str) -> bool:
    """Whether a save of torch.distributed.checkpoint leaves a file of this name, at its start or its end."""
    return name in {METADATA, f"{METADATA}.tmp"} or bool(
        _SHARD.fullmatch(name) or _RANK_METADATA.fullmatch(name)
    )


def _is_one(path: Path) -> bool:
    return path.is_dir() and any(is_trace(entry.name) for entry in path.iterdir())


LAYOUT = Layout(
    name="torch-dcp",
    summary="torch.distributed.checkpoint: a directory with .metadata and __<rank>_<n>.distcp files",
    resume=("--resume", "{checkpoint}"),
    reshards=True,
    step_of=step_in,
    is_named=lambda name: not is_temporary(name),
    is_one=_is_one,
    verify=verify,
)
