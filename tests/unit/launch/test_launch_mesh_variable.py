"""SLURMKIT_MESH reaches the program of each rank, where the job has a mesh."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.unit.launch.conftest import Parent

TWO_BY_TWO = {
    "SLURMKIT_PARALLEL": ("order=tensor,context,data,pipeline;tensor=2;context=1;pipeline=1;expert=1;data=2")
}


def test_a_rank_learns_its_place(parent: Parent) -> None:
    _, out, _ = parent.run("printenv", "SLURMKIT_MESH", environ=TWO_BY_TWO)
    mesh = json.loads(out)
    assert mesh["coordinates"]["tensor"] == 1
    assert mesh["groups"]["tensor"] == [2, 3]
    assert mesh["groups"]["data"] == [1, 3]


def test_without_a_mesh_there_is_no_variable(parent: Parent) -> None:
    assert parent.run("printenv", "SLURMKIT_MESH")[0] == 1


def test_under_torchrun_the_task_is_no_rank(parent: Parent) -> None:
    environ = TWO_BY_TWO | {"SLURMKIT_LAUNCHER": "torchrun"}
    assert parent.run("printenv", "SLURMKIT_MESH", environ=environ)[0] == 1


@pytest.mark.parametrize("text", ["nonsense", "order=tensor;tensor=2"])
def test_a_rank_without_a_place_does_not_start(parent: Parent, text: str) -> None:
    code, _, err = parent.run("true", environ={"SLURMKIT_PARALLEL": text})
    assert code == 125
    assert err.startswith("slurmkit: no place in the mesh: ")
