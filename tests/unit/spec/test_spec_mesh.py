from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from slurmkit.errors import JobFileError
from slurmkit.launch.mesh import Mesh
from slurmkit.spec import load
from slurmkit.spec.mesh import layout_problems, mesh_of
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
        (
            "tensor = 4\npipeline = 5",
            "tensor 4 x pipeline 5 does not divide the 16 ranks of the step; 20 ranks would fit",
        ),
        (
            "tensor = 4\ndata = 2",
            "tensor 4 x data 2 makes 8 ranks, the step has 16; data left out is what is left",
        ),
        ("expert = 3", "expert = 3 does not divide context x data = 16"),
        (
            "tensor = 16",
            "the tensor group of ranks 0 to 15 is spread over 2 nodes: its ranks exchange data",
        ),
        ('tensor = 2\norder = ["data", "tensor"]', "(8 such groups)"),
        ('order = ["data", "data"]', "an axis is named twice"),
        ('order = ["expert", "data"]', "leave expert out"),
        ('tensor = 2\norder = ["tensor"]', "data left out; name every axis of more than one rank"),
    ],
)
def test_what_does_not_come_out_is_said_with_what_is_right(tmp_path: Path, parallel: str, said: str) -> None:
    with pytest.raises(JobFileError) as caught:
        loaded(tmp_path, parallel)
    assert said in str(caught.value)
    assert "job.toml:" in str(caught.value)


def test_a_cyclic_distribution_takes_tensor_groups_apart(tmp_path: Path) -> None:
    resources = 'nodes = 2\nntasks = 16\nntasks_per_node = 8\ndistribution = "cyclic"'
    with pytest.raises(JobFileError, match="ranks 0 to 7 is spread over 2 nodes"):
        loaded(tmp_path, "tensor = 8", resources)


def test_under_torchrun_the_ranks_are_the_gpus(tmp_path: Path) -> None:
    with pytest.raises(JobFileError, match="tensor 3 does not divide the 16 ranks"):
        loaded(tmp_path, 'tensor = 3\n[launch]\nlauncher = "torchrun"')


def test_what_the_job_file_leaves_open_is_left_to_the_launch(tmp_path: Path) -> None:
    assert loaded(tmp_path, "tensor = 3", 'nodes = "1-4"\ngpus_per_node = 8').spec.parallel is not None


def test_data_is_what_is_left() -> None:
    assert mesh_of(Parallel(tensor=4, pipeline=2), 32) == Mesh({"tensor": 4, "pipeline": 2, "data": 4})


def test_the_real_layout_is_checked_with_its_uneven_nodes() -> None:
    parallel = Parallel(tensor=4)
    nodes = ["n1"] * 6 + ["n2"] * 2
    problems = layout_problems(parallel, mesh_of(parallel, 8), nodes)
    assert len(problems) == 1
    assert problems[0].startswith("the tensor group of ranks 4 to 7 is spread over 2 nodes: ")
    assert layout_problems(Parallel(tensor=4, allow_cross_node=True), mesh_of(parallel, 8), nodes) == []
