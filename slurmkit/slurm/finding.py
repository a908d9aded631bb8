"""The search for a job by its tag: the queue first, then accounting; alike for every client."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from slurmkit.errors import AccountingOff

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from slurmkit.slurm.protocol import Slurm
    from slurmkit.slurm.records import Job


def find(slurm: Slurm, tag: str, *, since: datetime, user: str | None) -> Job | None:
    """The job of a user, or of anybody, that carries `tag` in its comment, or in its submit line.

    Raises:
        Unreachable: one of the two places could not be searched, and the other has no such job.
    """
    found = _carrying(tag, slurm.jobs(user=user))
    if found is None:
        try:
            found = _carrying(tag, slurm.accounting(since=since, user=user, steps=False))
        except AccountingOff:
            return None
    return found


def _carrying(tag: str, jobs: Sequence[Job]) -> Job | None:
    """The first job with `tag` as a whole word, so that no tag is found in a longer one."""
    word = re.compile(rf"(?<![\w.-]){re.escape(tag)}(?![\w.-])")
    return next((job for job in jobs if word.search(f"{job.comment} {job.submit_line}")), None)
