"""The id of a run: readable, sortable by day within a name, and unique by the file system's word."""

from __future__ import annotations

import os
import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

LONGEST_SLUG = 40
"""Run ids stand in job comments and in file names."""


def slug(name: str) -> str:
    """`name` in lower-case ASCII letters, digits and single dashes; `run` where nothing of it is left."""
    ascii_only = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", ascii_only.lower())[:LONGEST_SLUG].strip("-") or "run"


def new_run_id(name: str, now: datetime) -> str:
    """A fresh id such as `ddp-tiny-20261201-a1b2c3`; the day is the submitter's own."""
    return f"{slug(name)}-{now.astimezone():%Y%m%d}-{os.urandom(3).hex()}"


def later_tag(run_id: str, number: int) -> str:
    """What marks the job of a later submit: `<run id>+2` and so on; that of the first is the run id."""
    return f"{run_id}+{number}"


def read_tag(tag: str) -> tuple[str, int]:
    """The run id in a tag, and the number of the submit."""
    run_id, _, number = tag.partition("+")
    return run_id, int(number) if number.isdigit() else 1
