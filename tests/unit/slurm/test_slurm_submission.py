from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slurmkit.errors import AnswerLost, Refused, SlurmError, Unreachable
from slurmkit.slurm.ids import JobId
from slurmkit.slurm.records import Job
from slurmkit.slurm.request import Submission, Submitted
from slurmkit.slurm.states import JobState
from slurmkit.slurm.submission import GRACE, PATIENCE, submit_once

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from slurmkit.slurm.protocol import Slurm
    from tests.unit.slurm.conftest import FakeClock

SINCE = datetime(2026, 12, 1, 12, tzinfo=UTC)
SUBMISSION = Submission(script=Path("/r/job.sbatch"), tag="slurmkit:r1", directory=Path("/r"), cluster="c1")
RECEIPT = Submitted(JobId(7), "c1")
JOB = Job(id=JobId(7, task=0), name="x", user="u", state=JobState("RUNNING"))
LOST = AnswerLost("no answer")
AWAY = Unreachable("away")


class Answers:
    """Answers to submit, one after the other, and to find, by how long the search has gone on."""

    def __init__(self, *submits: Submitted | SlurmError, find: Callable[[], Job | None]) -> None:
        self.submits = list(submits)
        self.asked: list[Submission] = []
        self.find_answer = find
        self.message_timeout = "10 sec"

    def submit(self, submission: Submission) -> Submitted:
        self.asked.append(submission)
        answer = self.submits.pop(0)
        if isinstance(answer, SlurmError):
            raise answer
        return answer

    def find(self, tag: str, *, since: datetime) -> Job | None:
        assert (tag, since) == ("slurmkit:r1", SINCE)
        return self.find_answer()

    def config(self) -> Mapping[str, str]:
        return {"MessageTimeout": self.message_timeout}


def nothing() -> Job | None:
    return None


def away() -> Job | None:
    raise AWAY


def run(answers: Answers, clock: FakeClock) -> Submitted:
    slurm: Slurm = answers  # type: ignore[assignment]  # the three methods that a submit needs
    return submit_once(slurm, SUBMISSION, clock=clock, since=SINCE)


def test_a_receipt_is_passed_on_and_nothing_else_is_asked(clock: FakeClock) -> None:
    answers = Answers(RECEIPT, find=away)
    assert run(answers, clock) == RECEIPT
    assert (answers.asked, clock.slept) == ([SUBMISSION], [])


def test_trap_148_a_job_whose_answer_was_lost_is_adopted_and_not_submitted_again(clock: FakeClock) -> None:
    answers = Answers(LOST, find=lambda: JOB if clock.slept else None)
    found = run(answers, clock)
    assert (found.id, found.cluster, len(answers.asked)) == (JobId(7), "c1", 1)
    assert "no answer" in found.message


def test_a_job_that_is_not_in_after_a_whole_grace_is_submitted_anew_once(clock: FakeClock) -> None:
    answers = Answers(LOST, RECEIPT, find=nothing)
    assert run(answers, clock) == RECEIPT
    assert len(answers.asked) == 2
    assert sum(clock.slept) >= GRACE


def test_the_grace_is_longer_than_any_request_is_under_way(clock: FakeClock) -> None:
    answers = Answers(LOST, RECEIPT, find=nothing)
    answers.message_timeout = "100 sec"
    run(answers, clock)
    assert sum(clock.slept) >= 200


def test_a_second_lost_answer_is_the_callers_to_decide(clock: FakeClock) -> None:
    answers = Answers(LOST, LOST, find=nothing)
    with pytest.raises(AnswerLost):
        run(answers, clock)
    assert len(answers.asked) == 2


def test_while_slurm_cannot_be_asked_nothing_is_submitted_again(clock: FakeClock) -> None:
    answers = Answers(LOST, RECEIPT, find=away)
    with pytest.raises(AnswerLost):
        run(answers, clock)
    assert len(answers.asked) == 1
    assert sum(clock.slept) >= PATIENCE


def test_the_grace_starts_anew_when_slurm_comes_back(clock: FakeClock) -> None:
    def find() -> Job | None:
        return away() if sum(clock.slept) < 100 else nothing()

    answers = Answers(LOST, RECEIPT, find=find)
    run(answers, clock)
    assert sum(clock.slept) >= 100 + GRACE


def test_a_request_that_surely_did_not_arrive_is_repeated(clock: FakeClock) -> None:
    answers = Answers(AWAY, AWAY, RECEIPT, find=away)
    assert run(answers, clock) == RECEIPT
    assert len(answers.asked) == 3


def test_repeats_are_bounded(clock: FakeClock) -> None:
    answers = Answers(*[AWAY] * 9, find=away)
    with pytest.raises(Unreachable):
        run(answers, clock)
    assert len(answers.asked) == 3


@pytest.mark.parametrize("passing", [True, False])
def test_a_refusal_is_passed_on_at_once(clock: FakeClock, passing: bool) -> None:
    answers = Answers(Refused("no", passing=passing), find=away)
    with pytest.raises(Refused):
        run(answers, clock)
    assert (len(answers.asked), clock.slept) == (1, [])
