"""Where a report's records come from: a store, or a dump in whichever format it is."""

from __future__ import annotations

import gzip
import tempfile
import zlib
from contextlib import ExitStack
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING

from slurmkit.accounting import json_dump, xdmod
from slurmkit.accounting.dump import open_dump
from slurmkit.accounting.ledger import Ledger, amiss
from slurmkit.accounting.store import is_store, open_store
from slurmkit.errors import UsageError
from slurmkit.slurm.rows import DELIMITER

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

HEAD = 1 << 16
"""Bytes of a file by which its format is told."""


def open_source(source: Path | str | None, *, columns: Collection[str] | None = None) -> Ledger:
    """The records of a store's folder or of a dump; None stands for the store of `slurmkit accounting sync`.

    A dump is the text of sacct with any delimiter, `sacct --json`, or what Open XDMoD reads; packed or not.
    It is read once, where the `columns` of jobs that will be asked for are known, and else for each query.

    Raises:
        UsageError: there is nothing of that name, or nothing that can be read.
    """
    if source is None:
        return open_store()
    path = Path(source)
    if path.is_dir():
        if not is_store(path):
            raise UsageError(
                "the folder is no store of job records",
                where=str(path),
                hint="name a dump of sacct, or the folder that `slurmkit accounting sync --store` fills",
            )
        return open_store(path)
    ledger = open_file(path, columns=columns)
    return ledger._replace(notes=(*ledger.notes, *amiss(ledger.connection)))


def open_file(path: Path, *, columns: Collection[str] | None = None) -> Ledger:
    """The records of a dump, whose format is told by its first bytes.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        head = _head(path)
    except (OSError, EOFError, zlib.error) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"the dump cannot be read: {said}", where=str(path)) from error
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return _converted(path, json_dump.convert, DELIMITER, columns)
    if xdmod.is_xdmod(head.partition(b"\n")[0].decode("utf-8", "replace")):
        return _converted(path, xdmod.convert, xdmod.DELIMITER, columns)
    return open_dump(path, columns=columns)


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        if file.read(2) != b"\x1f\x8b":
            file.seek(0)
            return file.read(HEAD)
    with gzip.open(path) as packed:
        return packed.read(HEAD)


def _converted(
    path: Path,
    convert: Callable[[Path, Path], object],
    delimiter: str,
    columns: Collection[str] | None,
) -> Ledger:
    """The records of a dump that is read as text once it is written anew; the copy goes with them."""
    with ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="slurmkit-dump-")))
        copy = folder / path.name
        try:
            convert(path, copy)
        except (OSError, EOFError, zlib.error) as error:
            said = getattr(error, "strerror", None) or str(error)
            raise UsageError(f"the dump cannot be read: {said}", where=str(path)) from error
        ledger = open_dump(copy, delimiter=delimiter, zone=UTC, columns=columns)
        if ledger.held is not None:
            held.push(ledger.held)
        kept = held.pop_all()
    return ledger._replace(held=kept)
