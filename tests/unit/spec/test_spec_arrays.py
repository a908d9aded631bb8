"""Job arrays against what a cluster takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmkit.spec.arrays import beyond_limit, chunks, parse_array


@pytest.mark.parametrize(
    ("text", "indices", "throttle"),
    [
        ("0-3", (0, 1, 2, 3), None),
        ("0-15:4", (0, 4, 8, 12), None),
        ("1,3,7", (1, 3, 7), None),
        ("[0-3]%2", (0, 1, 2, 3), 2),
        ("0-1, 5 %1", (0, 1, 5), 1),
    ],
)
def test_indices_are_read_as_sbatch_reads_them(
    text: str, indices: tuple[int, ...], throttle: int | None
) -> None:
    tasks = parse_array(text)
    assert tasks.indices == indices
    assert tasks.throttle == throttle


@pytest.mark.parametrize(
    "text", ["", "a", "1-", "-1", "3-1", "0-9:0", "0-9%", "0-9%x", "5000000", "0-9%0", "1;2"]
)
def test_what_is_no_array_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"0-99%10|at least 1"):
        parse_array(text)


@pytest.mark.parametrize(
    ("text", "taken"),
    [("0-100", True), ("0", True), ("1-101", False), ("101", False), ("50-101", False)],
)
def test_trap_132_the_limit_bounds_the_index(text: str, taken: bool) -> None:
    assert (beyond_limit(parse_array(text), 101) is None) is taken


@given(st.integers(1, 2_000), st.integers(1, 300))
def test_trap_132_chunks_run_every_task_once(count: int, limit: int) -> None:
    parts = chunks(count, limit)
    assert sorted(offset + index for offset, tasks in parts for index in tasks) == list(range(count))
    assert all(beyond_limit(tasks, limit) is None for _, tasks in parts)
