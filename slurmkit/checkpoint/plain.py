"""Files and directories of any kind, with a manifest that `commit` writes once everything is in them.

The manifest comes last and atomically: where it stands, everything that it names was on disk before.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.checkpoint.layout import Layout, Verdict
from slurmkit.checkpoint.names import is_temporary, step_in
from slurmkit.errors import UsageError
from slurmkit.launch.files import sync_directory, write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MANIFEST = "slurmkit-manifest.json"
FORMAT = 1
SKEW_NS = 60 * 1_000_000_000
"""Machines that write to one file system may disagree on the time by so much."""
LARGEST = 256 * 1024 * 1024
"""Bytes; no manifest is larger."""
READERS = 4
"""Files that are read at a time: one alone does not use a parallel file system."""

_SUFFIX = re.compile(r"\.[A-Za-z]\w*$")


class Piece(NamedTuple):
    """What the manifest says of one file."""

    size: int
    mtime_ns: int
    sha256: str


class Manifest(NamedTuple):
    """What `commit` wrote: pieces by their name in the checkpoint, which of a file itself is empty."""

    step: int | None
    world_size: int | None
    pieces: dict[str, Piece]
    written: os.stat_result


def commit(path: str | os.PathLike[str], step: int | None = None, world_size: int | None = None) -> None:
    """Declare a checkpoint complete: a file, or a directory with all that is in it.

    Call it in one process, once every rank has written and closed its files. All is fsync'd; then a manifest
    of sizes and checksums is written, into a directory or beside a file. With `world_size`, only so many
    ranks resume from it. After another save into the same place, call it again. Links to directories are
    passed over.

    Raises:
        UsageError: a file changes meanwhile, or there is none.
        OSError: something cannot be read or written.
    """
    path = Path(path).absolute()
    names = sorted(_walk(path)) if path.is_dir() else [""]
    if not names:
        raise UsageError("there is no file in it to commit", where=str(path))
    pieces = dict(zip(names, _read_all([_piece_path(path, name) for name in names]), strict=True))
    folders = {parent for name in names for parent in PurePosixPath(name).parents} if path.is_dir() else ()
    for folder in sorted(map(str, folders), reverse=True):
        sync_directory(os.fspath(path / folder))
    sync_directory(os.fspath(path.parent))
    content = {
        "format": FORMAT,
        "step": step,
        "world_size": world_size,
        "files": {name: piece._asdict() for name, piece in pieces.items()},
    }
    # A name that is not UTF-8 holds surrogates, which JSON writes as escapes.
    write_atomically(manifest_of(path), json.dumps(content, indent=1).encode("ascii") + b"\n")


def manifest_of(path: Path) -> Path:
    """Where the manifest of a checkpoint is: in a directory, beside a file."""
    return path / MANIFEST if path.is_dir() else path.with_name(manifest_beside(path.name))


def manifest_beside(name: str) -> str:
    """The name of the manifest of a file."""
    return f"{name}.{MANIFEST}"


def verify(path: Path, deep: bool) -> Verdict:  # noqa: FBT001
    """Whether all that was committed is there and as it was; deep compares every checksum."""
    marker = manifest_of(path)
    try:
        manifest = _read(marker)
        fault = _first_fault(path, manifest, marker.name, deep=deep)
    except FileNotFoundError:
        return Verdict("incomplete", "no manifest: commit() was not called")
    except OSError as error:
        return Verdict("incomplete", f"it cannot be read: {error.strerror}")
    except ValueError as error:
        return Verdict("damaged", f"{marker.name} {error}")
    rests_on = (MANIFEST if marker.parent == path else f"../{marker.name}", *manifest.pieces)
    if fault is not None:
        return fault._replace(step=manifest.step, world_size=manifest.world_size, rests_on=rests_on)
    count = "1 file" if len(manifest.pieces) == 1 else f"{len(manifest.pieces):,} files"
    return Verdict(
        "complete",
        f"holds {count} as committed, by {'checksum' if deep else 'size'}",
        manifest.step,
        manifest.world_size,
        rests_on,
        manifest.written.st_mtime,
    )


def _first_fault(path: Path, manifest: Manifest, marker: str, *, deep: bool) -> Verdict | None:
    for name, piece in manifest.pieces.items():
        shown = name or path.name
        file = _piece_path(path, name)
        try:
            found = file.stat()
        except FileNotFoundError:
            return Verdict("incomplete", f"{shown} is not there")
        if not stat.S_ISREG(found.st_mode):
            return Verdict("damaged", f"{shown} is no file any more")
        if found.st_size != piece.size:
            return Verdict("damaged", f"{shown} has {found.st_size:,} bytes of {piece.size:,}")
        # A copy has other times too: only the content tells it from a save that was not finished.
        is_newer = (
            found.st_mtime_ns != piece.mtime_ns and found.st_mtime_ns > manifest.written.st_mtime_ns - SKEW_NS
        )
        if (deep or is_newer) and _digest(file) != piece.sha256:
            if is_newer:
                why = f"a second save into it was not finished: {shown} is newer than {marker}"
                return Verdict("damaged", why)
            return Verdict("damaged", f"{shown} does not have the content that was committed")
    return None


def _read(marker: Path) -> Manifest:
    """What a manifest says.

    Raises:
        OSError: it cannot be read.
        ValueError: it is none; the message goes on from its name.
    """
    with marker.open("rb") as file:
        data = file.read(LARGEST)
        written = os.fstat(file.fileno())
    try:
        content = json.loads(data)
        is_newer = content["format"] > FORMAT
        pieces = {
            name: Piece(int(one["size"]), int(one["mtime_ns"]), str(one["sha256"]))
            for name, one in content["files"].items()
        }
        step, world_size = _number(content["step"]), _number(content["world_size"])
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError("is no manifest of commit()") from error
    if is_newer:
        raise ValueError("was written by a newer slurmkit")
    if any(name.startswith("/") or ".." in name.split("/") or "\0" in name for name in pieces):
        raise ValueError("names a file outside of the checkpoint")
    return Manifest(step, world_size, pieces, written)


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _piece_path(path: Path, name: str) -> Path:
    return path / name if name else path


def _walk(path: Path) -> Iterator[str]:
    """All files in a directory, by their names relative to it."""
    for folder, _, files in os.walk(path, onerror=_raise):
        for name in files:
            file = Path(folder, name).relative_to(path)
            if str(file) != MANIFEST and not name.startswith(f".{MANIFEST}."):
                yield str(file)


def _raise(error: OSError) -> None:
    raise error


def _read_all(files: Iterable[Path]) -> list[Piece]:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(READERS) as pool:
        return list(pool.map(_settle, files))


def _settle(file: Path) -> Piece:
    """Make a file durable, and read it."""
    if not stat.S_ISREG(file.stat().st_mode):
        raise UsageError(f"{file.name} is no file: it has no content to commit", where=str(file))
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
        before = os.fstat(opened.fileno())
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
        after = os.fstat(opened.fileno())
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise UsageError(
            f"{file.name} changes while it is committed",
            where=str(file),
            hint="call commit() in one process, after a barrier behind every rank's writing",
        )
    return Piece(after.st_size, after.st_mtime_ns, digest)


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def is_named(name: str) -> bool:
    """Whether an entry of this name can be a checkpoint: anything but what is temporary, and manifests."""
    return not is_temporary(name) and not name.endswith(MANIFEST)


def step_of(name: str) -> int | None:
    """The step in a name, whatever the suffix."""
    return step_in(_SUFFIX.sub("", name))


LAYOUT = Layout(
    name="plain",
    summary="any file or directory that slurmkit.checkpoint.commit() has put a manifest to",
    resume=("--resume", "{checkpoint}"),
    reshards=False,
    step_of=step_of,
    is_named=is_named,
    is_one=lambda path: manifest_of(path).is_file(),
    verify=verify,
)
