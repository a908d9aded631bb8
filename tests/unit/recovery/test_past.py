"""What the events of a run add up to for its policy."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from slurmkit.recovery.past import past, task_of
from slurmkit.run.events import Event

if TYPE_CHECKING:
    from collections.abc import Iterator

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def log(*told: tuple[str, dict[str, object]]) -> list[Event]:
    return [
        Event(BEGAN + timedelta(seconds=number), kind, fields) for number, (kind, fields) in enumerate(told)
    ]


def failed(attempt: str = "7-0", **fields: object) -> tuple[str, dict[str, object]]:
    return "diagnosed", {"attempt": attempt, "kind": "crashed", "signature": "s", "host": "n2", **fields}


def decided(action: str, attempt: str = "7-0", **fields: object) -> tuple[str, dict[str, object]]:
    return "decided", {"attempt": attempt, "action": action, **fields}


def saved(step: int | None, attempt: str = "7-0") -> tuple[str, dict[str, object]]:
    return "checkpoint-complete", {"attempt": attempt, "at_step": step}


def test_a_run_without_events_has_no_past() -> None:
    assert past([], attempt=None) == past([], attempt="7-0")
    assert past([], attempt="7-0").failures == ()


def test_a_failure_counts_once_something_was_decided_about_it() -> None:
    events = log(failed(checkpoint_step=5, at_step=8), decided("restart"), failed())
    (one,) = past(events, attempt="7-0").failures
    assert (one.kind, one.signature, one.checkpoint_step, one.at_step, one.nodes, one.attempt) == (
        "crashed",
        "s",
        5,
        8,
        ("n2",),
        "7-0",
    )
    assert one.at == BEGAN.timestamp()


def test_nodes_to_blame_go_before_the_host() -> None:
    events = log(failed(nodes=["n3", "n4"]), decided("restart"))
    assert past(events, attempt="7-0").failures[0].nodes == ("n3", "n4")


def test_restarts_are_of_the_attempt_and_requeues_of_the_run() -> None:
    def told() -> Iterator[tuple[str, dict[str, object]]]:
        yield from (decided("restart"), decided("restart"), decided("requeue"), decided("resubmit"))
        yield from (decided("restart", "7-1"), decided("resubmit", "7-1"), decided("leave", "7-1"))
        yield decided("restart", "9-0")

    assert (past(log(*told()), attempt="9-0").restarts, past(log(*told()), attempt="9-0").requeues) == (1, 2)
    assert past(log(*told()), attempt="7-0").restarts == 2


def test_a_task_of_an_array_has_a_past_of_its_own() -> None:
    events = log(failed("7_1-0"), decided("requeue", "7_1-0"), failed("7_2-0"), decided("restart", "7_2-0"))
    assert [one.attempt for one in past(events, attempt="7_2-0").failures] == ["7_2-0"]
    assert past(events, attempt="7_2-0").requeues == 0
    assert past(events, attempt="9_1-3").requeues == 1
    assert (task_of("7_2-0"), task_of("7-0")) == ("2", "")


def test_what_was_saved_since_the_last_failure_is_known() -> None:
    events = log(saved(10), failed(), decided("restart"), saved(8), saved(None))
    found = past(events, attempt="7-0")
    assert (found.best_checkpoint, found.has_saved, found.failures[0].has_saved) == (10, True, True)
    assert not past(events[:3], attempt="7-0").has_saved


def test_memory_and_excluded_nodes_are_counted() -> None:
    events = log(
        decided("resubmit", memory=2.0, without=["n1"]),
        decided("resubmit", "8-0", memory=4.0),
        decided("restart", "9-0", without=["n5"]),
    )
    found = past(events, attempt="9-0")
    assert (found.memory, found.excluded) == (2, ("n1",))
    late = Event(BEGAN + timedelta(days=2), "attempt-started", {"attempt": "10-0"})
    assert past([*events, late], attempt="10-0").excluded == ()


def test_trap_096_the_first_attempt_has_no_restart_before_it() -> None:
    assert past(log(("attempt-started", {"attempt": "7-0"})), attempt="7-0").requeues == 0
