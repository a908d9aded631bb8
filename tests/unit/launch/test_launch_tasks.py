from __future__ import annotations

import pytest

from slurmkit.launch.tasks import tasks_per_node


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("4(x2)", [4, 4]),
        ("4(x2),2", [4, 4, 2]),
        ("2(x3),1", [2, 2, 2, 1]),
        ("8", [8]),
        ("1,3(x2)", [1, 3, 3]),
    ],
)
def test_trap_082_tasks_per_node_notation(text: str, counts: list[int]) -> None:
    assert tasks_per_node(text) == counts


@pytest.mark.parametrize("text", ["", "4(x2", "4(2)", "(x2)", "4(x)", "0", "-1", "a", "4,,2", "4(x0)"])
def test_trap_082_what_is_no_task_count_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="task count"):
        tasks_per_node(text)
