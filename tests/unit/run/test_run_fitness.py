"""Whose words count where a node does not answer: its own task's, srun's of it, or none of either."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slurmkit.run.fitness import Answers, judge, read_answers

FIT: dict[str, Any] = {"problems": [], "warnings": [], "facts": {}}
NODES = ["n1", "n2", "n10"]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            [" 1: /x/python: can't open file '/home/é/launch.pyz'", "srun: error: n2: task 1: Exited with 2"],
            "/x/python: can't open file '/home/é/launch.pyz'",
        ),
        (["10: not of this node", "0: nor this"], "no answer"),
        (["1: ", "srun: error: n2: task 1: Out Of Memory"], "srun: error: n2: task 1: Out Of Memory"),
        (["srun: error: Task launch failed on node n2: No route"], None),
    ],
)
def test_a_silent_node_has_the_last_word_of_its_own_task(said: list[str], reason: str | None) -> None:
    answers = Answers(records={"n1": FIT, "n10": FIT})
    assert judge(NODES, answers, said, within=5).unfit == {"n2": (reason or said[-1],)}


@pytest.mark.parametrize(
    "line",
    [
        "srun: error: n2: task 1: Killed",
        "slurmstepd-n2: error: *** STEP 15.2 ON n2 CANCELLED AT 2026-12-02T08:50:39 ***",
        "srun: error: n2: tasks 1,3-4: Terminated",
    ],
)
def test_what_follows_from_ending_a_late_check_is_no_reason(line: str) -> None:
    answers = Answers(records={"n1": FIT, "n10": FIT})
    assert judge(NODES, answers, [line], within=5, is_late=True).unfit == {"n2": ("no answer within 5 s",)}
    assert judge(NODES, answers, [line], within=5).unfit == {"n2": (line,)}


def test_where_nobody_answers_a_tasks_own_word_tells_more_than_sruns() -> None:
    said = ["0: python3: can't open file", "srun: error: n[1-2]: tasks 0-1: Exited with exit code 2"]
    assert judge(["n1", "n2"], Answers(), said, within=5).why_not == "python3: can't open file"


def test_a_taken_port_is_nobodys_fault() -> None:
    unreached = {**FIT, "facts": {"unreached": "n1:2: something else answers there"}}
    first = {**FIT, "warnings": ["port 2 cannot be used"], "facts": {"port_taken": True}}
    fitness = judge(NODES, Answers(records={"n1": first, "n2": unreached, "n10": unreached}), [], within=5)
    assert fitness.unfit == {}
    assert fitness.warnings == {"n1": ("port 2 cannot be used",)}


def test_answers_are_read_with_and_without_sruns_label() -> None:
    hello = {"token": "t", "node": "n1", "hello": 105.0}
    record = {"token": "t", "node": "n1", **FIT, "warnings": ["port 7: in use"]}
    for label in ("", "0: ", " 12: "):
        found = read_answers([(100.0, label + json.dumps(hello)), (101.0, label + json.dumps(record))], "t")
        assert (found.ahead, found.records) == ({"n1": 5.0}, {"n1": record})
