"""The file of a dump, as DuckDB can read it, or a copy in which every text stands where it belongs."""

from __future__ import annotations

import codecs
import gzip
import re
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

from slurmkit.accounting.ledger import quoted
from slurmkit.accounting.repair import Line, mend
from slurmkit.errors import MissingRequirement

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import ExitStack

    from duckdb import DuckDBPyConnection

    from slurmkit.accounting.header import Header

CHUNK = 1 << 24
HEAD = 1 << 16
"""Bytes in which a header stands."""
HEAD_LINES = 2
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5": "zstd"}
_PATTERN = re.compile(r"[*?\[\]{}]")


class Source(NamedTuple):
    """The file that DuckDB reads for a dump, and the name that the user knows it by."""

    path: Path
    compression: str
    name: str
    is_quoted: bool = False
    """Whether texts may stand in double quotes: in a copy that was made here."""


def source_of(path: Path, held: ExitStack) -> Source:
    """The file, by a name that DuckDB does not take for a pattern."""
    with path.open("rb") as file:
        compression = _MAGIC.get(file.read(2), "none")
    readable = path.absolute()
    if _PATTERN.search(str(readable)):
        readable = Path(held.enter_context(TemporaryDirectory(prefix="slurmkit-dump-"))) / "dump"
        readable.symlink_to(path.absolute())
    return Source(readable, compression, str(path))


def head_of(source: Source, connection: DuckDBPyConnection) -> list[str]:
    """The first lines; bytes that are no text are marked."""
    if source.compression == "zstd":
        one_column = "header=false, columns={'line': 'VARCHAR'}, delim='\x04', ignore_errors=true"
        rows = connection.execute(f"FROM {read_csv(source, one_column)} LIMIT {HEAD_LINES}").fetchall()
        return [line for (line,) in rows if line is not None]
    opener = gzip.open if source.compression == "gzip" else open
    with opener(source.path, "rb") as file:
        return file.read(HEAD).decode("utf-8", "replace").split("\n")


def read_csv(source: Source, options: str) -> str:
    """DuckDB's reader for the file; sacct quotes nothing, and no text stands for NULL."""
    mark = '"' if source.is_quoted else ""
    return (
        f"read_csv({quoted(source.path)}, auto_detect=false, quote='{mark}', escape='{mark}',"
        f" nullstr='\x02\x03', compression='{source.compression}', {options})"
    )


def as_utf8(source: Source, held: ExitStack) -> Source:
    """The file, or a copy in which a mark stands for each byte that is no text; a packed file as it is."""
    if source.compression != "none" or _is_utf8(source):
        return source
    copy = Path(held.enter_context(TemporaryDirectory(prefix="slurmkit-dump-"))) / "dump"
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    with source.path.open("rb") as file, copy.open("wb") as out:
        while chunk := file.read(CHUNK):
            out.write(decoder.decode(chunk).encode())
        out.write(decoder.decode(b"", final=True).encode())
    return source._replace(path=copy)


def _is_utf8(source: Source) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with source.path.open("rb") as file:
            while chunk := file.read(CHUNK):
                decoder.decode(chunk)
            decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def mended_copy(source: Source, header: Header, held: ExitStack) -> tuple[Source, tuple[Line, ...]]:
    """A copy, unpacked and with quotes, of all that can be read, whatever stands in it; and the lines lost.

    Bytes that are no text are marked.

    Raises:
        MissingRequirement: to unpack it takes a program that is not installed.
    """
    copy = Path(held.enter_context(TemporaryDirectory(prefix="slurmkit-dump-"))) / "dump"
    lost: list[Line] = []
    delimiter = header.delimiter
    with _opened(source, held) as file, copy.open("w", encoding="utf-8", newline="") as out:
        first = file.readline().rstrip(b"\n")
        end = "\r" if first.endswith(b"\r") else ""
        out.write("header\n")
        for record in mend(_lines(file, end), header.columns, delimiter):
            if isinstance(record, Line):
                lost.append(record)
                continue
            text = delimiter.join(record.cells)
            if '"' in text or "\r" in text or "\n" in text or text.count(delimiter) >= len(record.cells):
                text = delimiter.join('"' + cell.replace('"', '""') + '"' for cell in record.cells)
            out.write(text + "\n")
    return source._replace(path=copy, compression="none", is_quoted=True), tuple(lost)


def _lines(file: BinaryIO, end: str) -> Iterator[Line]:
    for number, line in enumerate(file, 2):
        yield Line(number, line.decode("utf-8", "replace").removesuffix("\n").removesuffix(end))


def _opened(source: Source, held: ExitStack) -> BinaryIO:
    if source.compression == "none":
        return source.path.open("rb")
    if source.compression == "gzip":
        return cast("BinaryIO", gzip.open(source.path))
    program = shutil.which("zstd")
    if program is None:
        raise MissingRequirement(
            "the dump is packed, and the program zstd is not installed", where=source.name
        )
    process = held.enter_context(
        subprocess.Popen([program, "-dcq", "--", source.path], stdout=subprocess.PIPE)
    )
    if process.stdout is None:
        raise AssertionError
    held.callback(process.kill)
    return cast("BinaryIO", process.stdout)
