"""What a store of job records holds: which files count, up to when, and who may touch them now.

A file that the manifest does not name does not exist for a reader. So all of an addition is there, or none.
"""

from __future__ import annotations

import fcntl
import re
import shutil
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

import msgspec

from slurmkit.accounting.schema import VERSION
from slurmkit.errors import UsageError
from slurmkit.launch.files import write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import IO

NAME = "manifest.json"
LOCK = "lock"
"""Held by who writes: one at a time."""
READERS = "readers"
"""Held, shared, by who reads: as long as one does, no file is removed."""
TEMPORARY = "temporary"
"""Folder for what is only of use while something is being added."""

Kind = Literal["jobs", "steps"]


class File(msgspec.Struct, frozen=True):
    """One Parquet file. `part` is the UTC day or month in which its attempts ended; empty for open ones."""

    path: str
    part: str
    rows: int
    size: int
    problems: int = 0
    """Rows with fields that could not be read."""


class Cluster(msgspec.Struct, frozen=True):
    """What there is of one cluster."""

    jobs: tuple[File, ...] = ()
    steps: tuple[File, ...] = ()
    synced_since: datetime | None = None
    synced_until: datetime | None = None
    """Slurm has been asked for everything from `synced_since` to here."""
    as_of: datetime | None = None
    """The moment of the newest records."""
    notes: dict[str, tuple[str, ...]] = {}
    """What could not be read, by the dump or the window that it stood in."""

    def files(self, kind: Kind) -> tuple[File, ...]:
        """The files of one of the two tables."""
        return self.jobs if kind == "jobs" else self.steps


class Manifest(msgspec.Struct, frozen=True):
    """The whole store; `generation` counts the additions."""

    version: int = VERSION
    generation: int = 0
    clusters: dict[str, Cluster] = {}


def load(store: Path) -> Manifest | None:
    """The manifest of a store; None where there is no store.

    Raises:
        UsageError: it cannot be read, or a later version has written it.
    """
    path = store / NAME
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UsageError(f"the store cannot be read: {error.strerror}", where=str(path)) from error
    # The version first: a later one may have another shape.
    written = re.search(rb'"version":\s*(\d+)', data)
    if written and int(written[1]) > VERSION:
        raise UsageError(
            f"the store is of version {int(written[1])}; this slurmkit reads up to {VERSION}",
            where=str(path),
            hint="use the slurmkit that wrote it, or a later one",
        )
    try:
        return msgspec.json.decode(data, type=Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UsageError(
            f"the store's manifest is damaged: {error}",
            where=str(path),
            hint="move the store away and sync again",
        ) from error


def save(store: Path, manifest: Manifest) -> None:
    """Make a manifest count, and with it the files that it names, which are on the disk by now.

    Raises:
        OSError: it could not be written; the one before still counts.
    """
    write_atomically(store / NAME, msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")


def folder_of(kind: str, cluster: str, part: str) -> str:
    """Where files are, relative to the store; a cluster may be called anything."""
    parts = [kind, f"cluster={quote(cluster, safe='')}"]
    return "/".join(
        [*parts, f"day={part}" if len(part) == len("2026-11-30") else f"month={part}" if part else "open"]
    )


@contextmanager
def writing(store: Path) -> Iterator[None]:
    """Be the only one who adds to a store, which is made where there is none.

    Raises:
        UsageError: somebody else is at it, or the folder cannot be written.
    """
    try:
        (store / TEMPORARY).mkdir(parents=True, exist_ok=True)
        (store / READERS).touch()
        file = (store / LOCK).open("a")
    except OSError as error:
        raise UsageError(f"the store cannot be written: {error.strerror}", where=str(store)) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError("another sync is at work on this store", where=str(store)) from None
        yield


def hold(store: Path) -> IO[str] | None:
    """Keep the files of a store from being removed until the result is closed; None where that cannot be."""
    try:
        file = (store / READERS).open()
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH)
    except OSError:  # a file system without locks: no one who writes there gets one either
        file.close()
        return None
    return file


def sweep(store: Path, manifest: Manifest) -> None:
    """Remove what no manifest names, as an interrupted addition leaves it; later, where somebody reads."""
    for path in (store / TEMPORARY).iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    named = {file.path for cluster in manifest.clusters.values() for file in cluster.jobs + cluster.steps}
    with (store / READERS).open("a") as readers:
        try:
            fcntl.flock(readers, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        for kind in ("jobs", "steps"):
            for path in (store / kind).glob("*/*/*.parquet"):
                if str(path.relative_to(store)) not in named:
                    path.unlink()


def replaced(manifest: Manifest, clusters: Mapping[str, Cluster]) -> Manifest:
    """The next generation of a manifest, with these clusters in the place of their earlier selves."""
    return Manifest(generation=manifest.generation + 1, clusters={**manifest.clusters, **clusters})
