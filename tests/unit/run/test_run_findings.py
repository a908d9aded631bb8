from __future__ import annotations

from typing import Any

import pytest

from slurmkit.run import sentences
from slurmkit.run.events import Event
from slurmkit.run.findings import Findings, findings
from slurmkit.run.progress import Straggler
from slurmkit.run.timeline import timeline
from tests.unit.run.conftest import NOW

FAILURE = {"rank": 3, "host": "n2", "signal": 11, "cause": {"kind": "segmentation-fault", "sentence": "why"}}
SLOW = {"rank": 3, "host": "n2", "phase": "data", "own": 0.312, "median": 0.2, "step": 40}


def log(*told: tuple[str, dict[str, Any]]) -> list[Event]:
    return [Event(NOW, kind, {"attempt": "12-0", **fields}) for kind, fields in told]


START: tuple[str, dict[str, Any]] = ("attempt-started", {})
CHECKED = ("nodes-checked", {"unfit": [{"node": "n4", "reasons": ["3 of 4 GPUs"]}], "warnings": []})
STEP = ("step-started", {"step": 0})


def test_what_was_found_is_kept_until_the_next_start_of_the_step() -> None:
    told = log(START, CHECKED, STEP, ("straggler", SLOW), ("step-ended", {"first_failure": FAILURE}))
    found = findings(told, "12-0")
    assert (len(found.stragglers), found.first_failure, found.unfit) == (1, FAILURE, {"n4": ("3 of 4 GPUs",)})
    assert findings([*told, *log(STEP)], "12-0") == Findings(unfit=found.unfit)
    assert findings([*told, *log(STEP, START)], "12-0") == Findings()


def test_who_keeps_up_again_is_no_straggler_any_more() -> None:
    gone = ("straggler-gone", {"rank": 3, "host": "n2"})
    assert findings(log(START, STEP, ("straggler", SLOW), gone), "12-0").stragglers == ()
    other = ("straggler-gone", {"host": "n2"})
    assert len(findings(log(START, STEP, ("straggler", SLOW), other), "12-0").stragglers) == 1


def test_the_tasks_of_an_array_do_not_mix() -> None:
    events = [*log(STEP), Event(NOW, "straggler", {**SLOW, "attempt": "13-0"})]
    assert findings(events, "12-0") == Findings()
    assert findings(events, None) == Findings()


@pytest.mark.parametrize("kind", ["straggler", "straggler-gone", "hung", "nodes-checked", "step-ended"])
@pytest.mark.parametrize("value", [None, "x", 3, [], {}, [1], [{}]])
def test_a_damaged_event_is_no_crash(kind: str, value: object) -> None:
    words = (
        "unfit warnings rank host own median since step after stacks first_failure ranks_failed phase nodes"
    )
    names = [*words.split(), "seconds", "by"]
    events = log((kind, dict.fromkeys(names, value)))
    list(findings(events, "12-0").sentences())
    assert timeline(events, [])[0].text


def test_each_finding_is_a_sentence_the_worst_first() -> None:
    hung = ("hung", {"since": NOW.timestamp() - 312, "step": 119, "after": 300, "stacks": "/r/stacks/12-0/0"})
    doubtful = ("nodes-checked", {"unfit": CHECKED[1]["unfit"],
                                  "warnings": [{"node": "n1", "reasons": ["clock", "disk"]}]})  # fmt: skip
    told = log(START, doubtful, STEP, ("straggler", SLOW), hung)
    assert list(findings(told, "12-0").sentences()) == [
        "unfit node n4: 3 of 4 GPUs",
        "hung: no rank made progress for 5m 12s, the last step was 119; stacks: /r/stacks/12-0/0",
        "rank 3 on n2 is slow in data: 312 ms a step of its own, the others 200 ms (+56 %)",
        "doubtful node n1: clock; disk",
    ]


@pytest.mark.parametrize(
    ("kind", "fields", "text"),
    [
        ("nodes-checked", {"nodes": ["n1", "n2"], "unfit": [], "warnings": [], "seconds": 0.61},
         "2 nodes checked in 0.6 s: all are fit"),
        ("nodes-checked", {"nodes": ["n1", "n4"], **CHECKED[1]}, "2 nodes checked: unfit: n4: 3 of 4 GPUs"),
        ("nodes-ordered", {"nodes": ["n2", "n1"], "by": "tree"}, "the nodes are ordered by tree: n2,n1"),
        ("straggler", {**SLOW, "rank": None},
         "node n2 is slow in data: 312 ms a step of its own, the others 200 ms (+56 %), at step 40"),
        ("straggler-gone", {"rank": 3, "host": "n2"}, "rank 3 on n2 keeps up again"),
        ("step-ended", {"exit_code": 139, "first_failure": FAILURE, "ranks_failed": 7},
         "the step ended with exit code 139; rank 3 on n2 failed first: why; 7 other ranks failed after it"),
        ("attempt-ended", {"signal": 15}, "attempt 12-0 ended with SIGTERM (asked to end)"),
    ],
)  # fmt: skip
def test_the_story_tells_it(kind: str, fields: dict[str, Any], text: str) -> None:
    assert timeline(log((kind, fields)), [])[0].text == text


@pytest.mark.parametrize(
    ("exit_code", "signal", "text"),
    [
        (5, None, "exit code 5"),
        (None, 11, "killed by SIGSEGV (segmentation fault)"),
        (None, 9, "killed by SIGKILL (which no program can catch)"),
        (None, 44, "killed by signal 44"),
        (139, None, "exit code 139, as a shell reports SIGSEGV (segmentation fault)"),
        (255, None, "exit code 255"),
        (None, None, "nobody knows how"),
    ],
)
def test_an_end_is_told_in_words(exit_code: int | None, signal: int | None, text: str) -> None:
    assert sentences.end_in_words(exit_code, signal) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-3, "0s"), (0.4, "0s"), (59.4, "59s"), (59.6, "1m 00s"), (72, "1m 12s"), (3600, "1h 00m"),
     (86399, "23h 59m"), (86400, "1d 00h"), (400 * 86400, "400d 00h")],
)  # fmt: skip
def test_a_duration_has_two_units(seconds: float, text: str) -> None:
    assert sentences.duration(seconds) == text


@pytest.mark.parametrize(
    ("steps_per_second", "text"),
    [
        (12.345, "12.3 steps/s"),
        (0.5, "0.5 steps/s"),
        (0.04, "25 s/step"),
        (0, "0 steps/s"),
        (12345.6, "12346 steps/s"),
    ],
)
def test_slow_steps_are_told_in_seconds_a_step(steps_per_second: float, text: str) -> None:
    assert sentences.speed(steps_per_second) == text


def test_a_straggler_of_which_little_is_known() -> None:
    assert sentences.straggler(Straggler(None, "n2")) == "node n2 is slow"
