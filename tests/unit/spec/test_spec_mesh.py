from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from slurmkit.errors import JobFileError
from slurmkit.launch.mesh import Mesh
from slurmkit.spec import load
from slurmkit.spec.mesh import layout_problems, mesh_of, mesh_text, node_of_rank, world_size
from slurmkit.spec.model import Parallel

if TYPE_CHECKING:
    from pathlib import Path

    from slurmkit.spec.loading import Loaded


def loaded(tmp_path: Path, parallel: str, resources: str = 'nodes = 2\ngpus_per_node = "a100:8"') -> Loaded:
    path = tmp_path / "job.toml"
    path.write_text(f'name = "m"\ncommand = "true"\n[resources]\n{resources}\n[parallel]\n{parallel}\n')
    return load(path, site=None, user=None)


@pytest.mark.parametrize(
    "parallel",
    [
        "tensor = 8",
        "tensor = 4\npipeline = 2",
        "tensor = 8\ndata = 2",
        "pipeline = 2\nexpert = 8",
        "",
        "tensor = 3\nallow_cross_node = true\ndata = 4",
    ],
)
def test_a_mesh_that_comes_out_is_sound(tmp_path: Path, parallel: str) -> None:
    resources = (
        'nodes = 2\ngpus_per_node = "a100:6"' if "3" in parallel else 'nodes = 2\ngpus_per_node = "a100:8"'
    )
    assert loaded(tmp_path, parallel, resources).spec.parallel is not None


@pytest.mark.parametrize(
    ("parallel", "said"),
    [
        ("tensor = 3", "tensor 3 does not divide the 16 ranks of the step; 15 or 18 ranks would fit"),
        ("tensor = 3", "with the others as they are, tensor = 1, 2, 4, 8 or 16 would fit"),
        (
            "tensor = 4\npipeline = 5",
            "tensor 4 x pipeline 5 does not divide the 16 ranks of the step; 20 ranks would fit",
        ),
        ("tensor = 4\npipeline = 5", "with the others as they are, pipeline = 1, 2 or 4 would fit"),
        ("tensor = 4\ndata = 2", "tensor 4 x data 2 makes 8 ranks, the step has 16"),
        ("tensor = 4\ndata = 2", "leave data out, which is what is left, or say data = 4"),
        ("data = 3\npipeline = 3", "data 3 x pipeline 3 makes 9 ranks, the step has 16"),
        ("expert = 3", "expert = 3 does not divide context x data = 16"),
        ("expert = 3", "with the others as they are, expert = 1, 2, 4, 8 or 16 would fit"),
        (
            "tensor = 16",
            "the tensor group of ranks 0 to 15 is spread over 2 nodes: the ranks of such a group exchange",
        ),
        ("tensor = 16", "a node has 8 ranks: tensor = 2, 4 or 8 stays within one; or say allow_cross_node"),
        ('tensor = 2\norder = ["data", "tensor"]', "(8 such groups)"),
        ('tensor = 2\norder = ["data", "tensor"]', "data varies faster: put tensor first in parallel.order"),
        ('order = ["data", "data"]', "an axis is named twice: data"),
        ('order = ["expert", "data"]', "leave expert out"),
        ('tensor = 2\norder = ["tensor"]', "data left out; name every axis of more than one rank"),
    ],
)
def test_what_does_not_come_out_is_said_with_what_is_right(tmp_path: Path, parallel: str, said: str) -> None:
    with pytest.raises(JobFileError) as caught:
        loaded(tmp_path, parallel)
    assert said in str(caught.value)
    assert "job.toml:" in str(caught.value)


@pytest.mark.parametrize(
    ("resources", "rest", "said"),
    [
        ('distribution = "cyclic"', "", "distribution = cyclic deals neighbours to different nodes"),
        ('distribution = "cyclic:block"', "", "distribution = cyclic deals"),
        ('distribution = "plane=2"', "", "ranks 0 to 7 is spread over 2 nodes"),
        ("", '[launch]\nsrun = ["-m", "cyclic"]', "distribution = cyclic deals"),
        ("", '[launch]\nsrun = ["-mcyclic"]', "distribution = cyclic deals"),
        ("", '[launch]\nsrun = ["--distribution=plane=4"]', "distribution = plane=4 deals"),
    ],
)
def test_a_distribution_may_take_tensor_groups_apart(
    tmp_path: Path, resources: str, rest: str, said: str
) -> None:
    with pytest.raises(JobFileError) as caught:
        loaded(tmp_path, f"tensor = 8\n{rest}", f"nodes = 2\nntasks = 16\nntasks_per_node = 8\n{resources}")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("resources", "nodes"),
    [
        ("nodes = 2\ngpus_per_node = 4", [0, 0, 0, 0, 1, 1, 1, 1]),
        ('nodes = 2\ngpus_per_node = 4\ndistribution = "block:cyclic"', [0, 0, 0, 0, 1, 1, 1, 1]),
        ('nodes = 2\ngpus_per_node = 4\ndistribution = "cyclic"', [0, 1, 0, 1, 0, 1, 0, 1]),
        ('nodes = 2\ngpus_per_node = 4\ndistribution = "plane=2"', [0, 0, 1, 1, 0, 0, 1, 1]),
        # What Slurm would make of these is for Slurm to say.
        ('nodes = 2\ngpus_per_node = 4\ndistribution = "plane=3"', None),
        ('nodes = 2\ngpus_per_node = 4\ndistribution = "arbitrary"', None),
        ("nodes = 2\nntasks = 8", None),
        ("nodes = 1\nntasks = 3", [0, 0, 0]),
    ],
)
def test_ranks_lie_as_the_distribution_deals_them(
    tmp_path: Path, resources: str, nodes: list[int] | None
) -> None:
    spec = loaded(tmp_path, "", resources).spec
    assert node_of_rank(spec, world_size(spec) or 0) == nodes


def test_under_torchrun_ranks_lie_node_by_node_whatever_the_tasks_do(tmp_path: Path) -> None:
    resources = 'nodes = 2\ngpus_per_node = 2\ndistribution = "cyclic"'
    spec = loaded(tmp_path, 'tensor = 2\n[launch]\nlauncher = "torchrun"', resources).spec
    assert node_of_rank(spec, 4) == [0, 0, 1, 1]


@pytest.mark.parametrize("order", ["", '\norder = ["tensor", "data"]'])
def test_a_tensor_size_that_fits_no_node_is_wrong_on_any_number_of_them(tmp_path: Path, order: str) -> None:
    with pytest.raises(JobFileError) as caught:
        loaded(tmp_path, f"tensor = 16{order}", 'nodes = "2-4"\ngpus_per_node = 8')
    assert "parallel.tensor: groups of 16 ranks cross nodes of 8" in str(caught.value)
    assert "tensor = 1, 2, 4 or 8 stays within a node; or say allow_cross_node" in str(caught.value)


def test_under_torchrun_the_ranks_are_the_gpus(tmp_path: Path) -> None:
    with pytest.raises(JobFileError, match="tensor 3 does not divide the 16 ranks"):
        loaded(tmp_path, 'tensor = 3\n[launch]\nlauncher = "torchrun"')


def test_what_the_job_file_leaves_open_is_left_to_the_launch(tmp_path: Path) -> None:
    resources = 'nodes = "1-4"\ngpus_per_node = 8'
    assert loaded(tmp_path, "tensor = 8\npipeline = 3", resources).spec.parallel is not None


def test_a_world_that_no_machine_has_is_checked_by_its_numbers_alone(tmp_path: Path) -> None:
    resources = "nodes = 1000000000\nntasks_per_node = 1000000007"
    assert loaded(tmp_path, "tensor = 8", resources.replace("7", "8")).spec.parallel is not None
    with pytest.raises(JobFileError, match="tensor 3 does not divide"):
        loaded(tmp_path, "tensor = 3", resources)


def test_data_is_what_is_left() -> None:
    assert mesh_of(Parallel(tensor=4, pipeline=2), 32) == Mesh({"tensor": 4, "pipeline": 2, "data": 4})


def test_the_real_layout_is_checked_with_its_uneven_nodes() -> None:
    parallel = Parallel(tensor=4)
    nodes = ["n1"] * 6 + ["n2"] * 2
    problems = layout_problems(parallel, mesh_of(parallel, 8), nodes)
    assert len(problems) == 1
    assert problems[0].startswith("the tensor group of ranks 4 to 7 is spread over 2 nodes: ")
    assert problems[0].endswith("; [parallel] allow_cross_node = true lets it be")
    assert layout_problems(parallel, mesh_of(parallel, 4), nodes) == ["the mesh has 4 ranks, the step has 8"]
    assert layout_problems(Parallel(tensor=4, allow_cross_node=True), mesh_of(parallel, 8), nodes) == []


def test_the_ranks_are_told_the_mesh_as_text(tmp_path: Path) -> None:
    spec = loaded(tmp_path, "tensor = 4\npipeline = 2").spec
    assert mesh_text(spec, 16) == (
        "order=tensor,context,data,pipeline;tensor=4;context=1;data=2;pipeline=2;expert=1"
    )
    assert mesh_text(msgspec.structs.replace(spec, parallel=None), 16) is None
