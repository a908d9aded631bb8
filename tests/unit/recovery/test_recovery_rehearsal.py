"""What is made of a rehearsal at each moment, from what was seen up to then."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from slurmkit.recovery.rehearsal import (
    Asked,
    Limits,
    Sample,
    Start,
    Verdict,
    View,
    next_move,
    starts_of,
)
from slurmkit.run.course import Mark, StepStart, courses
from slurmkit.run.events import Event

LIMITS = Limits(timeout=600.0, lead=120.0, job=900.0)
FIRST, SECOND = ("7-0", 0), ("7-0", 1)


def mark(step: int | None, at: float) -> Mark:
    return Mark(at, step, f"/saved/step-{step}")


def first(*marks: Mark, **fields: Any) -> Start:
    step = StepStart(number=0, begin=0.0, computing_since=0.0, marks=marks)
    return Start(
        FIRST,
        step._replace(
            **{name: fields.pop(name) for name in ("end", "at_step", "exit_code") if name in fields}
        ),
        **fields,
    )


def second(*marks: Mark, given: int | None = 40, **fields: Any) -> Start:
    path = {"checkpoint": f"/saved/step-{given}"} if given is not None else {}
    chosen = Event(datetime.fromtimestamp(200, UTC), "checkpoint-chosen", path)
    step = StepStart(
        number=1, begin=200.0, computing_since=200.0, marks=marks, from_step=given, chosen=chosen
    )
    return Start(SECOND, step, **fields)


def before(step: int, loss: float | None = None, first_step: int = 1) -> Sample:
    return Sample(FIRST, step, first_step, loss)


def after(step: int, loss: float | None = None, first_step: int = 41) -> Sample:
    return Sample(SECOND, step, first_step, loss)


def resumed(*samples: Sample, again: Start | None = None, now: float = 210.0, **fields: Any) -> View:
    """A view after the step was ended at step 45, its newest checkpoint that of step 40."""
    start = first(mark(20, 50.0), mark(40, 100.5), end=150.0, at_step=45)
    starts = [start] if again is None else [start, again]
    return View(now, LIMITS, starts, samples, Asked(100.0, "USR1", 2, 2), 149.0, **fields)


def verdict(view: View) -> Verdict:
    found = next_move(view)
    assert isinstance(found, Verdict)
    return found


def outcomes(found: Verdict) -> dict[str, str]:
    return {one.name: one.outcome for one in found.checks}


@pytest.mark.parametrize(
    ("view", "move"),
    [
        (View(9e9, LIMITS), "wait"),
        (View(100.0, LIMITS, [first()]), "wait"),
        (View(300.0, LIMITS, [first()]), "ask"),
        (View(500.0, LIMITS, [first()], asked=Asked(300.0, "USR1")), "wait"),
        (View(60.0, LIMITS, [first(mark(20, 50.0))]), "ask"),
        (View(170.0, LIMITS, [first(mark(20, 50.0))], asked=Asked(60.0, "USR1")), "wait"),
        (View(180.0, LIMITS, [first(mark(20, 50.0))], asked=Asked(60.0, "USR1")), "interrupt"),
        (View(63.0, LIMITS, [first(mark(20, 50.0), mark(24, 62.0))], asked=Asked(60.0, "USR1")), "interrupt"),
        (View(400.0, LIMITS, [first(mark(20, 390.0))], asked=Asked(300.0, "USR1")), "interrupt"),
    ],
    ids=[
        "in the queue, however long",
        "no checkpoint yet",
        "none after half of the time",
        "asked for the first one",
        "the first one is there",
        "the request is not heeded yet",
        "nor within the lead time",
        "the request is heeded",
        "the first one came because it was asked for",
    ],
)
def test_the_checkpoint_comes_first_then_the_request_then_the_end(view: View, move: str) -> None:
    assert next_move(view) == move


@pytest.mark.parametrize(
    ("view", "reason"),
    [
        (View(5.0, LIMITS, ended="no such node"), "the program was not started: no such node"),
        (View(601.0, LIMITS, [first()]), "no checkpoint was complete within 10m"),
        (
            View(601.0, LIMITS, [first()], asked=Asked(300.0, "USR1")),
            "no checkpoint was complete within 10m, though every rank was asked for one",
        ),
        (
            View(5.0, LIMITS, [first(end=4.0, sentence="rank 0 on n1: exit code 1")]),
            "it ended by itself, before its first checkpoint was complete: rank 0 on n1: exit code 1",
        ),
        (
            View(60.0, LIMITS, [first(mark(20, 50.0), end=59.0, exit_code=0)], ended="completed"),
            "it ended by itself, right after step-20: its work was done",
        ),
        (
            View(500.0, LIMITS, [first(is_time_over=True)]),
            "the 15m of the job were over before its first checkpoint was complete; --time gives it more",
        ),
    ],
)
def test_what_does_not_come_to_a_first_checkpoint_has_failed(view: View, reason: str) -> None:
    found = verdict(view)
    assert not found.passed
    assert found.reason == reason


def test_an_end_is_judged_only_once_the_agent_has_said_why() -> None:
    assert next_move(View(5.0, LIMITS, [first(end=4.0)])) == "wait"


def test_who_goes_on_behind_the_checkpoint_with_the_loss_has_passed() -> None:
    found = verdict(resumed(before(45, 0.5), after(42, 0.52), again=second()))
    assert found.passed
    assert found.reason == "it went on from step-40"
    assert outcomes(found) == {"checkpoint": "ok", "signal": "ok", "resume": "ok", "loss": "ok"}


@pytest.mark.parametrize(
    ("sample", "reason"),
    [
        (after(90, first_step=1), "resumed at step 0 although checkpoint step-40 was there"),
        (after(90, first_step=0), "resumed at step 0 although checkpoint step-40 was there"),
        (after(22, first_step=21), "resumed at step 20 although checkpoint step-40 was there"),
    ],
    ids=["anew", "anew, counted from 0", "from an older checkpoint"],
)
def test_who_begins_before_the_checkpoint_has_failed_however_far_it_is_since(
    sample: Sample, reason: str
) -> None:
    found = verdict(resumed(before(45, 0.5, first_step=1), sample, again=second()))
    assert not found.passed
    assert found.reason == reason
    assert outcomes(found)["resume"] == "failed"
    assert "loss" not in outcomes(found)


def test_a_checkpoint_that_is_counted_in_other_units_says_nothing_of_steps() -> None:
    again = second(given=4000)
    assert verdict(resumed(before(45), after(47, first_step=46), again=again)).passed
    found = verdict(resumed(before(45), after(47, first_step=1), again=again))
    assert found.reason == "resumed at step 0 although checkpoint step-4000 was there"


def test_who_counts_from_0_and_makes_the_step_of_its_name_next_has_gone_on() -> None:
    assert next_move(resumed(before(45), after(40, first_step=40), again=second())) == "wait"
    assert verdict(resumed(before(45), after(41, first_step=40), again=second())).passed


@pytest.mark.parametrize(
    ("losses", "then", "is_fine"),
    [
        ([0.41], 2.3, False),
        ([0.41], 0.5, True),
        ([0.41], float("nan"), False),
        ([1.0, 0.4, 0.9, 0.5], 1.4, True),
        ([1.0, 0.4, 0.9, 0.5], 1.6, False),
        ([9.0, 3.0, 0.41], 2.3, False),
        ([-1.0], -0.8, True),
        ([-1.0], 0.5, False),
    ],
)
def test_the_loss_may_rise_by_a_quarter_or_by_what_it_is_used_to(
    losses: list[float], then: float, *, is_fine: bool
) -> None:
    told = [before(42 + number, loss) for number, loss in enumerate(losses)]
    found = verdict(resumed(*told, after(60, then), again=second()))
    assert found.passed == is_fine
    assert outcomes(found)["loss"] == ("ok" if is_fine else "failed")
    if not is_fine:
        assert found.reason.startswith("loss went from ")


def test_a_loss_is_compared_at_the_same_step_where_steps_are_made_again() -> None:
    told = [before(30, 3.0), before(41, 2.0), before(45, 0.5)]
    assert verdict(resumed(*told, after(42, 2.1), again=second())).passed


@pytest.mark.parametrize(
    ("was", "then", "text"),
    [
        (None, 0.5, "the program tells none"),
        (0.5, None, "the program has told none since"),
        (float("nan"), 0.5, "it was nan before the resume already"),
    ],
)
def test_a_loss_that_is_not_told_is_not_checked(was: float | None, then: float | None, text: str) -> None:
    found = verdict(resumed(before(45, was), after(42, then), again=second()))
    assert found.passed
    assert (found.checks[-1].outcome, found.checks[-1].text) == ("not checked", text)


def test_without_progress_a_newer_checkpoint_is_what_counts() -> None:
    assert next_move(resumed(again=second())) == "wait"
    assert next_move(resumed(again=second(mark(40, 230.0)))) == "wait"
    assert verdict(resumed(again=second(mark(60, 230.0)))).passed
    found = verdict(resumed(again=second(mark(60, 230.0)), anew="step-20"))
    assert (
        found.reason
        == "saved step-20 once more although checkpoint step-40 was there: it did not go on from it"
    )


@pytest.mark.parametrize(
    ("view", "reason"),
    [
        (resumed(now=800.0), "it was not started again within 10m"),
        (resumed(ended="cancelled by root"), "it was not started again: cancelled by root"),
        (
            resumed(again=second(given=None)),
            "it started from its beginning: step-40 was no complete checkpoint any more",
        ),
        (
            resumed(before(45), again=second(sentence="exit code 1: bad key")),
            "it ended after the resume from step-40: exit code 1: bad key",
        ),
        (
            resumed(before(45), again=second(), now=801.0),
            "no step within 10m after the resume from step-40",
        ),
        (
            resumed(again=second(), now=801.0),
            "no further checkpoint within 10m after the resume from step-40",
        ),
        (
            resumed(before(45), again=second(is_time_over=True)),
            "the 15m of the job were over after the resume from step-40, before the program had gone on; "
            "--time gives it more",
        ),
    ],
)
def test_what_does_not_go_on_has_failed(view: View, reason: str) -> None:
    found = verdict(view)
    assert not found.passed
    assert found.reason == reason
    assert outcomes(found)["resume"] == "failed"


def test_a_request_that_nobody_heeds_is_a_warning_that_says_whether_the_signal_is_caught() -> None:
    view = resumed(before(45), after(42), again=second())
    unheeded = view._replace(asked=Asked(120.0, "USR1", 0, 2))
    found = verdict(unheeded)
    assert found.passed
    assert outcomes(found)["signal"] == "warning"
    assert "no rank catches USR1" in found.checks[1].text
    told = verdict(view._replace(asked=Asked(120.0, "USR1", 2, 2))).checks[1].text
    assert "no rank catches" not in told
    often = verdict(view._replace(asked=Asked(100.0, "USR1", 0, 2)))
    assert outcomes(often)["signal"] == "ok"
    assert "it saves often enough" in often.checks[1].text


def event(at: float, kind: str, **fields: object) -> Event:
    return Event(datetime.fromtimestamp(at, UTC), kind, {"attempt": "7-0", **fields})


def test_the_starts_are_read_from_the_events_and_a_port_that_was_taken_is_none() -> None:
    told = [
        event(10.0, "attempt-started", job_id="7", nodes=["n1"]),
        event(11.0, "step-started", step=0),
        event(12.0, "step-ended", step=0, exit_code=98, port_taken=True),
        event(13.0, "step-started", step=1),
        event(20.0, "checkpoint-complete", step=1, checkpoint="/saved/step-5", at_step=5, saved=19.0),
        event(25.0, "step-ended", step=1, exit_code=137, at_step=7),
        event(26.0, "diagnosed", step=1, sentence="killed"),
        event(26.5, "decided", action="restart", reason="once more"),
        event(27.0, "checkpoint-chosen", step=2, checkpoint="/saved/step-5", at_step=5),
        event(28.0, "step-started", step=2, from_step=5),
        event(30.0, "checkpoint-requested", step=2, why="time-limit"),
    ]
    one, two = starts_of(courses(told, state="running", now=40.0)[0].stints)
    assert (one.key, one.has_ended, one.sentence, one.follows) == (("7-0", 1), True, "killed", "once more")
    assert [made.at_step for made in one.step.marks] == [5]
    assert (two.key, two.has_ended, two.sentence, two.is_time_over) == (("7-0", 2), False, None, True)
    assert two.step.from_step == 5
