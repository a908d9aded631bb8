"""Files that commands write where the user says."""

from __future__ import annotations


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
