from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmkit.launch.mesh import AXES, ORDER, Mesh, crossing, parse, variables


@st.composite
def meshes(draw: st.DrawFn) -> Mesh:
    sizes = {axis: draw(st.integers(1, 4)) for axis in ORDER}
    places = sizes["context"] * sizes["data"]
    expert = draw(st.sampled_from([size for size in range(1, places + 1) if places % size == 0]))
    return Mesh({**sizes, "expert": expert}, draw(st.permutations(ORDER)))


@given(meshes())
def test_every_rank_is_in_exactly_one_group_of_each_axis(mesh: Mesh) -> None:
    for axis in AXES:
        members = [rank for group in mesh.groups(axis) for rank in group]
        assert sorted(members) == list(range(mesh.world_size))
        assert {len(group) for group in mesh.groups(axis)} == {mesh.sizes[axis]}


@given(meshes())
def test_ranks_and_coordinates_are_one_to_one_by_the_formula(mesh: Mesh) -> None:
    for rank in range(mesh.world_size):
        at = mesh.coordinates(rank)
        stride, found = 1, 0
        for axis in mesh.order:
            found += at[axis] * stride
            stride *= mesh.sizes[axis]
        assert found == rank


@given(meshes())
def test_the_ranks_of_a_group_differ_in_its_axis_alone_and_stand_in_its_order(mesh: Mesh) -> None:
    for axis in ORDER:
        for group in mesh.groups(axis):
            others = [
                {k: v for k, v in mesh.coordinates(r).items() if k not in {axis, "expert"}} for r in group
            ]
            assert [mesh.coordinates(rank)[axis] for rank in group] == list(range(mesh.sizes[axis]))
            assert all(one == others[0] for one in others)


@given(meshes())
def test_the_text_of_a_mesh_reads_back(mesh: Mesh) -> None:
    assert parse(str(mesh)) == mesh


@given(meshes())
def test_expert_groups_stay_within_one_tensor_and_one_pipeline_coordinate(mesh: Mesh) -> None:
    for group in mesh.groups("expert"):
        places = [mesh.coordinates(rank) for rank in group]
        assert {(at["tensor"], at["pipeline"]) for at in places} == {
            (places[0]["tensor"], places[0]["pipeline"])
        }
        assert [at["expert"] for at in places] == list(range(mesh.sizes["expert"]))


def test_as_megatron_lays_out_16_ranks() -> None:
    """The layout that Megatron-LM's documentation gives for 16 GPUs with tensor 2 and pipeline 4."""
    mesh = Mesh({"tensor": 2, "pipeline": 4, "data": 2})
    assert mesh.groups("tensor") == [[rank, rank + 1] for rank in range(0, 16, 2)]
    assert mesh.groups("data") == [[first + at, first + at + 2] for first in (0, 4, 8, 12) for at in (0, 1)]
    assert mesh.groups("pipeline") == [[at, at + 4, at + 8, at + 12] for at in range(4)]


@pytest.mark.parametrize(
    ("tensor", "context", "data", "pipeline", "expert"),
    [
        (t, c, d, p, e)
        for t, c, d, p in itertools.product((1, 2), (1, 2), (1, 2, 4), (1, 2))
        for e in (1, 2, 4)
        if c * d % e == 0
    ],
)
def test_experts_lie_as_in_megatrons_own_grid_for_them(
    tensor: int, context: int, data: int, pipeline: int, expert: int
) -> None:
    """There the order is tensor, expert, expert-data, pipeline, from the fastest varying on."""
    mesh = Mesh({"tensor": tensor, "context": context, "data": data, "pipeline": pipeline, "expert": expert})
    for rank in range(mesh.world_size):
        assert mesh.coordinates(rank)["expert"] == rank // tensor % expert


def test_expert_groups_of_deepspeeds_example() -> None:
    """World 16 with model 2 and expert 4: consecutive within the data ranks."""
    mesh = Mesh({"tensor": 2, "data": 8, "expert": 4})
    assert mesh.groups("expert") == [[0, 2, 4, 6], [1, 3, 5, 7], [8, 10, 12, 14], [9, 11, 13, 15]]


def test_a_rank_learns_its_place_as_json() -> None:
    told = json.loads(variables(str(Mesh({"tensor": 2, "data": 2})), 3))
    assert told["order"] == ["tensor", "context", "data", "pipeline"]
    assert told["sizes"] == {"tensor": 2, "context": 1, "data": 2, "pipeline": 1, "expert": 1}
    assert told["coordinates"] == {"tensor": 1, "context": 0, "data": 1, "pipeline": 0, "expert": 0}
    assert told["groups"] == {
        "tensor": [2, 3],
        "context": [3],
        "data": [1, 3],
        "pipeline": [3],
        "expert": [3],
    }


@pytest.mark.parametrize("size", [8192, 8193, 1_000_000])
def test_what_a_rank_is_told_fits_a_variable_however_large_the_world(size: int) -> None:
    text = variables(str(Mesh({"data": size, "expert": size, "pipeline": 8})), size - 1)
    assert len(text) < 128 * 1024
    told = json.loads(text)
    assert told["sizes"]["data"] == size
    assert ("data" in told["groups"]) == (size <= 8192)


@pytest.mark.parametrize("rank", [-1, 4])
def test_a_rank_outside_of_the_mesh_has_no_place(rank: int) -> None:
    with pytest.raises(ValueError, match=f"rank {rank} is not in a mesh of 4"):
        variables(str(Mesh({"data": 4})), rank)


@pytest.mark.parametrize(
    ("sizes", "order"),
    [
        ({"data": 0}, ()),
        ({"model": 2}, ()),
        ({}, ("data", "data")),
        ({}, ("expert",)),
        ({"data": 6, "expert": 4}, ()),
    ],
)
def test_what_is_no_mesh_is_refused(sizes: dict[str, int], order: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"."):
        Mesh(sizes, order)


@pytest.mark.parametrize(
    ("sizes", "nodes", "count"),
    [
        ({"tensor": 8}, [rank // 8 for rank in range(8)], 0),
        ({"tensor": 8}, [rank // 4 for rank in range(8)], 1),
        ({"tensor": 8, "data": 2}, [rank % 2 for rank in range(16)], 2),
        ({"tensor": 2, "data": 3}, [0, 0, 0, 1, 1, 1], 1),
    ],
)
def test_a_group_crosses_where_its_ranks_are_on_several_nodes(
    sizes: dict[str, int], nodes: list[int], count: int
) -> None:
    assert len(crossing(Mesh(sizes), "tensor", nodes)) == count
