from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from slurmkit.run.events import KINDS, Event
from slurmkit.run.history import fold
from slurmkit.run.record import RunRecord
from slurmkit.run.state import LISTING_GRACE, STATES, SUBMIT_GRACE, RunState, Sight, judge
from slurmkit.slurm.ids import StepId
from slurmkit.slurm.records import Step
from slurmkit.slurm.states import JOB_STATES, JobState
from tests.unit.run.conftest import NOW, make_job

if TYPE_CHECKING:
    from slurmkit.slurm.records import Job

RECORD = RunRecord(id="r", name="a name", created=NOW, user="ada", host="h", directory="/w")
ARRAY = RunRecord(id="r", name="a name", created=NOW, user="ada", host="h", directory="/w", array="0-9%2")
SUBMITTED = ("submitted", {"job_id": "12"})
STARTED = ("attempt-started", {"attempt": "12-0", "job_id": "12", "nodes": ["n1"], "host": "n1"})
LATER = NOW + timedelta(hours=1)
EVERYTHING_ASKED = Sight(queue=True, accounting=True)


def state_of(
    *told: tuple[str, dict[str, Any]],
    sight: Sight,
    record: RunRecord = RECORD,
    after: timedelta | None = None,
) -> RunState:
    events = [Event(NOW, kind, fields) for kind, fields in (("submitting", {}), *told)]
    at = NOW + (timedelta(hours=1) if after is None else after)
    return judge("r", record, fold(events), sight._replace(at=at))


def seen(*jobs: Job, accounting: bool | None = True) -> Sight:
    return Sight(jobs=jobs, queue=True, accounting=accounting)


@pytest.mark.parametrize(
    ("job", "state", "reason", "exit_code"),
    [
        (make_job(state="PENDING", reason="Priority"), "pending", "Priority", None),
        (make_job(state="PENDING", reason="None"), "pending", None, None),
        (make_job(state="REQUEUE_HOLD"), "pending", "REQUEUE_HOLD", None),
        (make_job(state="RUNNING", reason="None"), "running", None, None),
        (make_job(state="SUSPENDED"), "running", "SUSPENDED", None),
        (make_job(state="CONFIGURING"), "running", "CONFIGURING", None),
        (make_job(state="COMPLETED", exit_code="0:0"), "completed", None, 0),
        (make_job(state="FAILED", exit_code="3:0"), "failed", "exit code 3", 3),
        (make_job(state="FAILED", exit_code="0:9"), "failed", "exit code 137 (signal 9)", 137),
        (make_job(state="FAILED", exit_code="1:0", reason="NonZeroExitCode"), "failed", "exit code 1", 1),
        (make_job(state="FAILED", exit_code="0:53", reason="JobLaunchFailure"), "failed",
         "exit code 181 (signal 53) (JobLaunchFailure)", 181),
        (make_job(state="FAILED", exit_code="0:0"), "failed", "FAILED", 1),
        (make_job(state="CANCELLED", cancelled_by=4_000_000), "cancelled", "CANCELLED by uid 4000000", 1),
        (make_job(state="CANCELLED", cancelled_by=0), "cancelled", "CANCELLED by root", 1),
        (make_job(state="TIMEOUT", exit_code="0:0"), "failed", "TIMEOUT: the time limit was reached", 1),
        (make_job(state="NODE_FAIL"), "failed", "NODE_FAIL: a node failed", 1),
        (make_job(state="OUT_OF_MEMORY", exit_code="0:125"), "failed", "OUT_OF_MEMORY: out of memory", 1),
    ],
    ids=lambda value: str(value.state) if hasattr(value, "state") else None,
)  # fmt: skip
def test_slurm_says_where_a_run_stands(
    job: Job, state: str, reason: str | None, exit_code: int | None
) -> None:
    found = state_of(SUBMITTED, sight=seen(job))
    assert (found.state, found.reason, found.exit_code) == (state, reason, exit_code)


@pytest.mark.parametrize("row", JOB_STATES, ids=lambda row: row.name)
def test_a_run_is_over_exactly_where_its_job_is(row: Any) -> None:
    found = state_of(SUBMITTED, sight=seen(make_job(state=row.name)))
    assert found.is_end == (row.kind == "final")
    assert (found.exit_code is not None) == found.is_end


def test_a_state_of_a_future_slurm_is_not_an_end_and_is_named() -> None:
    found = state_of(SUBMITTED, sight=seen(make_job(state="HIBERNATING")))
    assert (found.state, found.is_end) == ("running", False)
    assert found.reason == "HIBERNATING, a state that slurmkit does not know"


def test_trap_161_completing_is_not_the_end() -> None:
    found = state_of(SUBMITTED, STARTED, sight=seen(make_job(state="COMPLETED+COMPLETING")))
    assert (found.state, found.is_end) == ("running", False)


def test_trap_146_a_dependency_that_can_never_be_met_is_an_end() -> None:
    job = make_job(state="PENDING", reason="DependencyNeverSatisfied")
    found = state_of(SUBMITTED, sight=seen(job))
    assert (found.state, found.is_end, found.is_success, found.exit_code) == ("blocked", True, False, 1)


def test_a_blocked_job_that_was_cancelled_a_moment_ago_is_waited_for() -> None:
    job = make_job(state="PENDING", reason="DependencyNeverSatisfied")
    asked = ("cancel-requested", {"job_id": "12"})
    soon, late = timedelta(seconds=30), timedelta(minutes=2)
    assert state_of(SUBMITTED, asked, sight=seen(job), after=soon).state == "pending"
    assert state_of(SUBMITTED, asked, sight=seen(job), after=late).state == "blocked"


def test_trap_160_an_array_is_over_when_all_its_tasks_are() -> None:
    one = make_job("12_0", "COMPLETED", exit_code="0:0")
    found = state_of(SUBMITTED, sight=seen(one), record=ARRAY)
    assert (found.state, found.reason) == (
        "running",
        "1 of 10 tasks have ended, the others are not listed yet",
    )
    rest = make_job("12_[1-9%2]", "PENDING", reason="JobArrayTaskLimit")
    assert state_of(SUBMITTED, sight=seen(one, rest), record=ARRAY).state == "pending"
    every = [make_job(f"12_{task}", "COMPLETED", exit_code="0:0") for task in range(10)]
    assert state_of(SUBMITTED, sight=seen(*every), record=ARRAY).state == "completed"


def test_a_task_that_is_listed_alone_and_among_others_counts_once() -> None:
    alone = [make_job(f"12_{task}", "FAILED", exit_code="5:0") for task in range(10)]
    found = state_of(SUBMITTED, sight=seen(*alone, make_job("12_[9%2]", "FAILED")), record=ARRAY)
    assert found.tasks == {"FAILED": 10}
    twice = [*alone[:9], make_job("12_[8]", "FAILED")]
    assert not state_of(SUBMITTED, sight=seen(*twice), record=ARRAY).is_end


def test_the_worst_task_speaks_for_an_array() -> None:
    tasks = [make_job(f"12_{task}", "COMPLETED", exit_code="0:0") for task in range(7)]
    bad = [make_job("12_7", "FAILED", exit_code="4:0"), make_job("12_8", "FAILED", exit_code="3:0")]
    worst = make_job("12_9", "TIMEOUT", exit_code="0:0")
    found = state_of(SUBMITTED, sight=seen(*tasks, *bad, worst), record=ARRAY)
    assert (found.state, found.job_state, found.exit_code) == ("failed", "TIMEOUT", 4)
    assert found.tasks == {"COMPLETED": 7, "FAILED": 2, "TIMEOUT": 1}


def test_an_array_runs_while_one_task_runs() -> None:
    jobs = (make_job("12_0", "FAILED"), make_job("12_1"), make_job("12_[2-9]", "PENDING", reason="Priority"))
    found = state_of(SUBMITTED, sight=seen(*jobs), record=ARRAY)
    assert (found.state, found.reason) == ("running", None)
    assert found.tasks == {"FAILED": 1, "RUNNING": 1, "PENDING": 8}


def test_trap_019_a_step_out_of_memory_explains_a_failed_job() -> None:
    step = Step(id=StepId.parse("12.0"), name="true", state=JobState.parse("OUT_OF_MEMORY"))
    job = make_job(state="FAILED", exit_code="0:0", steps=(step,))
    assert state_of(SUBMITTED, sight=seen(job)).reason == "OUT_OF_MEMORY: out of memory"


def test_the_reason_names_the_rank_that_failed_first() -> None:
    failure = {"rank": 3, "host": "n2", "exit_code": 5}
    ended = ("step-ended", {"attempt": "12-0", "exit_code": 5, "first_failure": failure})
    found = state_of(SUBMITTED, STARTED, ended, sight=seen(make_job(state="FAILED", exit_code="5:0")))
    assert found.reason == "exit code 5; rank 3 on n2 failed first"


def test_trap_151_a_job_absent_from_the_queue_has_not_failed_nor_completed() -> None:
    found = state_of(SUBMITTED, sight=Sight(queue=True, accounting=False))
    assert (found.state, found.is_end) == ("pending", False)
    assert found.reason == "last known; accounting does not answer"


def test_trap_150_a_job_in_no_listing_is_waited_for_and_then_called_lost() -> None:
    soon = state_of(SUBMITTED, sight=EVERYTHING_ASKED, after=LISTING_GRACE)
    assert (soon.state, soon.reason) == ("pending", "Slurm does not list the job yet")
    late = state_of(SUBMITTED, sight=EVERYTHING_ASKED, after=LISTING_GRACE + timedelta(seconds=1))
    assert (late.state, late.is_end, late.is_success) == ("lost", True, False)
    assert late.reason == "neither squeue nor sacct has the job any more"


def test_trap_154_an_outage_leaves_the_last_known_state() -> None:
    found = state_of(SUBMITTED, STARTED, sight=Sight())
    assert (found.state, found.reason) == ("running", "last known; Slurm does not answer")


def test_without_accounting_the_agents_word_is_the_end() -> None:
    off = Sight(queue=True, accounting=None)
    done = state_of(SUBMITTED, STARTED, ("run-ended", {"exit_code": 0}), sight=off)
    assert (done.state, done.exit_code) == ("completed", 0)
    bad = state_of(SUBMITTED, STARTED, ("run-ended", {"exit_code": 9}), sight=off)
    assert (bad.state, bad.reason, bad.exit_code) == ("failed", "exit code 9", 9)
    nothing = state_of(SUBMITTED, sight=off)
    assert (nothing.state, nothing.reason) == ("lost", "squeue has the job no more, and accounting is off")


def test_slurm_overrules_an_end_that_was_written_before_a_requeue() -> None:
    ended = ("run-ended", {"exit_code": 0})
    found = state_of(SUBMITTED, STARTED, ended, sight=seen(make_job(state="PENDING", reason="BeginTime")))
    assert (found.state, found.reason) == ("pending", "BeginTime")


def test_an_end_that_was_kept_needs_no_slurm() -> None:
    kept = {
        "run_state": "failed", "state": "TIMEOUT", "exit_code": 1, "reason": "TIMEOUT: late",
        "started": NOW.timestamp(), "ended": LATER.timestamp(), "nodes": ["n1", "n2"], "tasks": {},
    }  # fmt: skip
    found = state_of(SUBMITTED, ("job-ended", kept), sight=Sight())
    assert (found.state, found.job_state, found.exit_code, found.reason) == (
        "failed",
        "TIMEOUT",
        1,
        "TIMEOUT: late",
    )
    assert (found.started, found.ended, found.nodes) == (NOW, LATER, ("n1", "n2"))


@pytest.mark.parametrize(
    ("sight", "after", "state"),
    [
        (EVERYTHING_ASKED, SUBMIT_GRACE, "submitting"),
        (EVERYTHING_ASKED, SUBMIT_GRACE + timedelta(seconds=1), "not-submitted"),
        (Sight(queue=True, accounting=None), SUBMIT_GRACE + timedelta(seconds=1), "not-submitted"),
        (Sight(queue=True, accounting=False), timedelta(days=3), "submitting"),
        (Sight(), timedelta(days=3), "submitting"),
    ],
)
def test_an_intent_without_a_receipt_is_given_up_only_after_the_grace_and_on_slurms_word(
    sight: Sight, after: timedelta, state: str
) -> None:
    found = state_of(sight=sight, after=after)
    assert found.state == state
    assert found.reason


def test_a_refusal_is_the_reason() -> None:
    found = state_of(("not-submitted", {"reason": "no such account"}), sight=Sight())
    assert (found.state, found.reason, found.is_end) == ("not-submitted", "no such account", True)


def test_a_run_without_its_record_still_has_a_state() -> None:
    found = judge("r", None, fold([Event(NOW, *SUBMITTED)]), seen(make_job()))
    assert (found.state, found.name) == ("running", None)


def test_every_state_is_explained_and_every_kind_of_event_too() -> None:
    assert all(meaning.text for meaning in STATES.values())
    assert all(KINDS.values())


def test_the_agents_word_of_a_start_goes_before_an_accounting_that_has_not_heard_of_it() -> None:
    pending = Sight(jobs=[make_job(state="PENDING")], queue=False, accounting=True)
    assert state_of(SUBMITTED, STARTED, sight=pending).state == "running"
    assert state_of(SUBMITTED, STARTED, sight=seen(make_job(state="PENDING"))).state == "pending"
