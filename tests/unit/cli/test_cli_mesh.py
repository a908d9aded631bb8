"""`slurmkit mesh`: nodes as rows, ranks as cells, groups by letter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import pytest

from slurmkit.cli.mesh import COLOURS, grid, letter

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.conftest import Slurmkit

JOB = """\
name = "m"
command = "true"
[resources]
nodes = 2
gpus_per_node = "a100:4"
[parallel]
tensor = 2
"""


@pytest.fixture
def mesh_job(place: Path) -> str:
    (place / "mesh.toml").write_text(JOB)
    return "mesh.toml"


def test_nodes_are_rows_and_groups_have_letters(slurmkit: Slurmkit, mesh_job: str) -> None:
    done = slurmkit("mesh", mesh_job)
    assert done.code == 0
    assert done.out.splitlines() == [
        "8 ranks on 2 nodes; from neighbours outwards: tensor 2, context 1, data 4, pipeline 1",
        "",
        "tensor: 4 groups of 2 ranks, each within a node",
        "node 0   A 0  A 1  B 2  B 3 ",
        "node 1   C 4  C 5  D 6  D 7 ",
        "",
        "data: 2 groups of 4 ranks, all across nodes",
        "node 0   A 0  B 1  A 2  B 3 ",
        "node 1   A 4  B 5  A 6  B 7 ",
    ]


def test_one_axis_may_be_asked_for(slurmkit: Slurmkit, mesh_job: str) -> None:
    done = slurmkit("mesh", mesh_job, "--axis", "data")
    assert "tensor:" not in done.out
    assert "not drawn: tensor (--axis)" in done.out
    assert [len(slurmkit("mesh", mesh_job, "--axis", "pipeline", "--json").json["groups"])] == [1]


def test_as_json_it_is_complete(slurmkit: Slurmkit, mesh_job: str) -> None:
    told = slurmkit("mesh", mesh_job, "--json").json
    assert told["world_size"] == 8
    assert told["sizes"] == {"tensor": 2, "context": 1, "data": 4, "pipeline": 1, "expert": 1}
    assert told["nodes"] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert told["groups"]["data"] == [[0, 2, 4, 6], [1, 3, 5, 7]]


@pytest.mark.parametrize(
    ("distribution", "row"),
    [("cyclic", "node 0   A 0  A 2  A 4  A 6 "), ("plane=2", "node 0   A 0  A 1  A 4  A 5 ")],
)
def test_another_distribution_lays_ranks_elsewhere(
    slurmkit: Slurmkit, mesh_job: str, distribution: str, row: str
) -> None:
    words = ["--set", "parallel.tensor=1", "--set", f'resources.distribution="{distribution}"']
    assert row in slurmkit("mesh", mesh_job, *words, "--axis", "data").out.splitlines()


def test_of_many_nodes_the_first_are_drawn(slurmkit: Slurmkit, mesh_job: str) -> None:
    words = ("mesh", mesh_job, "--set", "resources.nodes=100")
    done = slurmkit(*words)
    assert "node 63 " in done.out
    assert "node 64 " not in done.out
    assert "and 36 nodes more (--all)" in done.out
    assert "not drawn: data (--axis)" in done.out
    assert "node 99 " in slurmkit(*words, "--all").out


def test_ranks_that_a_line_cannot_hold_go_on_beneath(
    slurmkit: Slurmkit, mesh_job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    done = slurmkit("mesh", mesh_job, "--set", "resources.gpus_per_node=20", "--axis", "tensor")
    lines = done.out.splitlines()
    assert max(map(len, lines[1:])) <= 60
    assert lines[3].startswith("node 0   A  0 ")
    assert lines[4].startswith("         E  8 ")
    assert lines[6].startswith("node 1   K 20 ")


def test_without_a_mesh_all_ranks_are_replicas(slurmkit: Slurmkit, place: Path) -> None:
    (place / "plain.toml").write_text(JOB.partition("[parallel]")[0])
    assert "data: 1 group of 8 ranks, across nodes" in slurmkit("mesh", "plain.toml").out


@pytest.mark.parametrize(
    ("resources", "told"),
    [
        ('nodes = "2-4"\ngpus_per_node = 8', "does not say how many ranks there are"),
        ("nodes = 2\nntasks = 7", "which of the 7 ranks are on which node is open"),
    ],
)
def test_a_world_that_is_open_is_an_error_with_a_way_out(
    slurmkit: Slurmkit, place: Path, resources: str, told: str
) -> None:
    (place / "open.toml").write_text(f'name = "m"\ncommand = "true"\n[resources]\n{resources}\n')
    done = slurmkit("mesh", "open.toml")
    assert done.code == 2
    assert told in done.err


def test_colours_follow_the_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    (line,) = grid([[0, 1], [2, 3]], [[0, 1, 2, 3]])
    assert line.count(f"48;5;{COLOURS[0]}m") == line.count(f"48;5;{COLOURS[1]}m") == 2
    monkeypatch.setenv("NO_COLOR", "1")
    assert list(grid([[0, 1], [2, 3]], [[0, 1, 2, 3]])) == [click.unstyle(line)]


@pytest.mark.parametrize(("number", "name"), [(0, "A"), (25, "Z"), (26, "AA"), (27, "AB"), (702, "AAA")])
def test_groups_are_named_like_columns_of_a_sheet(number: int, name: str) -> None:
    assert letter(number) == name
