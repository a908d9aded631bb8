from __future__ import annotations

from slurmkit.recovery.hang import HangWatch


def watch(*, given: float | None = None, step_seconds: float | None = 1.0, saving: bool = False) -> HangWatch:
    opened = HangWatch(0.0, given)
    opened.progress(0.0)
    opened.step_seconds = step_seconds
    opened.is_saving = saving
    return opened


def first_hang(opened: HangWatch, until: int) -> int | None:
    return next((second for second in range(1, until) if opened.tick(second)), None)


def test_twenty_steps_and_no_less_than_five_minutes() -> None:
    assert first_hang(watch(), 1000) == 301
    assert first_hang(watch(step_seconds=30), 1000) == 601


def test_a_checkpoint_may_take_longer_but_not_than_the_job_file_says() -> None:
    assert first_hang(watch(saving=True), 3000) == 1801
    assert first_hang(watch(saving=True, given=60), 3000) == 61


def test_a_program_whose_ranks_have_all_ended_does_not_hang() -> None:
    opened = watch()
    opened.all_ended = True
    assert first_hang(opened, 1000) is None


def test_the_time_in_which_the_job_was_suspended_does_not_count() -> None:
    opened = watch(given=60)
    assert first_hang(opened, 50) is None
    assert opened.tick(50 + 7200) is None
    assert opened.tick(50 + 7200 + 9) is None
    assert opened.tick(50 + 7200 + 20) is not None


def test_a_clock_that_is_set_back_makes_no_hang_and_hides_none() -> None:
    opened = watch(given=20)
    assert first_hang(opened, 10) is None
    assert opened.tick(-3600) is None
    assert [opened.tick(-3600 + second) is not None for second in (5, 12)] == [False, True]
