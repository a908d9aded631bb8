"""The exit record of a rank: who ended where, how and when, and the last lines that it wrote to stderr."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing itself costs a rank milliseconds
    from collections.abc import Mapping

KEPT_BYTES = 16384
KEPT_LINES = 20
KEPT_EXCEPTIONS = 3
LONGEST_LINE = 500
LEFT_OUT = "[...]"
TRACEBACK = "Traceback (most recent call last):"


class Tail:
    """The last of a stream of bytes, and the exceptions of Python's tracebacks that went by before it."""

    __slots__ = ("_exceptions", "_kept")

    def __init__(self) -> None:
        self._kept = bytearray()
        self._exceptions: list[str] = []

    def add(self, data: bytes) -> None:
        """What came next. At most twice `KEPT_BYTES` of it, and what is added at once, are held."""
        self._kept += data
        if len(self._kept) > 2 * KEPT_BYTES:
            self._exceptions = self._seen()
            del self._kept[:-KEPT_BYTES]

    def lines(self) -> list[str]:
        """The last lines. An exception that stands further up goes before them: it says why."""
        last = last_lines(bytes(self._kept))
        above = [line for line in self._seen() if line not in last]
        return [*above, LEFT_OUT, *last] if above else last

    def _seen(self) -> list[str]:
        if TRACEBACK.encode() not in self._kept:
            return self._exceptions
        found = [*self._exceptions, *exceptions(shown(bytes(self._kept)))]
        return list(dict.fromkeys(reversed(found)))[KEPT_EXCEPTIONS - 1 :: -1]


def file_name(rank: int) -> str:
    """The record's name inside the directory of its step start."""
    return f"rank-{rank:05d}.json"


def write(environ: Mapping[str, str], fields: Mapping[str, object], stderr: Tail) -> None:
    """Write the record of the rank whose environment this is; nothing outside of a run.

    Raises:
        OSError: the directory that the agent made cannot be written from this node.
    """
    directory = environ.get("SLURMKIT_EXIT_DIRECTORY")
    if not directory:
        return
    from slurmkit.launch.files import write_atomically
    from slurmkit.launch.plain_json import encode

    rank = environ.get("SLURM_PROCID", "")
    host = environ.get("SLURMD_NODENAME") or os.uname().nodename
    number = int(rank) if rank.isdigit() else 0
    record = {"rank": number, "host": host, **fields, "stderr_tail": stderr.lines()}
    write_atomically(os.path.join(directory, file_name(number)), encode(record).encode("ascii") + b"\n")


def last_lines(data: bytes) -> list[str]:
    """The last lines as a terminal would show them: of a progress bar, what stands there in the end."""
    return shown(data[-KEPT_BYTES:])[-KEPT_LINES:]


def shown(data: bytes) -> list[str]:
    """All lines as a terminal would show them, the overlong cut."""
    lines = data.decode("utf-8", "replace").replace("\r\n", "\n").rstrip().split("\n")
    found = [line.rstrip("\r").rsplit("\r", 1)[-1][:LONGEST_LINE] for line in lines]
    return found if found != [""] else []


def exceptions(lines: list[str]) -> list[str]:
    """The line with which each of Python's tracebacks ends; PyTorch puts "[rank0]: " before each."""
    found = []
    prefix = None
    for line in lines:
        before, is_header, _ = line.partition(TRACEBACK)
        if is_header:
            prefix = before
        elif prefix is not None and not line.startswith((prefix + " ", prefix + "\t")):
            if line.startswith(prefix) and line != prefix:
                found.append(line)
            prefix = None
    return found
