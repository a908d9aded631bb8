"""Generic resources of nodes by their types."""

from __future__ import annotations

import pytest

from slurmkit.slurm.gres import by_type


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("gpu:turing:1,gpu:ampere:3", {"turing": 1, "ampere": 3}),
        ("gpu:ampere:6(S:0-1),gpu:1g.10gb:28(S:0-1)", {"ampere": 6, "1g.10gb": 28}),
        ("gpu:h100:3(IDX:0,4-5),shard:h100:2", {"h100": 3}),
        ("gpu:a100:2(IDX:0-1),gpu:a100:1", {"a100": 3}),
        ("gpu:8", {"": 8}),
        ("gpu", {"": 1}),
        ("gpu:tesla:no_consume:2", {"tesla": 2}),
        ("(null)", {}),
        (None, {}),
    ],
)
def test_gpus_of_a_node_stand_under_their_types(text: str | None, found: dict[str, int]) -> None:
    assert by_type(text) == found
