"""A submit that takes effect once: where sbatch's answer is lost, Slurm is asked, and never told twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmkit.errors import AnswerLost, SlurmError, Unreachable
from slurmkit.slurm.request import Submitted

if TYPE_CHECKING:
    from datetime import datetime

    from slurmkit.slurm.clock import Clock
    from slurmkit.slurm.protocol import Slurm
    from slurmkit.slurm.request import Submission

TRIES = 3
"""Of a request that surely did not arrive."""

GRACE = 60.0
"""Seconds for which Slurm, answering, must not list the job before it is taken as not submitted.

A request that slurmctld has taken in but not yet worked off is older than the first of these answers.
"""

PATIENCE = 300.0
"""Seconds after which a search that Slurm leaves unanswered is given up."""

LONGEST_PAUSE = 15.0


def submit_once(slurm: Slurm, submission: Submission, *, clock: Clock, since: datetime) -> Submitted:
    """Submit, and where the answer is lost, find the job by its tag; `since` is before the first try.

    Raises:
        Refused: Slurm said no.
        Unreachable: no request arrived.
        AnswerLost: whether the job is in the queue cannot be told; nobody may submit it again unasked.
    """
    pause = 1.0
    for tried in range(1, TRIES + 1):
        try:
            return slurm.submit(submission)
        except AnswerLost as lost:
            found = _search(slurm, submission, clock=clock, since=since, lost=lost)
            if found is not None:
                return found
            if tried == TRIES:
                raise
        except Unreachable:
            if tried == TRIES:
                raise
            clock.sleep(pause)
            pause *= 2
    raise AssertionError("a submit is tried at least once")


def _search(
    slurm: Slurm, submission: Submission, *, clock: Clock, since: datetime, lost: AnswerLost
) -> Submitted | None:
    """The job, once Slurm lists it; None where Slurm answered for long enough and did not."""
    begin = clock.monotonic()
    first_answer: float | None = None
    pause = 1.0
    while True:
        try:
            job = slurm.find(submission.tag, since=since)
        except SlurmError:
            first_answer = None
        else:
            if job is not None:
                said = f"sbatch's answer was lost ({lost.what}); the job was found in Slurm"
                return Submitted(job.id.base, submission.cluster, said)
            first_answer = clock.monotonic() if first_answer is None else first_answer
        now = clock.monotonic()
        if first_answer is not None and now - first_answer >= GRACE:
            return None
        if first_answer is None and now - begin >= PATIENCE:
            raise lost
        clock.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE)
