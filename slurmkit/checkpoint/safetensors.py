"""Safetensors: one file whose header gives its exact size, or many that an index names.

Nothing in the format tells whether the data between two right ends are right. Where the header carries a
checksum of them, as those of the ModelSpec convention do, `deep` compares it; else that is said.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from math import prod
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, BinaryIO

from slurmkit.checkpoint import zips
from slurmkit.checkpoint.layout import Layout, Verdict
from slurmkit.checkpoint.names import is_temporary, step_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

SUFFIX = ".safetensors"
INDEX_SUFFIX = ".safetensors.index.json"
LONGEST_HEADER = 100_000_000
"""Bytes: the library itself refuses a longer one."""
LONGEST_INDEX = 256 << 20
MARKER_TOLERANCE = 1.0
"""Seconds by which a data file may be newer than what is written last: the clocks of two nodes differ."""
_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "U16": 16, "I16": 16, "F16": 16, "BF16": 16,
    "U32": 32, "I32": 32, "F32": 32, "U64": 64, "I64": 64, "F64": 64, "C64": 64,
}  # fmt: skip
"""Bits of one element; a type that is not here is not measured."""
_CHECKSUMS = ("modelspec.hash_sha256", "sshs_model_hash")
"""Metadata that hold the SHA-256 of all that follows the header, as ModelSpec and sd-scripts write them."""
_PIECE = re.compile(r"(.*)-(\d{5,})-of-(\d{5,})(\.\w+)")
_ON_TRUST = "; no checksum is kept with it, so a hole in its data would not be seen"
_CHUNK = 4 << 20


def verify(path: Path, deep: bool) -> Verdict:  # noqa: FBT001
    """Whether a file, or a directory with an index or with files alone, is whole."""
    try:
        if path.is_dir():
            return _verify_directory(path, deep=deep)
        return verify_file(path, deep)
    except OSError as error:
        return zips.unreadable(path, error)


def verify_file(path: Path, deep: bool) -> Verdict:  # noqa: FBT001
    """Whether one safetensors file has the size that its header gives it."""
    return zips.of_file(path, lambda file, size: _verify_open(file, path.name, size, deep=deep))


def verify_index(path: Path, deep: bool) -> Verdict:  # noqa: FBT001
    """Whether every file that an index (`*.safetensors.index.json`, also of `.bin`) names is there and whole.

    What the verdict rests on is given relative to the index's directory.
    """
    try:
        saved = path.stat().st_mtime
        files = _named_by(path)
    except OSError as error:
        return zips.unreadable(path, error)
    except ValueError as fault:
        return Verdict("incomplete", f"{path.name} {fault}: it was cut short, or is still being written")
    if lacking := _lacking(files):
        return Verdict("incomplete", f"{path.name} does not name {lacking}")
    return _verify_files(path.parent, files, marker=path.name, saved=saved, deep=deep)


def _verify_directory(path: Path, *, deep: bool) -> Verdict:
    names = sorted(entry.name for entry in path.iterdir())
    if index := next((name for name in names if name.endswith(INDEX_SUFFIX)), None):
        return verify_index(path / index, deep)
    files = [name for name in names if name.endswith(SUFFIX) and not is_temporary(name)]
    if not files:
        return Verdict("foreign", f"{path.name} holds no safetensors file")
    if piece := next((name for name in files if _PIECE.fullmatch(name)), None):
        return Verdict("incomplete", f"{piece} is one of several, and their index is not there")
    return _verify_files(path, files, marker=None, saved=None, deep=deep)


def _verify_files(
    folder: Path, files: Sequence[str], *, marker: str | None, saved: float | None, deep: bool
) -> Verdict:
    newest, on_trust = 0.0, 0
    for name in files:
        verdict = (verify_file if name.endswith(SUFFIX) else zips.verify_file)(folder / name, deep)
        if verdict.state != "complete":
            return Verdict("damaged" if verdict.state == "foreign" else verdict.state, verdict.reason)
        written = verdict.saved or 0.0
        if saved is not None and written > saved + MARKER_TOLERANCE:
            return Verdict(
                "damaged", f"a second save into it was not finished: {name} is newer than {marker}"
            )
        newest = max(newest, written)
        on_trust += verdict.reason.endswith(_ON_TRUST)
    count = f"{len(files):,} file{'s are' if len(files) != 1 else ' is'} there and whole"
    return Verdict(
        "complete",
        f"all {count}{_ON_TRUST if on_trust else ''}",
        rests_on=(*([marker] if marker else []), *files),
        saved=newest if saved is None else saved,
    )


def _verify_open(file: BinaryIO, name: str, size: int, *, deep: bool) -> Verdict:
    start = file.read(9)
    length = int.from_bytes(start[:8], "little")
    if size <= 8 or length > LONGEST_HEADER or start[8:] != b"{" or size < 8 + length:
        return _without_header(start, name, size)
    try:
        end, metadata = _measure(b"{" + file.read(length - 1))
    except ValueError as fault:
        return Verdict("damaged", f"{name} has a damaged header: {fault}")
    if size != 8 + length + end:
        state = "incomplete" if size < 8 + length + end else "damaged"
        return Verdict(state, f"{name} has {size:,} bytes of {8 + length + end:,}")
    verdict = Verdict("complete", f"{name} has the size that its header gives it")
    return _verify_data(file, name, metadata, verdict) if deep else verdict


def _verify_data(file: BinaryIO, name: str, metadata: Mapping[str, Any], verdict: Verdict) -> Verdict:
    """Compare the rest of a file with the checksum in its header, or say that there is none."""
    expected = next((str(metadata[key]) for key in _CHECKSUMS if key in metadata), None)
    if expected is None:
        return verdict._replace(reason=verdict.reason + _ON_TRUST)
    if _sha256(file) != expected.lower().removeprefix("0x"):
        return Verdict("damaged", f"{name} is damaged: its data fail the checksum in its header")
    return verdict._replace(reason=f"{verdict.reason}, and its data are as their checksum says")


def _without_header(start: bytes, name: str, size: int) -> Verdict:
    if not start:
        return Verdict("incomplete", f"{name} is empty")
    if not any(start):
        return Verdict("damaged", f"{name} begins with zeros: space was set aside, and nothing written to it")
    length = int.from_bytes(start[:8], "little")
    if len(start) > 8 and (length > LONGEST_HEADER or start[8:] != b"{"):
        return Verdict("foreign", f"{name} begins with no header of safetensors")
    return Verdict("incomplete", f"{name} has {size:,} bytes, and its header alone {8 + length:,}")


def _measure(header: bytes) -> tuple[int, dict[str, Any]]:
    """Where the data end, counted from the header's end, and the metadata.

    Raises:
        ValueError: it is no JSON, or the tensors leave gaps, overlap or are not of their size.
    """
    try:
        tensors = json.loads(header)
        metadata = tensors.pop("__metadata__", None) or {}
        places = sorted((*one["data_offsets"], name) for name, one in tensors.items())
        end = 0
        for begin, until, name in places:
            if begin != end or until < begin:
                raise ValueError(f"{name} begins at {begin:,}, not at {end:,}")
            bits = _BITS.get(tensors[name]["dtype"])
            if bits and prod(tensors[name]["shape"]) * bits != (until - begin) * 8:
                raise ValueError(f"{name} has {until - begin:,} bytes, and its shape says otherwise")
            end = until
    except (TypeError, KeyError, AttributeError, RecursionError) as fault:
        raise ValueError("it does not say what tensors there are") from fault
    return end, metadata if isinstance(metadata, dict) else {}


def _sha256(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while data := file.read(_CHUNK):
        digest.update(data)
    return digest.hexdigest()


def _named_by(index: Path) -> list[str]:
    """The files that an index names.

    Raises:
        ValueError: it does not say; the message goes on from the index's name.
    """
    with index.open("rb") as file:
        text = file.read(LONGEST_INDEX)
    if not text:
        raise ValueError("is empty")
    try:
        files = sorted({str(name) for name in json.loads(text)["weight_map"].values()})
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as fault:
        raise ValueError("does not say what files there are") from fault
    if any(PurePath(name).is_absolute() or ".." in PurePath(name).parts for name in files):
        raise ValueError("names files outside its directory")
    if not files:
        raise ValueError("names no file")
    return files


def _lacking(files: Iterable[str]) -> str | None:
    """A file whose name the others' "1 of N" calls for."""
    series: dict[tuple[str, int, str], set[int]] = {}
    for piece in map(_PIECE.fullmatch, files):
        if piece:
            series.setdefault((piece[1], int(piece[3]), piece[4]), set()).add(int(piece[2]))
    for (stem, count, suffix), numbers in series.items():
        lacking = next(number for number in itertools.count(1) if number not in numbers)
        if lacking <= count:
            return f"{stem}-{lacking:05}-of-{count:05}{suffix}"
    return None


def _is_one(path: Path) -> bool:
    if not path.is_dir():
        return path.name.endswith(SUFFIX)
    return any(entry.name.endswith((SUFFIX, INDEX_SUFFIX)) for entry in path.iterdir())


LAYOUT = Layout(
    name="safetensors",
    summary="safetensors: one *.safetensors file, or a directory of them with model.safetensors.index.json",
    resume=("--resume", "{checkpoint}"),
    reshards=True,
    step_of=step_in,
    is_named=lambda name: not is_temporary(name),
    is_one=_is_one,
    verify=verify,
)
