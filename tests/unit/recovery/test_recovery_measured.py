"""What the cost of a run is reckoned from, beside its events."""

from __future__ import annotations

from slurmkit.recovery.summary import measured
from slurmkit.recovery.tally import Tally

START = 1_800_000_000.0


def told(rank: int, at: float, steps: int, **more: object) -> dict[str, object]:
    return {"rank": rank, "host": "n1", "time": at, "step": steps, "steps": steps, **more}


def test_it_computes_since_the_first_step_of_any_rank() -> None:
    tally = Tally()
    tally.add(told(0, START + 30, 3, elapsed=20.0), START + 30)
    tally.add(told(1, START + 31, 3, elapsed=20.0), START + 31)
    tally.add(told(0, START + 60, 9, elapsed=50.0), START + 60)
    assert measured(tally)["computing_since"] == START + 10


def test_saving_takes_as_long_as_the_rank_that_saves_longest() -> None:
    tally = Tally()
    tally.add(told(0, START, 3, seconds={"checkpoint": 2.5}), START)
    tally.add(told(1, START, 3, seconds={"sync": 2.5}), START)
    assert measured(tally)["saving"] == 2.5


def test_before_any_step_nothing_is_known() -> None:
    tally = Tally()
    tally.add(told(0, START, 0), START)
    assert measured(tally) == {"computing_since": None, "saving": None}
