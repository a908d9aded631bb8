"""Which directives a job has. How each is read back by a real sbatch is for tests/cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slurmkit.errors import UsageError
from slurmkit.script.directives import Directives, directives
from slurmkit.spec.model import JobSpec, Launch
from slurmkit.spec.options import ALLOWED

LOGS = Path("/runs/r-1/logs")
ADDED = ("--output=/runs/r-1/logs/%j.out", "--open-mode=append", "--comment=slurmkit:r-1")


def made(log: Path = LOGS, **sections: Any) -> Directives:
    spec = JobSpec(name=sections.pop("name", "x"), command=("true",), **sections)
    return directives(spec, log=log, run_id="r-1")


def test_a_job_without_options_has_its_name_a_log_and_the_run_id() -> None:
    assert made() == Directives(("--job-name=x", *ADDED), ())


def test_directives_stand_in_the_order_of_the_table_whatever_the_job_files_order() -> None:
    names = ["nodes", "mem", "time", "partition"]
    values: dict[str, Any] = {"time": "1:00:00", "mem": "1M", "nodes": 1, "partition": "p"}
    lines = made(resources=values).lines[1:5]
    assert lines == made(resources=dict(sorted(values.items()))).lines[1:5]
    assert [line[2:].partition("=")[0] for line in lines] == sorted(names, key=ALLOWED.index)


@pytest.mark.parametrize(
    ("resources", "line"),
    [
        ({"comment": "mine"}, '--comment="mine slurmkit:r-1"'),
        ({"output": "logs/%x.out"}, "--output=logs/%x.out"),
        ({"open_mode": "truncate"}, "--open-mode=truncate"),
        ({"array": "0-3"}, "--output=/runs/r-1/logs/%A_%a.out"),
        ({"exclusive": True}, "--exclusive"),
        ({"exclusive": "user"}, "--exclusive=user"),
        ({"nice": -5}, "--nice=-5"),
        ({"nodes": 2, "gpus_per_node": 4}, "--ntasks-per-node=4"),
        ({"nodes": 2, "gpus": 6}, "--ntasks=6"),
    ],
)
def test_an_option_becomes_a_line(resources: dict[str, Any], line: str) -> None:
    assert line in made(resources=resources).lines


@pytest.mark.parametrize(
    "resources",
    [{"ntasks": 4}, {"ntasks_per_node": 4}, {"nodes": 2, "gpus_per_node": 2, "ntasks_per_gpu": 2}, {}],
    ids=str,
)
def test_tasks_that_are_stated_are_not_counted_again(resources: dict[str, Any]) -> None:
    stated = {f"--{name.replace('_', '-')}={value}" for name, value in resources.items()}
    assert {line for line in made(resources=resources).lines if "tasks" in line} == {
        line for line in stated if "tasks" in line
    }


def test_the_tasks_of_the_launch_section_are_asked_for() -> None:
    lines = made(resources={"nodes": 2}, launch=Launch(ntasks_per_node=4)).lines
    assert "--ntasks-per-node=4" in lines


@pytest.mark.parametrize(
    ("resources", "is_asked"),
    [({"nodes": 2, "ntasks_per_node": 4}, False), ({"ntasks": 8}, True), ({"nodes": 2, "gpus": 8}, True)],
    ids=str,
)
def test_a_plane_is_left_to_srun_where_sbatch_does_not_hear_how_many_tasks_there_are(
    resources: dict[str, Any], is_asked: bool
) -> None:
    asked = "--distribution=plane=2" in made(resources=resources | {"distribution": "plane=2"}).lines
    assert asked is is_asked


@pytest.mark.parametrize(
    ("resources", "lines"),
    [
        ({"nodes": 2, "gpus_per_node": "a100:4"}, ["--gpus-per-node=a100:4", "--ntasks-per-node=4"]),
        ({"nodes": 2, "ntasks": 5}, ["--ntasks-per-node=3"]),
        ({"nodes": 2, "gpus": "a100:4"}, ["--gpus-per-node=a100:2", "--ntasks-per-node=2"]),
        ({"nodes": 2, "gpus_per_node": 2, "ntasks_per_gpu": 2}, ["--gpus-per-node=2", "--ntasks-per-gpu=2"]),
    ],
    ids=str,
)
def test_spare_nodes_are_asked_for_on_top_and_all_nodes_alike(
    resources: dict[str, Any], lines: list[str]
) -> None:
    found = set(made(resources=resources, spare_nodes=1).lines) - {"--job-name=x", *ADDED}
    assert found == {"--nodes=3", "--no-kill", *lines}


@pytest.mark.parametrize(
    ("resources", "says"),
    [
        ({"nodes": "2-4"}, "one number"),
        ({"nodes": 2, "gpus": 3, "ntasks": 2}, "does not divide"),
    ],
)
def test_spare_nodes_that_cannot_be_like_the_others_are_refused(resources: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        made(resources=resources, spare_nodes=1)


def test_trap_120_a_value_with_a_line_break_goes_to_the_command_line() -> None:
    found = made(resources={"comment": "a\nb"}, name="x\ny")
    assert found.arguments == ("--job-name=x\ny", "--comment=a\nb slurmkit:r-1")
    assert found.lines == ADDED[:2]


def test_a_percent_sign_in_the_run_directory_is_no_field() -> None:
    assert "--output=/100%%/%j.out" in made(log=Path("/100%")).lines


def test_a_backslash_in_the_run_directory_is_refused_where_the_log_goes_there() -> None:
    with pytest.raises(UsageError, match="backslash"):
        made(log=Path("/a\\b"))
    assert "--output=x.out" in made(log=Path("/a\\b"), resources={"output": "x.out"}).lines
