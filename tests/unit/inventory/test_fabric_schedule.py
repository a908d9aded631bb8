from __future__ import annotations

import ast
from itertools import chain, combinations
from pathlib import Path

import pytest

from slurmkit.inventory import fabric_program
from slurmkit.inventory.fabric_schedule import fitting, packed, rounds, sizes

COUNTS = range(1, 18)


@pytest.mark.parametrize("count", COUNTS)
def test_every_pair_comes_exactly_once(count: int) -> None:
    assert sorted(chain(*rounds(count))) == list(combinations(range(count), 2))


@pytest.mark.parametrize("count", COUNTS)
def test_no_node_has_two_pairs_in_one_round(count: int) -> None:
    for pairs in rounds(count):
        nodes = list(chain(*pairs))
        assert len(set(nodes)) == len(nodes) == count // 2 * 2


@pytest.mark.parametrize("count", COUNTS)
def test_there_are_no_more_rounds_than_needed(count: int) -> None:
    assert len(rounds(count)) == (0 if count == 1 else count - 1 + count % 2)


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([], []),
        ([(0, 1)], [[(0, 1)]]),
        ([(0, 1), (0, 2), (2, 3)], [[(0, 1), (2, 3)], [(0, 2)]]),
        ([(0, 1), (2, 3)], [[(0, 1), (2, 3)]]),
    ],
)
def test_chosen_pairs_are_packed_into_disjoint_rounds(
    pairs: list[tuple[int, int]], expected: list[list[tuple[int, int]]]
) -> None:
    assert packed(pairs) == expected


@pytest.mark.parametrize(
    ("largest", "expected"),
    [
        (1024, [1024]),
        (1025, [1024, 1025]),
        (16384, [1024, 4096, 16384]),
        (20000, [1024, 4096, 16384, 20000]),
        (1, [1024]),
    ],
)
def test_sizes_grow_fourfold_up_to_the_largest(largest: int, expected: list[int]) -> None:
    assert sizes(largest) == expected


@pytest.mark.parametrize(("seconds", "expected"), [(0.0, 20), (0.01, 20), (0.5, 4), (1.9, 1), (60.0, 1)])
def test_what_takes_long_is_repeated_less(seconds: float, expected: int) -> None:
    assert fitting(20, seconds) == expected


@pytest.mark.parametrize(
    "name", ["fabric_program", "fabric_measure", "fabric_schedule", "fabric_transport", "__init__"]
)
def test_what_the_users_python_runs_is_python_3_8(name: str) -> None:
    source = Path(fabric_program.__file__).with_name(f"{name}.py").read_text()
    ast.parse(source, feature_version=(3, 8))
