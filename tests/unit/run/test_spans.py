from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from slurmkit.run.course import Heard, courses
from slurmkit.run.spans import KINDS, spans
from slurmkit.slurm.tres import Tres
from tests.unit.run.conftest import make_job
from tests.unit.run.stories import Story, minute, stamp

if TYPE_CHECKING:
    from slurmkit.run.course import Course


def shown(course: Course) -> list[tuple[str, int, int]]:
    """The spans as kind, first and last minute; none overlaps another, and nothing is left out."""
    made = spans(course)
    assert all(before.end == after.begin for before, after in pairwise(made))
    if made:
        assert (made[0].begin, made[-1].end) == (course.begin, course.end)
    assert {span.kind for span in made} <= set(KINDS)
    return [(span.kind, in_minutes(span.begin), in_minutes(span.end)) for span in made]


def in_minutes(at: float) -> int:
    return round((at - stamp(0)) / 60)


def test_an_undisturbed_run_waits_starts_and_computes() -> None:
    story = Story().attempt(10).step(12).succeeds(60)
    assert shown(story.course()) == [("queued", 0, 10), ("starting", 10, 12), ("computing", 12, 60)]


def test_it_starts_until_the_ranks_tell_of_progress() -> None:
    story = Story().attempt(10).step(12).succeeds(60, computing_since=stamp(15))
    assert shown(story.course())[1:] == [("starting", 10, 15), ("computing", 15, 60)]


def test_without_checkpoints_the_work_of_a_failed_attempt_is_all_lost() -> None:
    story = Story().attempt(0).step(1).fails(30, action="stop").leaves(30, "stop")
    assert shown(story.course("failed")) == [("starting", 0, 1), ("lost", 1, 30)]
    story = Story().attempt(0).step(1).fails(30).leaves(30, "requeue").attempt(40).step(41).succeeds(90)
    assert shown(story.course()) == [
        ("starting", 0, 1),
        ("lost", 1, 30),
        ("queued", 30, 40),
        ("starting", 40, 41),
        ("computing", 41, 90),
    ]


def test_what_came_after_the_last_complete_checkpoint_is_lost() -> None:
    story = Story().attempt(0).step(1, chosen=None).saved((10, 100), (20, 200)).fails(25, at_step=250)
    story.step(26, chosen=200).saved((36, 300)).succeeds(40)
    assert shown(story.course()) == [
        ("starting", 0, 1),
        ("computing", 1, 20),
        ("lost", 20, 25),
        ("starting", 25, 26),
        ("computing", 26, 40),
    ]
    assert [span.why for span in spans(story.course()) if span.kind in {"lost", "starting"}] == [
        None,
        "crashed",
        "crashed",
    ]


def test_where_the_newest_checkpoint_was_refused_its_work_is_lost_too() -> None:
    story = Story().attempt(0).step(1, chosen=None).saved((10, 100), (20, 200)).fails(25)
    story.step(26, chosen=100, refused=200).succeeds(40)
    assert ("lost", 10, 25) in shown(story.course())


def test_a_start_from_nothing_loses_all_that_was_kept_before() -> None:
    story = Story().attempt(0).step(1, chosen=None).saved((10, 100)).fails(15).step(16, chosen=100)
    story.saved((20, 200)).fails(25, "disk-full").step(26, chosen=None).succeeds(90)
    assert [one for one in shown(story.course()) if one[0] == "lost"] == [
        ("lost", 1, 10),
        ("lost", 10, 15),
        ("lost", 16, 25),
    ]
    assert [span.why for span in spans(story.course()) if span.kind == "lost"] == [
        "disk-full",
        "crashed",
        "disk-full",
    ]


def test_of_a_checkpoint_that_nobody_saw_being_completed_the_steps_tell_the_time() -> None:
    story = Story().attempt(0).step(0, chosen=None).saved((10, 100)).fails(30, at_step=300)
    story.step(30, chosen=200).succeeds(40)
    assert ("lost", 20, 30) in shown(story.course())


def test_a_hang_is_idle_from_the_last_progress_on() -> None:
    story = Story().attempt(0).step(0, chosen=None).saved((10, 100))
    story.own(25, "hung", since=stamp(15), after=600, stacks="/s")
    story.fails(26, "hung").step(27, chosen=100).succeeds(30)
    assert shown(story.course()) == [
        ("computing", 0, 10),
        ("lost", 10, 15),
        ("idle", 15, 26),
        ("starting", 26, 27),
        ("computing", 27, 30),
    ]


def test_saving_is_told_apart_where_the_program_tells_of_it() -> None:
    story = Story().attempt(0).step(0, chosen=None).saved((10, 100), (20, 200))
    story.succeeds(30, saving=2 * 120)
    assert shown(story.course()) == [
        ("computing", 0, 8),
        ("checkpointing", 8, 10),
        ("computing", 10, 18),
        ("checkpointing", 18, 20),
        ("computing", 20, 30),
    ]


def test_a_run_that_goes_on_is_told_of_up_to_now() -> None:
    heard = Heard(stamp(29), step=0, computing_since=stamp(3), saving=60)
    story = Story().attempt(1).step(2, chosen=None).saved((10, 100))
    assert shown(story.course("running", now=30, heard=heard)) == [
        ("queued", 0, 1),
        ("starting", 1, 3),
        ("computing", 3, 9),
        ("checkpointing", 9, 10),
        ("computing", 10, 30),
    ]


def test_a_checkpoint_that_is_only_known_from_the_next_start_may_tell_when_it_was_saved() -> None:
    story = Story().attempt(0).step(0, chosen=None).saved((10, 100)).fails(30).step(30, chosen=200)
    story.events[-2].fields["saved"] = stamp(25)  # type: ignore[index]
    assert shown(story.succeeds(40).course())[:2] == [("computing", 0, 25), ("lost", 25, 30)]


def test_a_checkpoint_of_the_last_step_that_was_heard_of_loses_nothing() -> None:
    story = Story().attempt(0).step(0, chosen=None).saved((10, 100)).fails(30, at_step=199)
    assert shown(story.step(30, chosen=200).succeeds(40).course()) == [("computing", 0, 40)]


@pytest.mark.parametrize("state", ["pending", "running", "not-submitted", "cancelled", "blocked", "lost"])
def test_a_run_that_never_started_has_waited(state: str) -> None:
    story = Story().say(7, "job-ended", ended=stamp(7))
    assert shown(story.course(state, now=7)) == [("queued", 0, 7)]


def test_between_two_attempts_it_waits_in_the_queue() -> None:
    story = Story().attempt(0).step(0).fails(10, "node-died").leaves(10, "requeue")
    assert shown(story.course("pending", now=15))[-1] == ("queued", 10, 15)


def test_until_somebody_submits_it_again_it_is_idle() -> None:
    story = Story().attempt(0).step(0, chosen=None).saved((10, 100))
    assert shown(story.course("interrupted", now=40))[-1] == ("idle", 10, 40)
    heard = Heard(stamp(14))
    assert shown(story.course("interrupted", now=40, heard=heard))[-2:] == [
        ("lost", 10, 14),
        ("idle", 14, 40),
    ]
    story.say(30, "diagnosed", attempt="12-0", kind="node-died", sentence="n2 died", by="supervisor")
    story.resubmitted(31, "13").attempt(33).step(34, chosen=100).succeeds(50)
    assert shown(story.course()) == [
        ("computing", 0, 10),
        ("idle", 10, 31),
        ("queued", 31, 33),
        ("starting", 33, 34),
        ("computing", 34, 50),
    ]


def test_what_the_next_agent_says_of_an_attempt_is_no_sign_of_its_life() -> None:
    story = Story().attempt(0).step(0, chosen=None).saved((10, 100)).attempt(30)
    story.say(30, "diagnosed", attempt="12-0", kind="requeued", sentence="it was requeued", by="agent")
    story.say(30.1, "decided", attempt="12-0", action="leave", by="agent").step(31, chosen=100).succeeds(50)
    assert shown(story.course())[:2] == [("computing", 0, 10), ("queued", 10, 30)]


def test_a_resubmit_that_the_agent_asked_for_leaves_nothing_idle() -> None:
    story = Story().attempt(0).step(0).fails(10)
    story.resubmitted(9.9, "13")
    story.events.append(story.events[-1]._replace(
        time=minute(10), kind="attempt-ended", fields={"attempt": "12-0", "exit_code": 1, "next": "resubmit"}
    ))  # fmt: skip
    story.attempt(20).step(20).succeeds(30)
    assert shown(story.course())[1] == ("queued", 10, 20)


def test_a_job_that_is_held_is_idle_and_no_longer_queued() -> None:
    story = Story().attempt(0).step(0).fails(10, "held").leaves(10, "leave")
    assert shown(story.course("pending", now=15))[-1] == ("idle", 10, 15)


def test_a_start_whose_port_was_taken_is_no_work() -> None:
    story = Story().attempt(0).step(1).own(2, "step-ended", exit_code=98, port_taken=True).step(3)
    assert shown(story.succeeds(9).course()) == [("starting", 0, 3), ("computing", 3, 9)]


def test_an_attempt_that_came_to_no_start_only_started() -> None:
    story = Story().attempt(0).own(2, "attempt-ended", exit_code=1, reason="too few nodes are fit")
    assert shown(story.course("failed")) == [("starting", 0, 2)]


def test_accounting_tells_the_start_the_end_and_the_gpus_of_an_attempt() -> None:
    story = Story().attempt(5).step(6, chosen=None).saved((10, 100))
    ended = make_job(
        "12", "NODE_FAIL", start_time=minute(4), end_time=minute(18), tres=Tres.of({"gres/gpu": 16})
    )
    other = make_job("12", "RUNNING", start_time=minute(30), tres=Tres.of({"gres/gpu": 16}))
    story.restart, story.number = 0, -1
    story.attempt(31).step(32, chosen=100).succeeds(40)
    (course,) = courses(story.events, [other, ended], state="completed", now=stamp(99))
    assert shown(course) == [
        ("queued", 0, 4),
        ("starting", 4, 6),
        ("computing", 6, 10),
        ("lost", 10, 18),
        ("queued", 18, 30),
        ("starting", 30, 32),
        ("computing", 32, 40),
    ]
    assert {span.gpus for span in spans(course)} == {0, 16}


def test_tasks_of_an_array_have_a_course_each() -> None:
    story = Story()
    for task in (1, 2):
        story.job, story.restart = f"12_{task}", -1
        story.attempt(task, array_job_id="12").step(task)
    for task, end in ((1, 30), (2, 20)):
        story.job, story.restart, story.number = f"12_{task}", 0, 0
        story.own(end, "step-ended", exit_code=0).leaves(end, "done", 0)
    made = courses(story.events, state="completed", now=stamp(99))
    assert [shown(course) for course in made] == [
        [("queued", 0, 1), ("computing", 1, 30)],
        [("queued", 0, 2), ("computing", 2, 20)],
    ]


def test_who_looks_later_finds_no_longer_run() -> None:
    story = Story().attempt(0).step(0)
    story.own(10, "step-ended", exit_code=0).leaves(10, "done", 0)
    story.say(500, "job-ended", ended=stamp(10.5), run_state="completed", state="COMPLETED")
    assert shown(story.course()) == [("computing", 0, 10)]


def test_a_log_without_a_line_has_no_course() -> None:
    assert courses([], state="lost", now=0.0) == []
