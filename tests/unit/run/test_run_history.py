from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from slurmkit.run.events import Event
from slurmkit.run.history import fold

START = 1_800_000_000


def at(second: int) -> datetime:
    return datetime.fromtimestamp(START + second, UTC)


def log(*told: tuple[str, dict[str, Any]]) -> list[Event]:
    return [Event(at(number), kind, fields) for number, (kind, fields) in enumerate(told)]


STARTED = ("attempt-started", {"attempt": "12-0", "job_id": 12, "nodes": ["n1", "n2"], "host": "n1"})
ENDED = ("attempt-ended", {"attempt": "12-0", "exit_code": 3})
SUBMITTED = ("submitted", {"job_id": "12", "cluster": None})


def test_nothing_told_is_nothing_known() -> None:
    history = fold([])
    assert (history.job_id, history.attempts, history.attempt, history.is_running) == (None, (), None, False)


def test_the_receipt_gives_the_job() -> None:
    history = fold(log(("submitting", {}), ("submitted", {"job_id": "12", "cluster": "c"})))
    assert (history.job_id, history.cluster, history.submitted) == ("12", "c", at(1))


def test_an_attempt_runs_until_its_end_is_written() -> None:
    assert fold(log(SUBMITTED, STARTED)).is_running
    history = fold(log(SUBMITTED, STARTED, ENDED))
    assert not history.is_running
    assert history.attempt is not None
    assert (history.attempt.name, history.attempt.nodes, history.attempt.ended) == (
        "12-0",
        ("n1", "n2"),
        at(2),
    )
    assert history.attempt.exit_code == 3


def test_an_attempt_is_a_receipt_where_that_of_sbatch_was_lost() -> None:
    assert fold(log(("submitting", {}), STARTED)).job_id == "12"


def test_an_array_is_known_by_its_own_id_not_by_that_of_a_task() -> None:
    task = ("attempt-started", {"attempt": "14-0", "job_id": "14", "array_job_id": "12"})
    assert fold(log(("submitting", {}), task)).job_id == "12"
    assert fold(log(SUBMITTED, task)).job_id == "12"


def test_a_late_job_overrules_not_submitted() -> None:
    assert fold(log(("not-submitted", {"reason": "no"}))).not_submitted == "no"
    assert fold(log(("not-submitted", {}), ("adopted", {"job_id": "12"}))).not_submitted is None


def test_a_new_attempt_takes_back_the_end() -> None:
    ends = (("run-ended", {"exit_code": 0}), ("job-ended", {"state": "COMPLETED"}))
    ended = fold(log(SUBMITTED, STARTED, ENDED, *ends))
    assert (ended.run_ended is not None, ended.job_ended is not None) == (True, True)
    again = ("attempt-started", {"attempt": "12-1", "job_id": 12})
    going = fold(log(SUBMITTED, STARTED, ENDED, *ends, again))
    assert (going.run_ended, going.job_ended, going.is_running) == (None, None, True)
    assert [attempt.name for attempt in going.attempts] == ["12-0", "12-1"]


def test_the_first_failure_is_that_of_the_last_step() -> None:
    failure = {"rank": 3, "host": "n2", "exit_code": 1}
    failed = ("step-ended", {"attempt": "12-0", "exit_code": 1, "first_failure": failure})
    history = fold(log(SUBMITTED, STARTED, ("step-started", {"attempt": "12-0", "step": 0}), failed))
    assert history.attempt is not None
    assert history.attempt.first_failure == failure
    again = fold([*log(SUBMITTED, STARTED, failed), *log(("step-started", {"attempt": "12-0", "step": 1}))])
    assert again.attempt is not None
    assert (again.attempt.first_failure, again.attempt.step) == (None, 1)


def test_tasks_of_an_array_interleave() -> None:
    other = ("attempt-started", {"attempt": "13-0", "job_id": "13"})
    history = fold(log(SUBMITTED, STARTED, other, ENDED))
    assert [(one.name, one.exit_code) for one in history.attempts] == [("12-0", 3), ("13-0", None)]


def test_an_event_of_an_unknown_kind_changes_nothing_but_the_last_time() -> None:
    history = fold(log(SUBMITTED, ("moved", {"job_id": "99"})))
    assert (history.job_id, history.last) == ("12", at(1))


def test_events_without_their_fields_do_no_harm() -> None:
    kinds = ["submitting", "submitted", "adopted", "not-submitted", "attempt-started", "step-started",
             "step-ended", "attempt-ended", "run-ended", "cancel-requested", "job-ended"]  # fmt: skip
    assert len(fold(log(*((kind, {}) for kind in kinds))).attempts) == 1
