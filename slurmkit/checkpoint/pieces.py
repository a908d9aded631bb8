"""Checkpoints of many pieces: one verdict out of those of the pieces, and of what is written last."""

from __future__ import annotations

import functools
import json
import os
import re
import zipfile
from typing import TYPE_CHECKING, Any, NamedTuple

from slurmkit.checkpoint import pickles, safetensors, torch_dcp, zips
from slurmkit.checkpoint.layout import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from pathlib import Path

MARKER_TOLERANCE = safetensors.MARKER_TOLERANCE
LONGEST_JSON = 64 << 20
_INDEX = (".safetensors.index.json", ".bin.index.json")
_SHARD = re.compile(r"(.+)-\d{5,}-of-\d{5,}(\.\w+)")
_GRAVITY = ("damaged", "incomplete", "unverified")
_FAULTS = (
    zipfile.BadZipFile,
    ValueError,
    LookupError,
    NotImplementedError,
    RuntimeError,
    EOFError,
    OverflowError,
)


class Piece(NamedTuple):
    """A file or a directory of a checkpoint, by its name relative to it; `""` is all of it."""

    name: str
    verdict: Verdict


def from_outside(verify: Callable[[Path, bool], Verdict]) -> Callable[[Path, bool], Verdict]:
    """A verification for which an unreadable path is a verdict too."""

    @functools.wraps(verify)
    def guarded(path: Path, deep: bool) -> Verdict:  # noqa: FBT001
        try:
            return verify(path, deep)
        except NotADirectoryError:
            return Verdict("foreign", f"{path.name} is no directory")
        except OSError as error:
            return zips.unreadable(path, error)

    return guarded


def names_in(path: Path) -> frozenset[str]:
    """The names of a directory's entries, by one listing.

    Raises:
        OSError: it cannot be listed.
    """
    with os.scandir(path) as entries:
        return frozenset(entry.name for entry in entries)


def holds(path: Path, test: Callable[[frozenset[str]], bool]) -> bool:
    """Whether a path is a directory whose names pass a test.

    Raises:
        OSError: it cannot be listed.
    """
    try:
        return test(names_in(path))
    except NotADirectoryError:
        return False


def read_json(path: Path) -> dict[str, Any]:
    """The object that a JSON file holds.

    Raises:
        ValueError: it holds none, or is longer than 64 MiB; the message goes on from the file's name.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        text = file.read(LONGEST_JSON + 1)
    if not text:
        raise ValueError("is empty")
    try:
        value = json.loads(text) if len(text) <= LONGEST_JSON else None
    except (ValueError, RecursionError) as fault:
        raise ValueError("is no whole JSON: it was cut short, or is still being written") from fault
    if isinstance(value, dict):
        return value
    raise ValueError("holds no JSON object")


def saved_in(path: Path) -> dict[Any, Any]:
    """What a file of torch.save holds by name, tensors being stand-ins; nothing where it tells nothing.

    Raises:
        OSError: it cannot be read.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            entry = next(one for one in archive.infolist() if one.filename.endswith("/data.pkl"))
            with archive.open(entry) as file:
                return pickles.fields(pickles.load(file))
    except (*_FAULTS, StopIteration):
        return {}


def weights(path: Path, names: Collection[str], stems: Collection[str], *, deep: bool) -> list[Piece]:
    """The weights in a directory: files of these stems, single or sharded, safetensors or torch.save's."""
    found = []
    for name in sorted(names):
        shard = _SHARD.fullmatch(name)
        if index := next((suffix for suffix in _INDEX if name.endswith(suffix)), None):
            if name.removesuffix(index) in stems:
                found.append(Piece(name, safetensors.verify_index(path / name, deep)))
        elif shard and shard[1] in stems:
            index_name = f"{shard[1]}{shard[2]}.index.json"
            if index_name not in names:
                lacking = Verdict("incomplete", f"{name} is one of several, and {index_name} is not there")
                return [Piece(name, lacking)]
        elif name.rpartition(".")[0] in stems and name.endswith((".safetensors", ".bin")):
            found.append(Piece(name, file_verdict(path / name, deep=deep)))
    return found


def file_verdict(path: Path, *, deep: bool) -> Verdict:
    """The verdict on a file of weights or of torch.save."""
    if path.name.endswith(".safetensors"):
        return safetensors.verify_file(path, deep)
    return zips.verify_file(path, deep)


def files(path: Path, names: Iterable[str], *, deep: bool) -> list[Piece]:
    """These files of a directory with their verdicts."""
    return [Piece(name, file_verdict(path / name, deep=deep)) for name in sorted(names)]


def sharded(path: Path, names: Iterable[str], *, deep: bool) -> list[Piece]:
    """These directories of torch.distributed.checkpoint with their verdicts."""
    return [Piece(name, torch_dcp.verify(path / name, deep)) for name in sorted(names)]


def lacking(numbers: Collection[int], count: int | None = None) -> int | None:
    """The lowest number from 0 on that is missing, below `count` or the highest one there."""
    end = max(count or 0, max(numbers, default=-1) + 1)
    return next((number for number in range(end) if number not in numbers), None)


def whole(
    path: Path,
    pieces: Iterable[Piece],
    *,
    reason: str,
    marker: str | None = None,
    may_be_newer: Collection[str] = (),
    step: int | None = None,
    world_size: int | None = None,
) -> Verdict:
    """The verdict on all pieces together.

    `marker` is the file that is written last: no piece but those of `may_be_newer` may be newer than it.

    Raises:
        OSError: the marker cannot be read.
    """
    pieces = list(pieces)
    for state in _GRAVITY:
        for name, verdict in pieces:
            if verdict.state == state or (state == "damaged" and verdict.state == "foreign"):
                rests_on = ("", name, *_under(name, verdict.rests_on))
                return Verdict(state, _inside(name, verdict.reason), step, world_size, rests_on)
    whole_of = {"", *(piece for name, verdict in pieces for piece in _under(name, verdict.rests_on))}
    saved = max((verdict.saved for _name, verdict in pieces if verdict.saved is not None), default=None)
    if marker is not None:
        saved = (path / marker).stat().st_mtime
        whole_of.add(marker)
        for name, verdict in pieces:
            if name not in may_be_newer and (verdict.saved or 0.0) > saved + MARKER_TOLERANCE:
                return newer(name or torch_dcp.METADATA, marker)._replace(
                    step=step, rests_on=tuple(sorted(whole_of))
                )
    return Verdict("complete", reason, step, world_size, tuple(sorted(whole_of)), saved)


def newer(name: str, marker: str) -> Verdict:
    """The verdict where a piece was written again after what is written last."""
    return Verdict("damaged", f"a second save into it was not finished: {name} is newer than {marker}")


def partial(reason: str, *rests_on: str, step: int | None = None) -> Verdict:
    """The verdict where a piece is missing: it stands until an entry, or one of these files, changes."""
    return Verdict("incomplete", reason, step, rests_on=("", *rests_on))


def nested(values: Mapping[Any, Any], *names: str) -> int | None:
    """A whole number in dicts or objects inside each other; None where there is none."""
    value: Any = values
    for name in names:
        value = pickles.fields(value).get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _inside(name: str, reason: str) -> str:
    folder = name.rpartition("/")[0] if reason.startswith(name.rpartition("/")[2]) else name
    return f"{folder}: {reason}" if folder else reason


def _under(name: str, rests_on: Iterable[str]) -> Iterable[str]:
    """What a piece's verdict rests on, relative to the checkpoint; an index's is so to its directory."""
    folder = name.rpartition("/")[0] if name.endswith(".index.json") else name
    prefix = f"{folder}/" if folder else ""
    return (f"{prefix}{one}" if one else name for one in rests_on)
