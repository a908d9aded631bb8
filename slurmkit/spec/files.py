"""Reading a TOML file: everything that can be wrong with a file before its keys mean anything."""

from __future__ import annotations

import os
import re
import stat
import tomllib
from typing import TYPE_CHECKING, Any, Final

import msgspec

from slurmkit.errors import JobFileError
from slurmkit.spec.problems import excerpt, printable

if TYPE_CHECKING:
    from pathlib import Path

LARGEST: Final = 1 << 20
"""A job file is a page; anything over 1 MiB is another kind of file."""

_DEEPEST: Final = 32
_TOO_DEEP: Final = "tables or lists are nested too deeply to read"
_BY_ERROR: Final = {
    FileNotFoundError: "there is no such file",
    PermissionError: "you may not read this file",
    NotADirectoryError: "part of the path is a file, not a directory",
}
_TOML_PLACE: Final = re.compile(
    r"(?P<what>.*) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)", re.DOTALL
)


class TomlFile(msgspec.Struct, frozen=True):
    """A file that was read: its text, for positions, and its tables."""

    text: str
    values: dict[str, Any]


def read_toml(path: Path) -> TomlFile:
    """Read and parse one TOML file; CRLF and a byte order mark are taken.

    Raises:
        JobFileError: the file cannot be read or is no TOML.
    """
    text = _decode(path, _read(path))
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise JobFileError(_syntax_problems(path, text, str(error))) from None
    except RecursionError:
        raise _unreadable(path, _TOO_DEEP) from None
    except ValueError:
        raise _unreadable(path, "a number in it has more digits than can be read") from None
    if is_deep(values):
        raise _unreadable(path, _TOO_DEEP)
    return TomlFile(text, values)


def is_deep(values: object) -> bool:
    """Whether tables and lists are nested deeper than a job file can mean, and than recursion may follow."""
    level = [values]
    for _ in range(_DEEPEST):
        inner: list[object] = []
        for one in level:
            inner += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        level = inner
    return bool(level)


def _read(path: Path) -> bytes:
    try:
        # O_NONBLOCK: opening a pipe that nobody writes to would wait for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise _unreadable(path, "this is a pipe or a device, and a job file is a file")
            size = status.st_size
            content = b"" if size > LARGEST else file.read(LARGEST + 1)
    except IsADirectoryError:
        raise _unreadable(path, f"this is a directory{_job_file_in(path)}") from None
    except OSError as error:
        what = _BY_ERROR.get(type(error), error.strerror or "cannot be read")
        raise _unreadable(path, what + _beside(path, error)) from None
    except ValueError:
        raise _unreadable(path, "this is not the name of a file: it holds a NUL") from None
    if max(size, len(content)) > LARGEST:
        raise _unreadable(path, f"this is no job file: it is larger than {LARGEST // 1024} KiB")
    return content


def _unreadable(path: Path, what: str) -> JobFileError:
    return JobFileError([printable(f"{path}: {what}")])


def _job_file_in(directory: Path) -> str:
    try:
        names = sorted(one.name for one in directory.glob("*.toml"))
    except OSError:
        names = []
    return f"; did you mean `{directory / names[0]}`?" if len(names) == 1 else "; name the job file in it"


def _beside(path: Path, error: OSError) -> str:
    """The file that was likely meant, where one of a similar name stands in the same directory."""
    if not isinstance(error, FileNotFoundError):
        return ""
    import difflib

    try:
        stems = [one.stem for one in path.parent.iterdir() if one.suffix == ".toml"]
    except OSError:
        return ""
    close = difflib.get_close_matches(path.stem, stems, n=1)
    return f"; did you mean `{path.parent / close[0]}.toml`?" if close else ""


def _decode(path: Path, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line = before.count(b"\n") + 1
        column = len(before.rpartition(b"\n")[2].decode(errors="replace")) + 1
        byte = content[error.start]
        what = f"not UTF-8: the byte 0x{byte:02x} here; save the file as UTF-8"
        raise JobFileError([printable(f"{path}:{line}:{column}: {what}")]) from None


def _syntax_problems(path: Path, text: str, message: str) -> list[str]:
    """What tomllib says, with its place, and further places that are no TOML either."""
    from slurmkit.spec.positions import Span, defects

    match = _TOML_PLACE.fullmatch(message)
    what = match["what"] if match else message
    found = {one.span.line: one for one in defects(text)}
    if match and match["line"]:
        main = Span(int(match["line"]), int(match["column"]), 1)
        if main.line in found and "twice" in found[main.line].what:
            main, what = found[main.line].span, found[main.line].what
    elif found:
        first = found.pop(min(found))
        main, what = first.span, first.what if "twice" in first.what else what
    else:
        lines = text.rstrip("\n").split("\n")
        main = Span(len(lines), len(lines[-1]) + 1, 1)
    if "\r" in text.replace("\r\n", ""):
        what += " (a carriage return without a line feed)"
    spans = [(main, f"not TOML: {what}")]
    spans += [
        (one.span, one.what) for line, one in found.items() if line != main.line and "twice" in one.what
    ]
    spans.sort(key=lambda pair: pair[0].line)
    return [
        "\n".join((printable(f"{path}:{span.line}:{span.column}: {what}"), *excerpt(text, span)))
        for span, what in spans
    ]
