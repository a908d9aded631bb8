"""The exit record of a rank: who ended where, how and when, and the last lines that it wrote to stderr."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing itself costs a rank milliseconds
    from collections.abc import Mapping

KEPT_BYTES = 16384
KEPT_LINES = 20
LONGEST_LINE = 500


def file_name(rank: int) -> str:
    """The record's name inside the directory of its step start."""
    return f"rank-{rank:05d}.json"


def write(environ: Mapping[str, str], fields: Mapping[str, object], stderr: bytes) -> None:
    """Write the record of the rank whose environment this is; nothing outside of a run.

    Raises:
        OSError: the directory that the agent made cannot be written from this node.
    """
    directory = environ.get("SLURMKIT_EXIT_DIRECTORY")
    if not directory:
        return
    import json

    from slurmkit.launch.files import write_atomically

    rank = environ.get("SLURM_PROCID", "")
    host = environ.get("SLURMD_NODENAME") or os.uname().nodename
    number = int(rank) if rank.isdigit() else 0
    record = {"rank": number, "host": host, **fields, "stderr_tail": last_lines(stderr)}
    write_atomically(os.path.join(directory, file_name(number)), json.dumps(record).encode("ascii") + b"\n")


def last_lines(stderr: bytes) -> list[str]:
    """The last lines as a terminal would show them: of a progress bar, what stands there in the end."""
    lines = stderr.decode("utf-8", "replace").replace("\r\n", "\n").rstrip().split("\n")
    shown = [line.rstrip("\r").rsplit("\r", 1)[-1][:LONGEST_LINE] for line in lines]
    return shown[-KEPT_LINES:] if shown != [""] else []
