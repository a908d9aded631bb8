"""The agent's requeue: once, whatever becomes of the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmkit.errors import AnswerLost, Refused, Unreachable
from slurmkit.recovery.requeue import requeue

if TYPE_CHECKING:
    from tests.unit.recovery.conftest import Made


def later(made: Made, seconds: float) -> float:
    return made.clock.now().timestamp() + seconds


def test_the_intent_is_on_disk_before_slurm_is_asked_and_the_receipt_after(made: Made) -> None:
    assert requeue(made.setting, exclude=(), until=later(made, 60))
    assert made.queue.done == ["requeue 12"]
    assert [one["event"] for one in made.events()] == ["requeueing", "requeued"]


def test_nodes_are_excluded_while_the_job_is_held(made: Made) -> None:
    assert requeue(made.setting, exclude=("n2",), until=later(made, 60))
    assert made.queue.done == ["requeuehold 12", "exclude 12 n2", "release 12"]
    assert made.events("requeueing")[0]["exclude"] == ["n2"]


def test_while_slurmctld_is_away_it_is_asked_again_until_it_answers(made: Made) -> None:
    made.queue.faults = [Unreachable("slurmctld does not answer")] * 4
    assert requeue(made.setting, exclude=(), until=later(made, 600))
    assert made.queue.done == ["requeue 12"]


def test_at_the_last_moment_the_rest_is_left_to_the_supervisor(made: Made) -> None:
    made.queue.faults = [Unreachable("slurmctld does not answer")] * 100
    assert not requeue(made.setting, exclude=(), until=later(made, 60))
    assert made.queue.done == []
    assert [one["event"] for one in made.events()] == ["requeueing"]


def test_a_request_whose_answer_is_lost_is_not_made_twice(made: Made) -> None:
    made.queue.faults = [AnswerLost("Socket timed out")]
    made.queue.carried_out_all_the_same = True
    assert requeue(made.setting, exclude=(), until=later(made, 60))
    assert made.queue.done == ["requeue 12"]


def test_a_job_that_slurm_has_requeued_already_is_left_so(made: Made) -> None:
    made.queue.job = made.queue.job._replace(restarts=1)
    assert requeue(made.setting, exclude=(), until=later(made, 60))
    assert made.queue.done == []


def test_trap_099_a_job_that_was_submitted_as_not_to_requeue_is_first_allowed_it(made: Made) -> None:
    made.queue.faults = [Refused("The job was submitted as one not to requeue")]
    assert requeue(made.setting, exclude=(), until=later(made, 60))
    assert made.queue.done == ["update 12 {'Requeue': '1'}", "requeue 12"]


def test_trap_099_what_slurm_refuses_is_not_asked_for_ever(made: Made) -> None:
    made.queue.faults = [Refused("Invalid job id specified")] * 2
    assert not requeue(made.setting, exclude=(), until=later(made, 3600))
