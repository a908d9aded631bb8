"""Files that the user names: scripts to read, and where to write."""

from __future__ import annotations

from pathlib import Path

LARGEST = 4 * 1024 * 1024
"""Bytes; the most that Slurm's SchedulerParameters=max_script_size is by default."""


def read_text(source: str) -> str:
    """The text of a file, its line ends as they are.

    Raises:
        UsageError: it cannot be read, or is no text.
    """
    from slurmkit.errors import UsageError

    try:
        with Path(source).open("rb") as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise UsageError("the file is larger than 4 MiB, the most that Slurm takes", where=source)
        return data.decode()
    except OSError as error:
        raise UsageError(f"the file cannot be read: {error.strerror}", where=source) from error
    except UnicodeDecodeError as error:
        raise UsageError(
            f"the file is not UTF-8: byte {error.start} is no part of a character", where=source
        ) from error


def write_file(target: str, text: str) -> None:
    """Write a file as a whole or not at all.

    Raises:
        UsageError: it cannot be written.
    """
    from slurmkit.errors import UsageError
    from slurmkit.launch.files import write_atomically

    try:
        write_atomically(target, text.encode("utf-8", "surrogateescape"))
    except OSError as error:
        raise UsageError(f"the file cannot be written: {error.strerror}", where=target) from error
