from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

from slurmkit.errors import Unreachable
from slurmkit.run import events
from slurmkit.run.state import SUBMIT_GRACE
from slurmkit.run.watch import LOOK, Pace, Watch
from tests.unit.run.conftest import NOW, FakeClock, FakeSlurm, make_job

if TYPE_CHECKING:
    from collections.abc import Callable

    from slurmkit.run.paths import RunPaths

    Make = Callable[..., RunPaths]


def test_waiting_ends_when_every_run_has(make_run: Make, slurm: FakeSlurm, clock: FakeClock) -> None:
    runs = [make_run("a", job_id="1"), make_run("b", job_id="2")]
    slurm.live = [make_job("1"), make_job("2")]

    def advance() -> None:
        if clock.time - NOW > timedelta(minutes=1):
            slurm.live = [make_job("1", "COMPLETED", exit_code="0:0"), make_job("2")]
        if clock.time - NOW > timedelta(minutes=5):
            slurm.live = []
            slurm.past = [make_job("2", "FAILED", exit_code="2:0")]

    clock.on_sleep = advance
    *_, last = Watch(runs, lambda _: slurm, clock).until_over()
    assert [state.state for state in last] == ["completed", "failed"]


def test_trap_158_slurm_is_asked_more_and_more_seldom_while_nothing_changes(
    make_run: Make, slurm: FakeSlurm, clock: FakeClock
) -> None:
    paths = make_run()
    slurm.live = [make_job()]

    def advance() -> None:
        if clock.time - NOW > timedelta(hours=8):
            events.append(paths, "run-ended", exit_code=0)

    clock.on_sleep = advance
    *_, last = Watch([paths], lambda _: slurm, clock).until_over()
    assert last[0].state == "completed"
    assert 8 * 60 <= len(slurm.calls) <= 8 * 60 + 20


def test_an_answer_from_before_the_submit_says_nothing_of_its_job(
    make_run: Make, slurm: FakeSlurm, clock: FakeClock
) -> None:
    paths = make_run()
    slurm.live = [make_job()]
    clock.sleep(1.0)
    watch = Watch([paths], lambda _: slurm, clock, lambda: Pace(10))
    watch.look()
    clock.sleep(30.0)
    watch.look()
    assert slurm.ages == [1.0, 9.5]


def test_nor_does_one_from_before_a_later_submit(make_run: Make, slurm: FakeSlurm, clock: FakeClock) -> None:
    paths = make_run()
    slurm.live = [make_job()]
    clock.sleep(60.0)
    events.append(paths, "submitting", at=clock.now(), number=2)
    clock.sleep(3.0)
    Watch([paths], lambda _: slurm, clock, lambda: Pace(10)).look()
    events.append(paths, "submitted", at=clock.now(), job_id="2")
    clock.sleep(0.5)
    Watch([paths], lambda _: slurm, clock, lambda: Pace(10)).look()
    assert slurm.ages == [3.0, 0.5]


def test_a_site_can_set_the_least_interval(make_run: Make, slurm: FakeSlurm, clock: FakeClock) -> None:
    slurm.live = [make_job()]
    watch = Watch([make_run()], lambda _: slurm, clock, lambda: Pace(30))
    for _ in range(30):
        watch.look()
        clock.sleep(1)
    assert slurm.calls == ["jobs"]


def test_the_agents_word_of_a_success_ends_the_waiting_without_slurm(
    make_run: Make, slurm: FakeSlurm, clock: FakeClock
) -> None:
    paths = make_run()
    slurm.live = [make_job()]
    states = Watch([paths], lambda _: slurm, clock, lambda: Pace(1000)).until_over()
    assert next(states)[0].state == "running"
    events.append(paths, "run-ended", exit_code=0)
    assert next(states)[0].state == "completed"
    assert slurm.calls == ["jobs"]
    assert clock.time - NOW == timedelta(seconds=LOOK)


def test_an_event_makes_slurm_worth_asking_sooner(make_run: Make, slurm: FakeSlurm, clock: FakeClock) -> None:
    paths = make_run()
    slurm.live = [make_job()]
    watch = Watch([paths], lambda _: slurm, clock, lambda: Pace(2, 600))
    for _ in range(2000):
        watch.look()
        clock.sleep(1)
    asked = len(slurm.calls)
    events.append(paths, "run-ended", exit_code=1)
    slurm.live = [make_job(state="TIMEOUT")]
    watch.look()
    assert len(slurm.calls) > asked


def test_trap_154_an_outage_is_waited_out_in_the_last_known_state(
    make_run: Make, slurm: FakeSlurm, clock: FakeClock
) -> None:
    slurm.live = [make_job()]

    def advance() -> None:
        gone = Unreachable("no answer")
        away = timedelta(minutes=1) < clock.time - NOW < timedelta(hours=1)
        slurm.live, slurm.past = (gone, gone) if away else ([make_job()], [])
        if clock.time - NOW > timedelta(hours=2):
            slurm.live = [make_job(state="COMPLETED", exit_code="0:0")]

    clock.on_sleep = advance
    watch = Watch([make_run()], lambda _: slurm, clock)
    seen = [(states[0].state, watch.silent) for states in watch.until_over()]
    assert set(seen) == {("running", None), ("running", "slurmctld and slurmdbd"), ("completed", None)}


def test_a_submit_is_given_up_only_where_slurm_was_asked_after_the_grace(
    make_run: Make, slurm: FakeSlurm, clock: FakeClock
) -> None:
    watch = Watch([make_run("mine", job_id=None)], lambda _: slurm, clock, lambda: Pace(60, 60))
    clock.time = NOW + SUBMIT_GRACE - timedelta(seconds=10)
    assert watch.look()[0].state == "submitting"
    clock.time = NOW + SUBMIT_GRACE + timedelta(seconds=10)
    slurm.live = [make_job("78", comment="slurmkit:mine")]
    assert watch.look()[0].state == "submitting"
    clock.sleep(60)
    assert watch.look()[0].job_id == "78"


def test_runs_that_have_ended_need_no_slurm_and_no_waiting(
    make_run: Make, slurm: FakeSlurm, clock: FakeClock
) -> None:
    runs = [make_run(f"r-{number}", ("run-ended", {"exit_code": 0})) for number in range(3)]
    assert len(list(Watch(runs, lambda _: slurm, clock).until_over())) == 1
    assert (slurm.calls, clock.time) == ([], NOW)


def test_answers_that_others_got_will_do_but_never_the_last_one_of_ones_own(
    make_run: Make, slurm: FakeSlurm, clock: FakeClock
) -> None:
    slurm.live = [make_job()]
    watch = Watch([make_run()], lambda _: slurm, clock, lambda: Pace(10, 60))
    asked: list[float] = []
    for _ in range(300):
        watch.look()
        if len(slurm.ages) > len(asked):
            asked.append(clock.monotonic())
        clock.sleep(1)
    gaps = [after - before for before, after in pairwise(asked)]
    assert len(gaps) > 3
    for gap, age in zip(gaps, slurm.ages[1:], strict=True):
        assert gap / 2 < age < gap


def test_without_accounting_slurm_is_asked_twice_within_min_job_age(
    make_run: Make, slurm: FakeSlurm, clock: FakeClock
) -> None:
    slurm.live = [make_job()]
    slurm.configuration = {"AccountingStorageType": "accounting_storage/none", "MinJobAge": "20 sec"}
    watch = Watch([make_run()], lambda _: slurm, clock)
    asked: list[float] = []
    for _ in range(300):
        watch.look()
        if len(slurm.calls) > len(asked):
            asked.append(clock.monotonic())
        clock.sleep(LOOK)
    assert max(after - before for before, after in pairwise(asked)) == 10
