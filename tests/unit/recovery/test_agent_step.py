from __future__ import annotations

import sys
from pathlib import Path

import pytest

from slurmkit.errors import UsageError
from slurmkit.recovery import step
from slurmkit.recovery.attempt import current_attempt
from slurmkit.run.paths import RunPaths
from slurmkit.spec.model import Container, JobSpec, Launch

PATHS = RunPaths(Path("/scratch 100%/run"))
ATTEMPT = current_attempt({"SLURM_JOB_ID": "12", "SLURM_JOB_NODELIST": "n[1-2]"})


def spec(**more: object) -> JobSpec:
    return JobSpec(name="job", command=("python", "-x"), **more)  # type: ignore[arg-type]


def test_every_task_is_a_parent_that_starts_the_program() -> None:
    argv = step.srun_command(spec(), PATHS, "12-0")
    parent = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        step.START,
        "/scratch 100%/run/launch.pyz",
        "--",
        "python",
        "-x",
    ]
    assert argv[-len(parent) :] == parent


def test_each_rank_writes_a_log_of_its_own_under_a_name_that_slurm_does_not_misread() -> None:
    argv = step.srun_command(spec(), PATHS, "12-0")
    assert "--output=/scratch 100%%/run/logs/12-0/rank-%5t.out" in argv
    assert "--open-mode=append" in argv


def test_a_directory_that_slurm_cannot_read_as_a_pattern_is_refused() -> None:
    with pytest.raises(UsageError, match="backslash"):
        step.srun_command(spec(), RunPaths(Path("/back\\slash/run")), "12-0")


def test_the_users_options_for_srun_come_last() -> None:
    argv = step.srun_command(spec(launch=Launch(srun=("--output=mine",))), PATHS, "12-0")
    outputs = [word for word in argv if word.startswith("--output=")]
    assert outputs[-1] == "--output=mine"


def test_a_line_of_bash_is_one_argument() -> None:
    line = "echo $RANK | tee 'a b'"
    argv = step.srun_command(JobSpec(name="job", command=line), PATHS, "12-0")
    assert (argv[argv.index("--") + 1], argv[-1]) == ("bash", line)


@pytest.mark.parametrize(
    ("mounts", "option"),
    [
        ((), "--container-mounts=/scratch 100%/run:/scratch 100%/run"),
        (("/data:/data",), "--container-mounts=/data:/data,/scratch 100%/run:/scratch 100%/run"),
    ],
)
def test_in_a_container_of_pyxis_the_parent_sees_the_run_directory(
    mounts: tuple[str, ...], option: str
) -> None:
    container = Container(runtime="pyxis", image="image.sqsh", mounts=mounts)
    argv = step.srun_command(spec(container=container), PATHS, "12-0")
    assert [word for word in argv if word.startswith("--container-mounts=")] == [option]
    assert argv[argv.index("-I") - 1] == "python3"


def test_trap_138_every_rank_gets_the_whole_environment() -> None:
    environ = step.step_environment(
        {"SLURM_EXPORT_ENV": "NONE", "A": "1"}, PATHS, ATTEMPT, 2, address="n1", port="20001"
    )
    assert (environ["SLURM_EXPORT_ENV"], environ["A"]) == ("ALL", "1")
    assert (environ["MASTER_ADDR"], environ["MASTER_PORT"]) == ("n1", "20001")
    assert environ["SLURMKIT_EXIT_DIRECTORY"] == "/scratch 100%/run/exit/12-0/2"
    assert environ["SLURMKIT_MASTER_NODE"] == "n1"


def test_what_is_set_before_the_agent_starts_is_the_users_own() -> None:
    environ = {"PATH": "/bin", "MASTER_PORT": "999", "LOCAL_RANK": "", "RANK": "1"}
    assert step.users_variables(environ) == ["RANK", "MASTER_PORT"]


@pytest.mark.parametrize(
    ("text", "who"),
    [
        ("6:freezer:/slurm_n1/uid_0/job_5/step_batch\n0::/\n", "parent"),
        ("0::/system.slice/slurmstepd.scope/job_5/step_batch/user/task_0\n", "parent"),
        ("6:freezer:/\n4:memory:/slurm/uid_0/job_5/step_batch\n0::/\n", "all"),
        ("6:freezer:/odd:name/step_batch\n", "parent"),
        ("", "all"),
    ],
)
def test_whom_slurm_signals_is_seen_from_what_tracks_the_processes(
    tmp_path: Path, text: str, who: str
) -> None:
    path = tmp_path / "cgroup"
    path.write_text(text)
    assert step.who_is_signalled(path) == who
    assert step.who_is_signalled(tmp_path / "none") == "all"


@pytest.mark.parametrize(
    ("more", "environ", "size"),
    [
        ({"resources": {"ntasks": 6}}, {}, 6),
        ({"resources": {"nodes": 2, "gpus_per_node": "a100:4"}}, {}, 8),
        ({"resources": {"gpus_per_node": "a100:4"}, "launch": Launch(launcher="torchrun")}, {}, 8),
        ({"resources": {"gpus": "a100:4"}, "launch": Launch(launcher="torchrun")}, {}, None),
        ({"resources": {"nodes": "1-4"}}, {}, 2),
        ({"resources": {"gpus_per_socket": 2}}, {"SLURM_NTASKS": "3"}, 3),
        ({"resources": {"gpus_per_socket": 2}}, {}, None),
    ],
)
def test_the_number_of_ranks_is_known_beforehand_where_the_job_file_says_it(
    more: dict[str, object], environ: dict[str, str], size: int | None
) -> None:
    assert step.world_size(spec(**more), ATTEMPT, environ) == size


def test_ranks_are_told_where_the_agent_listens() -> None:
    told = step.telling_environment(
        {}, "fd00::5", 4000, launcher="srun", token="t", stacks=Path("/run/stacks")
    )
    assert told["SLURMKIT_PROGRESS"] == "[fd00::5]:4000"
    assert told["PYTHONFAULTHANDLER"] == "1"


def test_what_the_user_says_of_the_fault_handler_stays() -> None:
    told = step.telling_environment(
        {"PYTHONFAULTHANDLER": ""},
        "10.0.0.1",
        4000,
        launcher="srun",
        token="t",
        stacks=Path("/s"),
    )
    assert (told["SLURMKIT_PROGRESS"], told["PYTHONFAULTHANDLER"]) == ("10.0.0.1:4000", "")
