"""The end of a job's time: the ranks are asked for a checkpoint, which is awaited while there is time."""

from __future__ import annotations

import signal
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from slurmkit.checkpoint.choice import Checkpoint
from slurmkit.checkpoint.layout import Verdict
from slurmkit.recovery import saving as module
from slurmkit.recovery.lookout import Look
from slurmkit.recovery.saving import Saving
from slurmkit.recovery.watching import Watched

if TYPE_CHECKING:
    from tests.unit.recovery.conftest import Made

HOUR = 3600.0


class Looks:
    """A lookout that finds what a test puts into it."""

    def __init__(self) -> None:
        self.found: list[Look] = []
        self.is_urgent = False

    def tick(self) -> Look | None:
        return self.found.pop(0) if self.found else None


@pytest.fixture
def signalled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was run on the nodes to signal the ranks."""
    calls: list[str] = []

    def run(argv: list[str], **_: object) -> Any:
        calls.append(argv[-1])
        return SimpleNamespace(is_ok=True)

    monkeypatch.setattr(module, "start_aside", lambda work: work())
    monkeypatch.setattr("slurmkit.slurm.process.run", run)
    return calls


def saving(made: Made, *, newest: Checkpoint | None = None, ends_in: float | None = HOUR) -> Saving:
    return Saving(
        setting=made.setting,
        number=0,
        nodes=(),
        environ={},
        lookout=Looks(),  # type: ignore[arg-type]
        newest=newest,
        ends_by=None if ends_in is None else made.clock.now().timestamp() + ends_in,
    )


def checkpoint(step: int, saved: float) -> Checkpoint:
    return Checkpoint(
        Path(f"/saved/step-{step}"), "plain", step, Verdict("complete", "all there", saved=saved), 1
    )


def find(one: Saving, found: Checkpoint) -> None:
    looks: Any = one.lookout
    looks.found.append(Look(found))


def move(made: Made, seconds: float) -> None:
    made.clock.time += timedelta(seconds=seconds)


def test_before_its_time_nobody_is_asked(made: Made, signalled: list[str]) -> None:
    one = saving(made)
    move(made, HOUR - 121)
    assert not one.tick(Watched())
    assert signalled == []
    assert made.events() == []


def test_at_lead_time_every_rank_is_asked_once(made: Made, signalled: list[str]) -> None:
    one = saving(made)
    move(made, HOUR - 119)
    for _ in range(3):
        assert not one.tick(Watched())
    assert signalled == ["USR1"]
    assert made.setting.paths.request("12-0", 0).exists()
    (told,) = made.events("checkpoint-requested")
    assert (told["why"], told["seconds_left"]) == ("time-limit", 119.0)


def test_the_step_ends_as_soon_as_a_new_checkpoint_is_complete(made: Made, signalled: list[str]) -> None:
    one = saving(made, newest=checkpoint(100, saved=1.0))
    move(made, HOUR - 100)
    one.tick(Watched())
    assert one.asked is not None
    find(one, checkpoint(150, saved=one.asked.at + 3))
    assert one.tick(Watched())
    assert one.is_at_limit
    assert made.events("checkpoint-complete")[0]["at_step"] == 150
    assert len(signalled) == 1


def test_without_a_requeue_to_follow_the_ranks_work_on_when_they_have_saved(
    made: Made, signalled: list[str]
) -> None:
    one = saving(made)
    one.ends_when_saved = False
    move(made, HOUR - 100)
    one.tick(Watched())
    assert one.asked is not None
    find(one, checkpoint(150, saved=one.asked.at + 3))
    assert not one.tick(Watched())
    move(made, 86)
    assert one.tick(Watched())
    assert signalled


def test_where_slurm_ends_the_job_the_step_ends_when_it_has_saved_whatever_may_follow(
    made: Made, signalled: list[str]
) -> None:
    one = saving(made)
    one.ends_when_saved = False
    seen = Watched(received=[signal.SIGTERM])
    one.tick(seen)
    assert one.asked is not None
    find(one, checkpoint(150, saved=one.asked.at + 1))
    assert one.tick(seen)
    assert signalled


def test_a_checkpoint_from_before_the_request_is_not_the_one_that_was_asked_for(
    made: Made, signalled: list[str]
) -> None:
    one = saving(made)
    move(made, HOUR - 100)
    one.tick(Watched())
    assert one.asked is not None
    find(one, checkpoint(140, saved=one.asked.at - 5))
    assert not one.tick(Watched())
    assert signalled


def test_where_none_comes_the_step_ends_with_time_left_for_the_requeue(
    made: Made, signalled: list[str]
) -> None:
    one = saving(made)
    move(made, HOUR - 100)
    assert not one.tick(Watched())
    move(made, 80)
    assert not one.tick(Watched())
    move(made, 6)
    assert one.tick(Watched())
    assert not one.has_saved
    assert signalled


def test_a_time_limit_that_was_raised_meanwhile_counts(made: Made, signalled: list[str]) -> None:
    one = saving(made)
    made.queue.job = made.queue.job._replace(ends_by=made.clock.now() + timedelta(hours=2))
    move(made, HOUR - 60)
    assert not one.tick(Watched())
    assert signalled == []


def test_of_a_job_that_is_shorter_than_its_lead_time_half_is_for_work(
    made: Made, signalled: list[str]
) -> None:
    made.queue.job = made.queue.job._replace(ends_by=made.clock.now() + timedelta(seconds=60))
    one = saving(made, ends_in=60)
    move(made, 29)
    one.tick(Watched())
    assert signalled == []
    move(made, 2)
    one.tick(Watched())
    assert signalled == ["USR1"]


def test_trap_091_slurms_own_warning_is_for_the_agent_and_asks_every_rank(
    made: Made, signalled: list[str]
) -> None:
    one = saving(made)
    assert one.takes(signal.SIGUSR1)
    assert not one.takes(signal.SIGUSR2)
    assert signalled == ["USR1"]


def test_without_an_end_of_the_time_the_signal_is_the_users_own(made: Made, signalled: list[str]) -> None:
    assert not saving(made, ends_in=None).takes(signal.SIGUSR1)
    assert signalled == []


def test_a_sigterm_to_the_ranks_alone_is_a_preemption(made: Made, signalled: list[str]) -> None:
    one = saving(made)
    made.queue.job = made.queue.job._replace(ends_by=made.clock.now() + timedelta(seconds=60))
    told: Any = SimpleNamespace(kind="rank-told", rank=0, fields={"signal": 15})
    one.tick(Watched(notices=[told]))
    assert one.is_preempted
    assert made.events("checkpoint-requested")[0]["seconds_left"] == 60.0
    assert signalled


def test_a_sigterm_after_a_failure_is_no_preemption(made: Made, signalled: list[str]) -> None:
    one = saving(made)
    told: Any = SimpleNamespace(kind="rank-told", rank=0, fields={"signal": 15})
    one.tick(Watched(notices=[told], is_ending=True))
    assert one.asked is None
    assert signalled == []


def test_at_a_sigterm_to_the_agent_the_ranks_are_asked_too(made: Made, signalled: list[str]) -> None:
    one = saving(made)
    one.tick(Watched(received=[signal.SIGTERM]))
    assert made.events("checkpoint-requested")[0]["why"] == "told"
    assert not one.is_at_limit
    assert signalled
