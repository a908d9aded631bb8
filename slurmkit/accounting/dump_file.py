"""The file of a dump, as DuckDB can read it, or a copy in which marks stand for what is no text."""

from __future__ import annotations

import codecs
import gzip
import re
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

from slurmkit.errors import MissingRequirement

if TYPE_CHECKING:
    from contextlib import ExitStack

    from duckdb import DuckDBPyConnection

CHUNK = 1 << 24
HEAD = 1 << 16
"""Bytes in which a header stands."""
HEAD_LINES = 2
RETURN = "\N{SYMBOL FOR CARRIAGE RETURN}"
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5": "zstd"}
_PATTERN = re.compile(r"[*?\[\]{}]")


class Source(NamedTuple):
    """The file that DuckDB reads for a dump, and the name that the user knows it by."""

    path: Path
    compression: str
    name: str


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
    """DuckDB's reader for the file; nothing in it quotes anything, and no text in it stands for NULL."""
    return (
        f"read_csv({quoted(str(source.path))}, auto_detect=false, quote='', escape='', nullstr='\x02\x03',"
        f" compression='{source.compression}', {options})"
    )


def quoted(text: str) -> str:
    """The text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def is_utf8(source: Source) -> bool:
    """Whether every byte is text. Of a packed file DuckDB finds it out."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with source.path.open("rb") as file:
            while chunk := file.read(CHUNK):
                decoder.decode(chunk)
            decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def plain_copy(source: Source, held: ExitStack) -> Source:
    """A copy, unpacked, in which a mark stands for each byte that is no text and each carriage return.

    Raises:
        MissingRequirement: to unpack it takes a program that is not installed.
    """
    folder = Path(held.enter_context(TemporaryDirectory(prefix="slurmkit-dump-")))
    copy = folder / "dump"
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    with _opened(source, held) as file, copy.open("w", encoding="utf-8", newline="") as out:
        held_back = ""
        while chunk := file.read(CHUNK):
            text = held_back + decoder.decode(chunk)
            # A line may end in both; what follows a return at the end of a chunk is not known yet.
            held_back = "\r" if text.endswith("\r") else ""
            out.write(_marked(text.removesuffix("\r")))
        out.write(_marked(held_back + decoder.decode(b"", final=True)))
    return source._replace(path=copy, compression="none")


def _marked(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", RETURN) if "\r" in text else text


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
