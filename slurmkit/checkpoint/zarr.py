"""Zarr, in which Orbax keeps arrays where OCDBT is turned off: a directory of each, a file for a chunk."""

from __future__ import annotations

import math
import mmap
from itertools import product
from typing import TYPE_CHECKING, Any

from slurmkit.checkpoint import ocdbt, pieces, zstd
from slurmkit.checkpoint.layout import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FORMATS = {".zarray": 2, "zarr.json": 3}
"""The file that describes an array, by the version of the format."""


@pieces.from_outside
def verify(folder: Path, deep: bool) -> Verdict:  # noqa: FBT001, ARG001
    """Whether every chunk of an array is there and has its end; no chunk has a checksum of its data."""
    name = next((name for name in FORMATS if (folder / name).exists()), None)
    if name is None:
        return pieces.partial(f"{folder.name} is not there, or is no array")
    rests_on = ["", name]
    try:
        about = pieces.read_json(folder / name)
        for chunk in _chunks(about, FORMATS[name]):
            rests_on.append(chunk)
            _check(folder / chunk, about)
    except (ValueError, KeyError, TypeError, ZeroDivisionError) as fault:
        return Verdict("damaged", f"{rests_on[-1]} {fault}", rests_on=tuple(rests_on))
    saved = max((folder / one).stat().st_mtime for one in rests_on[1:])
    return Verdict(
        "complete", f"all {len(rests_on) - 2:,} chunks are there", None, None, tuple(rests_on), saved
    )


def _chunks(about: dict[str, Any], version: int) -> Iterator[str]:
    """The names of the files of an array, the empty product being that of a single number."""
    if version == 2:
        sizes, mark = about["chunks"], about.get("dimension_separator", ".")
    else:
        sizes, mark = about["chunk_grid"]["configuration"]["chunk_shape"], "/"
    counts = [math.ceil(length / size) for length, size in zip(about["shape"], sizes, strict=True)]
    for place in product(*map(range, counts)):
        if version == 2:
            yield mark.join(map(str, place)) or "0"
        else:
            yield mark.join(["c", *map(str, place)])


def _check(chunk: Path, about: dict[str, Any]) -> None:
    """Raise ValueError where a chunk is cut short, as far as its form tells."""
    size = chunk.stat().st_size
    if size == 0:
        raise ValueError("is empty")
    with chunk.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if (about.get("compressor") or {}).get("id") == "zstd":
            if zstd.frame_size(data) != size:
                raise ValueError("has more bytes than its frame")
        elif inner := _shard(about):
            _check_shard(data, size, inner)


def _shard(about: dict[str, Any]) -> int:
    """The number of chunks inside a file of chunks whose index stands at its end; 0 where it is none."""
    codec = (about.get("codecs") or [{}])[0]
    if (
        codec.get("name") != "sharding_indexed"
        or codec["configuration"].get("index_location", "end") != "end"
    ):
        return 0
    if [one["name"] for one in codec["configuration"]["index_codecs"]] != ["bytes", "crc32c"]:
        return 0
    outer = about["chunk_grid"]["configuration"]["chunk_shape"]
    return math.prod(
        whole // part for whole, part in zip(outer, codec["configuration"]["chunk_shape"], strict=True)
    )


def _check_shard(data: mmap.mmap, size: int, inner: int) -> None:
    index = data[max(size - 16 * inner - 4, 0) :]
    if len(index) < 16 * inner + 4 or ocdbt.crc32c(index[:-4]) != int.from_bytes(index[-4:], "little"):
        raise ValueError("has no whole index at its end: it was cut short")
    for place in range(0, 16 * inner, 16):
        offset, length = (int.from_bytes(index[place + at : place + at + 8], "little") for at in (0, 8))
        if offset != 2**64 - 1 and offset + length > size - len(index):
            raise ValueError("holds less than its index says")
