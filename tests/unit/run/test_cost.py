from __future__ import annotations

from typing import Any

import pytest

from slurmkit.run.cost import Cost, Reckoning, Restarts, reckon
from slurmkit.run.course import courses
from slurmkit.run.interval import advice, best_interval, expected_ettr
from tests.unit.run.stories import Story, stamp


def reckoned(story: Story, state: str = "completed", *, now: float = 1000, gpus: int = 8) -> Reckoning:
    return reckon(courses(story.events, state=state, now=stamp(now)), lambda nodes: nodes * gpus)


def cost_of(story: Story, state: str = "completed", **more: Any) -> Cost:
    return reckoned(story, state, **more).cost


def disturbed() -> Story:
    """An hour: 10 minutes in the queue, a crash with a restart in place, a dead node with a requeue."""
    story = Story(nodes=2).attempt(5).step(6, chosen=None).saved((16, 100)).fails(20)
    story.step(21, chosen=100).saved((31, 200)).fails(35, "node-died", action="requeue").leaves(35, "requeue")
    return story.attempt(40).step(42, chosen=200).succeeds(60)


def test_productive_time_is_what_counts() -> None:
    cost = cost_of(disturbed())
    assert {name: seconds / 60 for name, seconds in cost.seconds.items()} == {
        "queued": 10,
        "starting": 1 + 1 + 2,
        "computing": 10 + 10 + 18,
        "checkpointing": 0,
        "lost": 4 + 4,
        "idle": 0,
    }
    assert cost.wall == 3600
    assert cost.ettr == pytest.approx(38 / 60)
    assert cost.ettr_without_queue == pytest.approx(38 / 50)


def test_what_was_lost_has_its_cause_in_gpu_hours() -> None:
    cost = cost_of(disturbed())
    assert (cost.unit, cost.units, cost.nodes) == ("GPU", 16, 2)
    assert cost.hours == pytest.approx(16 * 50 / 60)
    assert cost.losses["node-died"] == pytest.approx((1, 16 * 4 / 60, 16 * 2 / 60))
    assert cost.losses["crashed"] == pytest.approx((1, 16 * 4 / 60, 16 * 1 / 60))
    assert list(cost.losses) == ["node-died", "crashed"]
    assert cost.lost_hours == pytest.approx(16 * 11 / 60)


def test_restarts_are_counted_by_the_way_they_were_done() -> None:
    assert cost_of(disturbed()).restarts == Restarts(in_place=1, requeue=1, resubmit=0)
    story = Story().attempt(0).step(0).fails(5).leaves(5, "resubmit").resubmitted(5, "13")
    story.attempt(6).step(6).own(6, "step-ended", exit_code=98, port_taken=True).step(7).succeeds(9)
    assert cost_of(story).restarts == Restarts(in_place=0, requeue=0, resubmit=1)


def test_failures_tell_the_time_between_two() -> None:
    cost = cost_of(disturbed())
    assert (cost.failures, cost.mtbf) == (2, 25 * 60)
    assert cost.failures_per_node_day == pytest.approx(2 / (2 * 50 / 1440))


def test_waiting_for_somebody_is_no_time_between_failures() -> None:
    story = Story().attempt(0).step(0).say(20, "diagnosed", attempt="12-0", kind="crashed", by="supervisor")
    story.own(10, "checkpoint-complete", checkpoint="/c/step-1", saved=stamp(10))
    cost = cost_of(story, "interrupted", now=100)
    assert (cost.failures, cost.mtbf, cost.held) == (1, 600, 6000)


@pytest.mark.parametrize("kind", ["time-limit", "preempted", "requeued", "cancelled"])
def test_what_slurm_or_the_user_wanted_is_no_failure(kind: str) -> None:
    story = Story().attempt(0).step(0).fails(5, kind).leaves(5, "requeue").attempt(6).step(6).succeeds(9)
    cost = cost_of(story)
    assert (cost.failures, cost.mtbf) == (0, None)
    assert cost.losses[kind].times == 1
    assert cost.losses[kind].lost_hours == pytest.approx(16 * 5 / 60)


def test_a_hang_costs_what_stood_still_and_what_is_thrown_away() -> None:
    story = Story().attempt(0).step(0, chosen=None).saved((10, 100)).own(30, "hung", since=stamp(20))
    cost = cost_of(story.fails(31, "hung").step(32, chosen=100).succeeds(60))
    assert list(cost.losses) == ["hung"]
    assert cost.losses["hung"] == pytest.approx((1, 16 * 21 / 60, 16 * 1 / 60))


def test_without_gpus_nodes_are_counted() -> None:
    cost = cost_of(disturbed(), gpus=0)
    assert (cost.unit, cost.units) == ("node", 2)
    assert cost.hours == pytest.approx(2 * 50 / 60)


def test_a_run_that_has_not_started_costs_nothing_but_time() -> None:
    cost = cost_of(Story(), "pending", now=7)
    assert (cost.wall, cost.ettr, cost.ettr_without_queue, cost.mtbf) == (420, 0.0, None, None)
    assert (cost.hours, cost.failures, cost.restarts) == (0, 0, Restarts())


def test_tasks_of_an_array_add_up() -> None:
    story = Story()
    for task in (1, 2):
        story.job, story.restart = f"12_{task}", -1
        story.attempt(1, array_job_id="12").step(2)
        story.own(11, "step-ended", exit_code=0).leaves(11, "done", 0)
    cost = cost_of(story)
    assert (cost.wall, cost.seconds["computing"], cost.units) == (2 * 11 * 60, 2 * 9 * 60, 16)
    assert cost.restarts == Restarts()


class TestInterruptions:
    def test_each_has_its_cause_and_what_followed(self) -> None:
        first, second = reckoned(disturbed()).interruptions
        assert (first.attempt, first.step, first.kind, first.action) == ("12-0", 0, "crashed", "restart")
        assert (second.attempt, second.step, second.kind, second.action) == (
            "12-0",
            1,
            "node-died",
            "requeue",
        )
        assert (second.sentence, second.reason) == ("it node-died", "the first failure")

    def test_the_supervisor_has_the_last_word_on_an_attempt_without_one(self) -> None:
        story = Story().attempt(0).step(0)
        story.say(30, "diagnosed", attempt="12-0", kind="node-died", sentence="n2 died", by="supervisor")
        story.say(30, "decided", attempt="12-0", action="resubmit", reason="the first", by="supervisor")
        (one,) = reckoned(story.resubmitted(31, "13").attempt(33).step(34).succeeds(50)).interruptions
        assert (one.step, one.kind, one.action) == (0, "node-died", "resubmit")

    def test_a_log_without_diagnoses_tells_what_it_can(self) -> None:
        first = {"rank": 3, "host": "n2", "exit_code": 5, "cause": {"sentence": "no such file"}}
        story = Story().attempt(0).step(0).own(5, "step-ended", exit_code=5, first_failure=first)
        story.leaves(5, "stop").say(5, "run-ended", outcome="failed", exit_code=5)
        (one,) = reckoned(story, "failed").interruptions
        assert (one.kind, one.action) == ("crashed", None)
        assert one.sentence == "rank 3 on n2 failed first: exit code 5: no such file"

    def test_of_a_dead_agent_it_is_known_that_nobody_knows(self) -> None:
        story = Story().attempt(0).step(0).attempt(20).step(20).succeeds(30)
        (one,) = reckoned(story).interruptions
        assert (one.attempt, one.kind) == ("12-0", "unknown")

    def test_a_cancelled_run_has_no_failure(self) -> None:
        story = Story().attempt(0).step(0).say(5, "cancel-requested", job_id="12")
        story.own(6, "step-ended", exit_code=143, received=["SIGTERM"]).leaves(6, "stop", 143)
        cost = cost_of(story, "cancelled")
        assert (cost.failures, list(cost.losses)) == (0, ["cancelled"])

    @pytest.mark.parametrize("state", ["completed", "running"])
    def test_a_run_that_went_well_has_none(self, state: str) -> None:
        story = Story().attempt(0).step(0)
        story = story if state == "running" else story.succeeds(9)
        assert reckoned(story, state).interruptions == ()


def saving_every(minutes: float, *, failures: int, saving: float | None = 60) -> Story:
    """A failure every 100 minutes, and between two of them as many checkpoints as there is time for."""
    story, at, number = Story(nodes=2).attempt(0), 0.0, 0
    for index in range(failures + 1):
        story.step(at, chosen=number or None)
        marks = [at + minutes * (index + 1) for index in range(int(99 / minutes))]
        story.saved(*((mark, number + index + 1) for index, mark in enumerate(marks)))
        number += len(marks)
        told: dict[str, Any] = {} if saving is None else {"saving": saving * len(marks)}
        at += 100
        story = story.fails(at, **told) if index < failures else story.succeeds(at, **told)
    return story


class TestAdvice:
    def test_with_few_failures_it_says_so(self) -> None:
        for failures in (0, 1):
            told = advice(cost_of(saving_every(10, failures=failures)))
            assert told == "a checkpoint every 10m 00s; too few failures to tell the best interval"

    def test_without_checkpoints_it_says_nothing(self) -> None:
        story = Story().attempt(0).step(0).fails(5).step(5).fails(9).step(9).succeeds(20)
        assert advice(cost_of(story)) is None

    def test_the_interval_in_use_stands_against_the_best(self) -> None:
        cost = cost_of(saving_every(3, failures=2))
        rate, write = 2 / (300 * 60), 60.0
        best = best_interval(rate=rate, write=write)
        assert (cost.interval, cost.write, cost.mtbf) == (180, 60, 9000)
        assert best == pytest.approx(1039, abs=1)
        ratios = [expected_ettr(rate=rate, restart=0, interval=one, write=60) for one in (180, best)]
        assert advice(cost) == (
            "a checkpoint every 3m 00s, 60 s each, and a failure every 2h 30m: "
            f"every 17m 19s would be best (expected ETTR {ratios[1]:.2f} instead of {ratios[0]:.2f})"
        )

    def test_near_the_best_it_leaves_well_alone(self) -> None:
        told = advice(cost_of(saving_every(16, failures=3)))
        assert told is not None
        assert "near the best interval, 16m 20s (expected ETTR 0.88)" in told

    def test_without_the_time_that_saving_takes_the_best_is_not_known(self) -> None:
        told = advice(cost_of(saving_every(10, failures=3, saving=None)))
        assert told == (
            "a checkpoint every 10m 00s, a failure every 2h 13m; how long saving takes is not known: "
            'mark it as the phase "checkpoint"'
        )
