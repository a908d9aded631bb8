"""Dumps in the shape that Open XDMoD's shredder for Slurm reads: 26 fields, `|` between, no header, in UTC.

Source: the field list of OpenXdmod's Shredder/Slurm.php; its manual lets sacct run with TZ=UTC.
"""

from __future__ import annotations

import gzip
import re
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

FIELDS = (
    "JobID", "JobIDRaw", "Cluster", "Partition", "QOS", "Account", "Group", "GID", "User", "UID", "Submit",
    "Eligible", "Start", "End", "Elapsed", "ExitCode", "State", "NNodes", "NCPUS", "ReqCPUS", "ReqMem",
    "ReqTRES", "AllocTRES", "Timelimit", "NodeList", "JobName",
)  # fmt: skip
DELIMITER = "|"

_ID = re.compile(r"\d+([_+.]\S+)?", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d|Unknown|None", re.ASCII)


def is_xdmod(line: str) -> bool:
    """Whether the first line of a file is a record in this shape; its last field, the name, may have `|`."""
    cells = line.rstrip("\r\n").split(DELIMITER, len(FIELDS) - 1)
    if len(cells) != len(FIELDS):
        return False
    row = dict(zip(FIELDS, cells, strict=True))
    times = (row[name] for name in ("Submit", "Eligible", "Start", "End"))
    return bool(_ID.fullmatch(row["JobID"])) and all(map(_TIME.fullmatch, times)) and ":" in row["ExitCode"]


def convert(source: Path, target: Path) -> None:
    """Write the same dump with a header, unpacked where it is gzipped.

    Raises:
        OSError: one of the two files cannot be used.
    """
    with source.open("rb") as packed, target.open("wb") as out:
        is_gzip = packed.read(2) == b"\x1f\x8b"
        packed.seek(0)
        out.write((DELIMITER.join(FIELDS) + "\n").encode())
        if is_gzip:
            with gzip.open(packed) as file:
                shutil.copyfileobj(file, out)
        else:
            shutil.copyfileobj(packed, out)
