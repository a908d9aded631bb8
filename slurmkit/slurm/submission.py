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
"""Seconds, at least, for which Slurm, answering, must not list the job before it counts as not submitted."""

PATIENCE = 300.0
"""Seconds after which a search that Slurm leaves unanswered is given up."""

LONGEST_PAUSE = 15.0


def submit_once(slurm: Slurm, submission: Submission, *, clock: Clock, since: datetime) -> Submitted:
    """Submit, and where the answer is lost, find the job by its tag; `since` is before the first try.

    Only where Slurm has answered for a whole grace and knows no such job is the request made anew, and then
    once: a second lost answer is left to the caller.

    Raises:
        Refused: Slurm said no.
        Unreachable: no request arrived.
        AnswerLost: whether the job is in the queue cannot be told; nobody may submit it again unasked.
    """
    for is_last in (False, True):
        try:
            return _submit_patiently(slurm, submission, clock)
        except AnswerLost as lost:
            found = _search(slurm, submission, clock=clock, since=since, lost=lost)
            if found is not None:
                return found
            if is_last:
                raise
    raise AssertionError("the last try returns or raises")


def _submit_patiently(slurm: Slurm, submission: Submission, clock: Clock) -> Submitted:
    """Submit, again where the request surely did not arrive."""
    for tried in range(1, TRIES):
        try:
            return slurm.submit(submission)
        except Unreachable:
            clock.sleep(2.0**tried)
    return slurm.submit(submission)


def _search(
    slurm: Slurm, submission: Submission, *, clock: Clock, since: datetime, lost: AnswerLost
) -> Submitted | None:
    """The job, once Slurm lists it; None where Slurm answered for a whole grace and did not.

    Raises:
        AnswerLost: Slurm was not to be asked.
    """
    begin = clock.monotonic()
    first_answer: float | None = None
    grace = GRACE
    pause = 1.0
    while True:
        try:
            job = slurm.find(submission.tag, since=since)
            if job is None and first_answer is None:
                grace = max(GRACE, 2 * _message_timeout(slurm))
        except SlurmError:
            first_answer = None
        else:
            if job is not None:
                said = f"sbatch's answer was lost ({lost.what}); the job was found in Slurm"
                return Submitted(job.id.base, submission.cluster, said)
            first_answer = clock.monotonic() if first_answer is None else first_answer
        now = clock.monotonic()
        if first_answer is not None and now - first_answer >= grace:
            return None
        if first_answer is None and now - begin >= PATIENCE:
            raise lost
        clock.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE)


def _message_timeout(slurm: Slurm) -> float:
    """Seconds for which a request may be under way: one that slurmctld takes in late is younger than that."""
    words = slurm.config().get("MessageTimeout", "").split()
    return float(words[0]) if words and words[0].isdigit() else 0.0
