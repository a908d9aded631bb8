"""The options of the job's one srun, and what each task runs."""

from __future__ import annotations

from typing import Any

import pytest

from slurmkit.script.step import program, srun_arguments
from slurmkit.spec.model import Container, JobSpec, Launch, Parallel

KILLS = "--kill-on-bad-exit=1"


def spec(**sections: Any) -> JobSpec:
    return JobSpec(name="x", command=sections.pop("command", ("python", "t.py")), **sections)


@pytest.mark.parametrize(
    ("resources", "options"),
    [
        ({}, ["--nodes=1", "--ntasks=1", "--ntasks-per-node=1"]),
        ({"nodes": 3}, ["--nodes=3", "--ntasks=3", "--ntasks-per-node=1"]),
        ({"nodes": 2, "ntasks_per_node": 4}, ["--nodes=2", "--ntasks=8", "--ntasks-per-node=4"]),
        ({"nodes": 2, "ntasks": 5}, ["--nodes=2", "--ntasks=5"]),
        ({"ntasks": 5}, ["--ntasks=5"]),
        ({"nodes": "2-4", "ntasks_per_node": 4}, ["--ntasks-per-node=4"]),
        ({"nodes": 2, "gpus_per_node": "a100:4"}, ["--nodes=2", "--ntasks=8", "--ntasks-per-node=4"]),
        ({"nodes": 2, "gpus": 6}, ["--nodes=2", "--ntasks=6"]),
        ({"nodes": 2, "gpus_per_node": 2, "ntasks_per_gpu": 2}, ["--nodes=2", "--ntasks=8"]),
        (
            {"nodes": 2, "gpus_per_node": 2, "ntasks": 2},
            ["--nodes=2", "--ntasks=2"],
        ),
    ],
)
def test_the_step_is_told_its_shape(resources: dict[str, Any], options: list[str]) -> None:
    assert list(srun_arguments(spec(resources=resources))) == [*options, KILLS]


@pytest.mark.parametrize(
    ("sections", "option"),
    [
        ({"resources": {"cpus_per_task": 8}}, "--cpus-per-task=8"),
        ({"resources": {"distribution": "cyclic"}}, "--distribution=cyclic"),
        ({"parallel": Parallel(tensor=2)}, "--distribution=block"),
        ({"resources": {"distribution": "plane=4"}, "parallel": Parallel()}, "--distribution=plane=4"),
        ({"launch": Launch(mpi="pmix")}, "--mpi=pmix"),
        ({"resources": {"no_kill": True}}, "--no-kill"),
        ({"resources": {"nodes": 1}, "spare_nodes": 1}, "--no-kill"),
    ],
)
def test_an_option_is_there_where_it_is_asked_for(sections: dict[str, Any], option: str) -> None:
    assert option in srun_arguments(spec(**sections))
    name = option.partition("=")[0]
    assert not any(one.startswith(name) for one in srun_arguments(spec()))


def test_trap_090_a_bad_exit_ends_the_step_unless_the_job_file_says_otherwise() -> None:
    assert KILLS in srun_arguments(spec())
    assert KILLS not in srun_arguments(spec(launch=Launch(kill_on_bad_exit=False)))


def test_the_users_options_come_last() -> None:
    own = ("--kill-on-bad-exit=0", "--label")
    assert srun_arguments(spec(launch=Launch(srun=own)))[-2:] == own


@pytest.mark.parametrize(
    ("command", "argv"),
    [
        (("python", "a b", "$HOME"), ("python", "a b", "$HOME")),
        ("python a b | tee $HOME", ("bash", "-eo", "pipefail", "-c", "python a b | tee $HOME")),
    ],
)
def test_a_list_is_the_exact_argv_and_a_text_a_line_of_bash(
    command: str | tuple[str, ...], argv: tuple[str, ...]
) -> None:
    assert program(spec(command=command)) == argv


def test_apptainer_runs_the_command_with_gpus_only_where_there_are_some() -> None:
    container = Container(
        runtime="apptainer", image="a.sif", mounts=("/d:/d",), workdir="/w", arguments=("--cleanenv",)
    )
    options = ("--bind=/d:/d", "--pwd=/w", "--cleanenv", "a.sif", "python", "t.py")
    assert program(spec(container=container)) == ("apptainer", "exec", *options)
    with_gpus = spec(container=container, resources={"gpus_per_node": 1})
    assert program(with_gpus) == ("apptainer", "exec", "--nv", *options)


def test_pyxis_stands_on_the_srun_line() -> None:
    container = Container(
        runtime="pyxis", image="nvcr.io#a/b:1", mounts=("/d", "/e:/e"), workdir="/w", arguments=("--no-x",)
    )
    job = spec(container=container)
    assert srun_arguments(job)[-4:] == (
        "--container-image=nvcr.io#a/b:1",
        "--container-mounts=/d,/e:/e",
        "--container-workdir=/w",
        "--no-x",
    )
    assert program(job) == ("python", "t.py")


@pytest.mark.parametrize(
    ("resources", "count"),
    [({"gpus_per_node": "a100:4"}, "4"), ({"nodes": 2, "gpus": 8}, "gpu"), ({}, "1")],
)
def test_torchrun_starts_the_ranks_of_each_node(resources: dict[str, Any], count: str) -> None:
    argv = program(spec(launch=Launch(launcher="torchrun"), resources=resources))
    assert argv[:2] == ("bash", "-c")
    assert argv[2].startswith('exec torchrun --nnodes="$WORLD_SIZE" --node-rank="$RANK" ')
    assert f"--nproc-per-node={count} --no-python" in argv[2]
    assert argv[3:] == ("torchrun", "python", "t.py")


@pytest.mark.parametrize(
    "command",
    [("torchrun", "--nnodes=2", "t.py"), "python -m torch.distributed.run t.py", "exec torchrun t.py"],
)
def test_a_command_that_starts_torchrun_itself_is_left_alone(command: str | tuple[str, ...]) -> None:
    assert not [
        word
        for word in program(spec(command=command, launch=Launch(launcher="torchrun")))
        if "--no-python" in word
    ]


def test_trap_086_torchrun_has_one_task_on_each_node() -> None:
    job = spec(resources={"nodes": 2, "gpus_per_node": 8}, launch=Launch(launcher="torchrun"))
    assert srun_arguments(job)[:3] == ("--nodes=2", "--ntasks=2", "--ntasks-per-node=1")
