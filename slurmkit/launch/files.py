"""Writing files so that a reader, and the next start after a crash, sees all of a write or none of it."""

from __future__ import annotations

import os


def write_atomically(path: str | os.PathLike[str], data: bytes, mode: int = 0o666) -> None:
    """Replace `path` with `data`: temporary file beside it, fsync, rename, fsync of the directory.

    `mode` is narrowed by the process's umask, as with any new file.
    """
    path = os.fspath(path)
    directory = os.path.dirname(path) or "."
    temporary = os.path.join(directory, ".%s.%d.tmp" % (os.path.basename(path), os.getpid()))
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(temporary, path)
    sync_directory(directory)


def append_line(path: str | os.PathLike[str], line: bytes) -> None:
    """Append one complete line in a single write and fsync it; `line` must end with a newline.

    A line that a crash cut short is closed first, so that the new one stands on its own.
    """
    descriptor = os.open(os.fspath(path), os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            line = b"\n" + line
        os.write(descriptor, line)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(directory: str) -> None:
    """Make the names in `directory` durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
