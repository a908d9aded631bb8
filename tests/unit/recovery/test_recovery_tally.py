from __future__ import annotations

import pytest

from slurmkit.recovery.tally import BUCKET, BUCKETS, MOST_NAMES, Stretch, Tally, bucket_of

START = 50_000.0


def told(steps: int, at: float, **more: object) -> dict[str, object]:
    return {"rank": 0, "host": "n0", "time": at, "step": steps, "steps": steps, "elapsed": at - START, **more}


def filled(seconds: int, **more: object) -> Tally:
    tally = Tally()
    for second in range(1, seconds + 1):
        tally.add(told(second, START + second, seconds={"compute": second * 0.5}, **more), START + second)
    return tally


def test_any_stretch_of_the_past_is_a_difference() -> None:
    stretch = filled(100).stretches(bucket_of(START + 20), bucket_of(START + 50))[0]
    assert (stretch.steps, stretch.elapsed, stretch.seconds) == (30, 30.0, {"compute": 15.0})


def test_datagrams_may_be_lost_or_come_late() -> None:
    tally = Tally()
    for second in (1, 40, 39, 41, 100):
        tally.add(told(second, START + second), START + 45)
    assert tally.ranks[0].steps == 100
    assert tally.add(told(41, START + 41), START + 101) is False


def test_an_hour_is_kept_and_no_more() -> None:
    tally = Tally()
    for second in range(0, 3 * BUCKETS * BUCKET, BUCKET):
        tally.add(told(second + 1, START + second), START + second)
    end = bucket_of(START + 3 * BUCKETS * BUCKET) - 1
    assert tally.stretches(end - BUCKETS + 1, end)[0].steps == (BUCKETS - 1) * BUCKET
    assert tally.stretches(end - 2 * BUCKETS, end) == {}


def test_a_rank_without_a_step_in_a_stretch_is_not_in_it() -> None:
    assert filled(30).stretches(bucket_of(START + 60), bucket_of(START + 90)) == {}


def test_a_phase_first_heard_of_late_began_with_nothing() -> None:
    tally = filled(20)
    tally.add(told(30, START + 30, seconds={"compute": 10.0, "data": 4.0}), START + 30)
    assert tally.stretches(bucket_of(START), bucket_of(START + 30))[0].seconds["data"] == 4.0


@pytest.mark.parametrize(
    ("seconds", "own"),
    [
        ({"data": 1.0, "compute": 3.0, "sync": 5.0, "checkpoint": 7.0}, {"data": 0.5, "compute": 1.5}),
        ({"sync": 5.0, "checkpoint": 1.0}, {"step": 7.0}),
        ({}, {"step": 10.0}),
    ],
)
def test_own_time_is_what_is_neither_waiting_nor_saving(
    seconds: dict[str, float], own: dict[str, float]
) -> None:
    assert Stretch(steps=2, numbers=2, elapsed=20.0, seconds=seconds).own() == own


def test_the_rate_is_in_steps_as_the_program_numbers_them() -> None:
    assert Stretch(steps=2, numbers=20, elapsed=4.0, seconds={}).rate == 5.0
    assert Stretch(steps=2, numbers=-50, elapsed=4.0, seconds={}).rate == 0.5
    assert Stretch(steps=2, numbers=2, elapsed=0.0, seconds={}).rate is None


def test_names_are_bounded_and_what_is_no_number_is_dropped() -> None:
    tally = Tally()
    metrics = {**{f"m{number}": 1.0 for number in range(100)}, "x" * 9999: 1, "y": "1", "z": True}
    tally.add(told(1, START, metrics=metrics, seconds=[1], **{"in": 5}), START)
    assert len(tally.ranks[0].metrics) == MOST_NAMES
    assert (tally.ranks[0].seconds, tally.ranks[0].phase) == ({}, None)


def test_a_checkpoint_is_noted_when_it_has_ended() -> None:
    tally = Tally()
    for second, count in ((1, 0), (2, 1), (3, 1)):
        tally.add(told(second, START + second, checkpoints=count), START + second)
    assert tally.last_checkpoint == (START + 2, 2)


def test_what_a_rank_tells_itself_goes_before_its_log() -> None:
    tally = filled(3)
    tally.add_step(0, 900, {}, START + 4)
    assert (tally.ranks[0].step, tally.source) == (3, "datagrams")


def test_a_rank_known_by_its_log_is_on_the_host_that_its_parent_told() -> None:
    tally = Tally()
    tally.hosts[4] = "n2"
    tally.add_step(4, 10, {"loss": 1.0}, START)
    tally.add_step(4, 20, {"loss": 0.5}, START + 5)
    one = tally.ranks[4]
    assert (one.host, one.step, one.elapsed, one.metrics) == ("n2", 20, 5.0, {"loss": 0.5})
    assert tally.source == "pattern"
