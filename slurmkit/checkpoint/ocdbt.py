"""TensorStore's OCDBT, in which Orbax keeps arrays: a tree of small nodes that places every value in a file.

`manifest.ocdbt` leads to the tree's root, nodes lead to nodes, the lowest to the values. All of these carry a
CRC-32C; values carry none. What the tree does not lead to is of an earlier state, and may be anything.
"""

from __future__ import annotations

import mmap
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.checkpoint import zstd
from slurmkit.checkpoint.layout import Verdict
from slurmkit.checkpoint.pieces import from_outside

if TYPE_CHECKING:
    from pathlib import Path

MANIFEST = "manifest.ocdbt"
BUDGET = 1 << 20
"""Bytes of nodes that are read where not all are: a second or two of work."""
_MANIFEST_MAGIC = b"\x0c\xdb\x3a\x2a"
_NODE_MAGIC = b"\x0c\xdb\x20\xde"
_MOST_NODES = 1 << 20


class _Unknown(Exception):
    """A version of the format, or a form of it, that is not read here."""


class _Place(NamedTuple):
    """Where a node or a value stands."""

    base: str
    """The part of the path that the nodes below it begin at."""
    file: str
    offset: int
    length: int


class _Reader:
    """Numbers and bytes of a node, one after the other."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def byte(self) -> int:
        return self.take(1)[0]

    def take(self, count: int) -> bytes:
        self.at += count
        if self.at > len(self.data):
            raise ValueError("it is shorter than it says")
        return self.data[self.at - count : self.at]

    def number(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
            if shift > 63:
                raise ValueError("it holds a number of more than 64 bits")

    def numbers(self, count: int) -> list[int]:
        if count > len(self.data):
            raise ValueError("it is shorter than it says")
        return [self.number() for _ in range(count)]


@from_outside
def verify(folder: Path, deep: bool) -> Verdict:  # noqa: FBT001
    """Whether the tree is whole and all that it places is inside its files; deep looks at all of it."""
    manifest = folder / MANIFEST
    rests_on = {MANIFEST: manifest.stat().st_mtime}
    note = ""
    try:
        values, note = _walk(folder, manifest.read_bytes(), BUDGET if not deep else None)
        for file, places in values.items():
            rests_on[file] = (folder / file).stat().st_mtime
            _check_file(folder, file, places, deep=deep)
    except _Unknown as unknown:
        note = f"; {unknown}, so the sizes of its files are taken as they are"
    except ValueError as fault:
        return Verdict("damaged", str(fault), rests_on=("", *rests_on))
    trust = "; values have no checksums, so a hole in one would not be seen" if deep else ""
    reason = f"the tree of {MANIFEST} is whole, and its {len(rests_on) - 1:,} data files{note}{trust}"
    return Verdict("complete", reason, rests_on=tuple(rests_on), saved=max(rests_on.values()))


def _walk(folder: Path, manifest: bytes, budget: int | None) -> tuple[dict[str, list[_Place]], str]:
    """What the tree places in each file, its own nodes too, and what is to be said of a part unread."""
    root = _root(_body(manifest, _MANIFEST_MAGIC, MANIFEST))
    values: dict[str, list[_Place]] = {}
    waiting = [root] if root else []
    read = 0
    for number, place in enumerate(waiting):
        values.setdefault(place.file, []).append(place)
        read += place.length
        if budget is not None and read > budget and number:
            for left in waiting[number:]:
                values.setdefault(left.file, []).append(left)
            return values, f", of which {len(waiting) - number:,} nodes were not read (deep reads all)"
        if number >= _MOST_NODES:
            raise ValueError(f"{MANIFEST} leads to more than {_MOST_NODES:,} nodes")
        with (folder / place.file).open("rb") as file:
            file.seek(place.offset)
            data = file.read(place.length)
        if len(data) < place.length:
            raise ValueError(_short(folder, place))
        where = f"{place.file} at byte {place.offset:,}"
        below, held = _node(_body(data, _NODE_MAGIC, where), place.base, where)
        waiting += below
        for value in held:
            values.setdefault(value.file, []).append(value)
    return values, ""


def _short(folder: Path, place: _Place) -> str:
    size = (folder / place.file).stat().st_size
    return f"{place.file} has {size:,} bytes of {place.offset + place.length:,}"


def _check_file(folder: Path, file: str, places: list[_Place], *, deep: bool) -> None:
    last = max(places, key=lambda place: place.offset + place.length)
    if (folder / file).stat().st_size < last.offset + last.length:
        raise ValueError(_short(folder, last))
    if not deep:
        return
    with (folder / file).open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for place in places:
            if data[place.offset : place.offset + 4] == zstd.MAGIC:
                size = zstd.frame_size(data, place.offset)
                if size > place.length:
                    raise ValueError(f"{file} holds a value without its end at byte {place.offset:,}")


def _body(data: bytes, magic: bytes, where: str) -> _Reader:
    """What stands between head and checksum, decompressed."""
    if data[:4] != magic:
        raise ValueError(f"{where} does not begin as it should")
    head = _Reader(data)
    head.take(4)
    size = int.from_bytes(head.take(8), "little")
    if size != len(data):
        raise ValueError(f"{where} has {len(data):,} bytes of {size:,}")
    version, compression = head.number(), head.number()
    if version != 0 or compression > 1:
        raise _Unknown(f"{where} is of a version unknown")
    if crc32c(data[:-4]) != int.from_bytes(data[-4:], "little"):
        raise ValueError(f"{where} fails its checksum")
    body = data[head.at : -4]
    try:
        return _Reader(zstd.decompress(body) if compression else body)
    except ValueError as fault:
        raise ValueError(f"{where} cannot be read: {fault}") from fault


def _root(body: _Reader) -> _Place | None:
    """The root of the newest version; None where nothing was ever written."""
    body.take(16)
    if body.byte() != 0:
        raise _Unknown(f"{MANIFEST} is one of several")
    body.numbers(2)
    body.byte()
    if body.number() == 1:
        body.take(4)
    files = _files(body, "")
    count = body.number()
    body.numbers(count)
    body.take(count)
    which, offsets, lengths = (body.numbers(count) for _ in range(3))
    if not count or not lengths[-1]:
        return None
    return _Place(*_file(files, which[-1], MANIFEST), offsets[-1], lengths[-1])


def _node(body: _Reader, base: str, where: str) -> tuple[list[_Place], list[_Place]]:
    """The nodes below a node, and the values that it places in files."""
    height = body.byte()
    files = _files(body, base)
    count = body.number()
    body.numbers(max(count - 1, 0))
    suffixes = body.numbers(count)
    if height:
        body.numbers(count)
    body.take(sum(suffixes))
    if height:
        which, offsets, lengths = (body.numbers(count) for _ in range(3))
        return [
            _Place(*_file(files, one, where), offset, length)
            for one, offset, length in zip(which, offsets, lengths, strict=True)
        ], []
    lengths = body.numbers(count)
    outside = [length for length, kind in zip(lengths, body.numbers(count), strict=True) if kind]
    which, offsets = (body.numbers(len(outside)) for _ in range(2))
    return [], [
        _Place(*_file(files, one, where), offset, length)
        for one, offset, length in zip(which, offsets, outside, strict=True)
    ]


def _files(body: _Reader, above: str) -> list[tuple[str, str]]:
    """The base and the path of each data file that a node names."""
    count = body.number()
    shared = [0, *body.numbers(max(count - 1, 0))]
    sizes, bases = body.numbers(count), body.numbers(count)
    files: list[tuple[str, str]] = []
    before = b""
    for kept, size, base in zip(shared, sizes, bases, strict=False):
        before = before[:kept] + body.take(size)
        try:
            path, start = above + before.decode(), above + before[:base].decode()
        except UnicodeDecodeError as fault:
            raise ValueError("a node names a file that is none") from fault
        if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts or "\0" in path:
            raise ValueError(f"a node names a file outside: {path!r}")
        files.append((start, path))
    return files


def _file(files: list[tuple[str, str]], which: int, where: str) -> tuple[str, str]:
    if which >= len(files):
        raise ValueError(f"{where} names a file that it does not list")
    return files[which]


def _crc_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)  # noqa: PLW2901
        table.append(value)
    return table


_CRC = _crc_table()


def crc32c(data: bytes) -> int:
    """The Castagnoli checksum of data."""
    value = 0xFFFFFFFF
    for byte in data:
        value = _CRC[(value ^ byte) & 255] ^ value >> 8
    return value ^ 0xFFFFFFFF
