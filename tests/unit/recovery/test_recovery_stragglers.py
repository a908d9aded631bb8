from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from slurmkit.recovery.stragglers import PARTS, Sample, Slow, find_slow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

USUAL = {"data": 0.1, "compute": 0.9}
SLOW = {"data": 0.1, "compute": 1.2}


def samples(ranks: int, slow: Mapping[int, Sequence[Mapping[str, float] | None]]) -> dict[int, Sample]:
    """Ranks, two to a host, that spend the usual time but for those named."""
    return {
        rank: Sample(host=f"n{rank // 2}", parts=slow.get(rank, [USUAL] * PARTS)) for rank in range(ranks)
    }


def named(found: Sequence[Slow]) -> list[int | str]:
    return [one.host if one.rank is None else one.rank for one in found]


@pytest.mark.parametrize(
    ("ranks", "slow", "expected"),
    [
        (8, {}, []),
        (8, {3: [SLOW] * 6}, [3]),
        (2, {1: [SLOW] * 6}, [1]),
        (3, {1: [SLOW] * 6}, [1]),
        (1, {0: [SLOW] * 6}, []),
        # One slow step spoils a part or two; what is over is over.
        (8, {3: [USUAL] * 4 + [SLOW] * 2}, []),
        (8, {3: [USUAL] * 2 + [SLOW] * 4}, [3]),
        (8, {3: [SLOW] * 5 + [USUAL]}, []),
        (8, {3: [SLOW] * 3 + [USUAL] + [SLOW] * 2}, []),
        # Too little is known of it.
        (8, {3: [None] * 2 + [SLOW] * 4}, []),
        (8, {3: [None] + [SLOW] * 5}, [3]),
        # Both of a host: the host. All of every host, or every second one: that is how the work is cut.
        (8, {2: [SLOW] * 6, 3: [SLOW] * 6}, ["n1"]),
        (8, dict.fromkeys(range(8), [SLOW] * 6), []),
        (16, dict.fromkeys(range(0, 16, 2), [SLOW] * 6), []),
    ],
)
def test_who_is_slow(
    ranks: int, slow: dict[int, list[Mapping[str, float] | None]], expected: list[int | str]
) -> None:
    assert named(find_slow(samples(ranks, slow), {})) == expected


@pytest.mark.parametrize("phase", ["data", "compute", "step"])
def test_the_phase_to_blame_is_the_one_that_is_longest_beyond_the_others(phase: str) -> None:
    slow = {**USUAL, phase: USUAL.get(phase, 0.0) + 0.4}
    (one,) = find_slow(samples(8, {5: [slow] * 6}), {})
    assert one.phase == phase
    assert one.own == pytest.approx(1.4)
    assert one.median == pytest.approx(1.0)


def test_a_straggler_is_one_until_it_is_well_below_the_limit() -> None:
    (one,) = find_slow(samples(8, {5: [SLOW] * 6}), {})
    nearly, fine = {"compute": 1.1}, {"compute": 1.05}
    assert find_slow(samples(8, {5: [nearly] * 6}), {}) == []
    assert named(find_slow(samples(8, {5: [nearly] * 6}), {one.key: one})) == [5]
    assert find_slow(samples(8, {5: [fine] * 6}), {one.key: one}) == []


def test_where_all_differ_much_nobody_is_beyond_the_others() -> None:
    spread = {rank: [{"compute": 1 + rank / 10}] * 6 for rank in range(8)}
    assert find_slow(samples(8, spread), {}) == []


def test_a_phase_that_takes_no_time_at_all_is_no_measure() -> None:
    nothing = dict.fromkeys(range(8), [{"compute": 0.0}] * 6)
    assert find_slow(samples(8, nothing), {}) == []
