"""Files of torch.save: a zip whose central directory, at its very end, tells what must stand before it.

A file that was cut short has no such end; one with a hole has an entry that does not match its checksum, at
which torch itself never looks.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import struct
import zipfile
import zlib
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, BinaryIO

from slurmkit.checkpoint import pickles
from slurmkit.checkpoint.layout import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

HEAD = b"PK\x03\x04"
TAIL = b"PK\x05\x06"
TAIL_SIZE = 22
"""Bytes of the end of central directory, which begins with `TAIL`; torch writes no comment after it."""
LEGACY_HEAD = b"\x80\x02\x8a\x0a"
"""How torch.save's files began before 1.6, and still do with `_use_new_zipfile_serialization=False`."""
ON_TRUST = "; it was saved without checksums, so a hole in it would not be seen"
SPOTS = 16
"""Local headers that are read where not all are."""
_CHUNK = 4 << 20
_LOCAL = struct.Struct("<4s22xHH")

_FAULTS = (
    zipfile.BadZipFile, zlib.error, struct.error, ValueError, OverflowError, LookupError,
    NotImplementedError, RuntimeError, EOFError, MemoryError,
)  # fmt: skip
"""All that zipfile raises for a file that is none, or no whole one."""


class Window(io.RawIOBase):
    """Part of a file that reads like a file of its own."""

    def __init__(self, file: BinaryIO, start: int, size: int) -> None:
        self._file, self._start, self._size, self._at = file, start, size, 0

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """The place in the part."""
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a place.

        Raises:
            ValueError: it lies before the part begins.
        """
        at = offset + (0, self._at, self._size)[whence]
        if at < 0:
            raise ValueError(f"place {at} lies before the start")
        self._at = at
        return at

    def read(self, size: int = -1, /) -> bytes:
        """Read on, never past the part's end."""
        left = max(self._size - self._at, 0)
        self._file.seek(self._start + self._at)
        data = self._file.read(left if size < 0 else min(size, left))
        self._at += len(data)
        return data


def verify_file(path: Path, deep: bool) -> Verdict:  # noqa: FBT001
    """Whether a file is a whole one of torch.save's; deep compares every entry with its checksum."""
    return of_file(path, lambda file, size: verify_part(file, path.name, 0, size, deep=deep))


def of_file(path: Path, look: Callable[[BinaryIO, int], Verdict]) -> Verdict:
    """The verdict of `look`, which is given the open file and its size and rests on that file alone."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            return Verdict("foreign", f"{path.name} is no file")
        with path.open("rb") as file:
            verdict = look(file, status.st_size)
    except OSError as error:
        return unreadable(path, error)
    return verdict._replace(rests_on=("",), saved=status.st_mtime)


def verify_part(file: BinaryIO, name: str, start: int, size: int, *, deep: bool) -> Verdict:
    """The same of `size` bytes of an open file from `start` on; `name` is what the reason calls them."""
    if size == 0:
        return Verdict("incomplete", f"{name} is empty")
    file.seek(start)
    head = file.read(min(size, len(HEAD)))
    if head == LEGACY_HEAD:
        return Verdict(
            "unverified",
            f"{name} is of torch.save's old format, which has no end: only a load shows whether it is whole",
        )
    if not any(head):
        return Verdict("damaged", f"{name} begins with zeros: space was set aside, and nothing written to it")
    if not HEAD.startswith(head):
        return Verdict("foreign", f"{name} was not written by torch.save")
    window = Window(file, start, size)
    try:
        archive = zipfile.ZipFile(window)
    except _FAULTS:
        return Verdict(
            "incomplete",
            f"{name} has no central directory at its end: it was cut short, or is still being written",
        )
    with archive:
        return _verify_entries(archive, window, name, deep=deep)


def saved(path: Path) -> dict[Any, Any]:
    """The dict that was saved, with inert stand-ins for its tensors; empty where it can't be told.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        try:
            with zipfile.ZipFile(Window(file, 0, os.fstat(file.fileno()).st_size)) as archive:
                names = [name for name in archive.namelist() if name.endswith("/data.pkl")]
                return pickles.fields(pickles.load(archive.open(names[0])))
        except _FAULTS:
            return {}


def scalars(path: Path, names: Iterable[str]) -> dict[str, int | float | str]:
    """Numbers and texts that the saved dict holds under these names: those that are there, without a load.

    Raises:
        OSError: the file cannot be read.
    """
    found = saved(path)
    return {name: found[name] for name in names if isinstance(found.get(name), int | float | str)}


def unreadable(path: Path, error: OSError) -> Verdict:
    """The verdict where the system itself says no."""
    where = path.name if error.filename is None else PurePath(os.fsdecode(error.filename)).name
    if error.errno == errno.ELOOP:
        return Verdict("damaged", f"{where} is a symbolic link that leads back to itself")
    if error.errno == errno.ENOENT:
        return Verdict("incomplete", f"{where} is not there")
    return Verdict("incomplete", f"{where} cannot be read: {error.strerror}")


def _verify_entries(archive: zipfile.ZipFile, window: Window, name: str, *, deep: bool) -> Verdict:
    entries = sorted(archive.infolist(), key=lambda entry: entry.header_offset)
    root = entries[0].filename.partition("/")[0] if entries else ""
    if not any(entry.filename in {f"{root}/data.pkl", f"{root}/constants.pkl"} for entry in entries):
        return Verdict("foreign", f"{name} is a zip, and none of torch.save's")
    if entries[0].header_offset != 0:
        return Verdict("damaged", f"{name} is whole from byte {entries[0].header_offset:,} on only")
    ends = [*(entry.header_offset for entry in entries[1:]), archive.start_dir]
    spots = range(len(entries)) if deep else _spots(len(entries))
    for number, (entry, end) in enumerate(zip(entries, ends, strict=True)):
        fault = _misplaced(entry, end) or (_header_fault(window, entry, end) if number in spots else None)
        if fault:
            return Verdict("damaged", f"{name} is damaged: its entry {entry.filename} {fault}")
    sums = any(entry.CRC for entry in entries)
    if deep and sums:
        for entry in entries:
            if not _matches(archive, entry):
                return Verdict("damaged", f"{name} is damaged: its entry {entry.filename} fails its checksum")
    looked = "" if not deep else ", all as their checksums say" if sums else ON_TRUST
    return Verdict("complete", f"{name} has all of its {len(entries):,} entries{looked}")


def _spots(count: int) -> set[int]:
    return {number * (count - 1) // (SPOTS - 1) for number in range(SPOTS)}


def _name(entry: zipfile.ZipInfo) -> bytes:
    return entry.orig_filename.encode("utf-8" if entry.flag_bits & 0x800 else "cp437")


def _misplaced(entry: zipfile.ZipInfo, end: int) -> str | None:
    needs = entry.header_offset + _LOCAL.size + len(_name(entry)) + entry.compress_size
    return f"reaches to byte {needs:,} of {end:,}" if needs > end else None


def _header_fault(window: Window, entry: zipfile.ZipInfo, end: int) -> str | None:
    window.seek(entry.header_offset)
    local = window.read(_LOCAL.size)
    if len(local) < _LOCAL.size or not local.startswith(HEAD):
        return f"has no header at byte {entry.header_offset:,}"
    _head, name_size, extra_size = _LOCAL.unpack(local)
    if window.read(name_size) != _name(entry):
        return f"has another name at byte {entry.header_offset:,}"
    data_end = entry.header_offset + _LOCAL.size + name_size + extra_size + entry.compress_size
    return f"reaches to byte {data_end:,} of {end:,}" if data_end > end else None


def _matches(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bool:
    try:
        with archive.open(entry) as file:
            while file.read(_CHUNK):
                pass
    except _FAULTS:
        return False
    return True
