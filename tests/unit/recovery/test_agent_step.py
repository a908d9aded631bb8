from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slurmkit.errors import UsageError
from slurmkit.recovery import step
from slurmkit.recovery.attempt import current_attempt
from slurmkit.run.paths import RunPaths
from slurmkit.spec.model import Container, JobSpec, Launch

if TYPE_CHECKING:
    from collections.abc import Iterator

PATHS = RunPaths(Path("/scratch 100%/run"))
ATTEMPT = current_attempt({"SLURM_JOB_ID": "12", "SLURM_JOB_NODELIST": "n[1-2]"})


def spec(**more: object) -> JobSpec:
    return JobSpec(name="job", command=("python", "-x"), **more)  # type: ignore[arg-type]


def test_every_task_is_a_parent_that_starts_the_program() -> None:
    argv = step.srun_command(spec(), PATHS, "12-0")
    parent = [sys.executable, "-I", "-S", "/scratch 100%/run/launch.pyz", "--", "python", "-x"]
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


WAIT = """
import signal, sys
from slurmkit.recovery import step
mask = signal.pthread_sigmask(signal.SIG_BLOCK, step.WATCHED)
argv = sys.argv[1:]
srun = step.start(argv, argv[0], dict(PATH="/usr/bin:/bin"), mask)
status, received = step.wait(srun)
print(status, *sorted(received))  # of signals that wait at the same time the lowest is taken first
"""


@pytest.fixture
def waiting() -> Iterator[subprocess.Popen[str]]:
    """An agent that waits for what stands for srun: a shell that says what it gets."""
    script = """
        trap 'echo usr1' USR1; trap 'echo hup' HUP; trap 'echo term' TERM; trap 'exit 7' USR2
        echo "ready $$"; while :; do sleep 0.02; done"""
    bash = shutil.which("bash")
    assert bash
    argv = [sys.executable, "-c", WAIT, bash, "-c", script]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        program = int(process.stdout.readline().removeprefix("ready "))
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.kill(program, signal.SIGKILL)
            process.communicate(timeout=30)


def test_signals_are_passed_on_once_and_a_sigterm_is_only_noted(waiting: subprocess.Popen[str]) -> None:
    assert waiting.stdout is not None
    os.kill(waiting.pid, signal.SIGTERM)
    for number, said in ((signal.SIGUSR1, "usr1"), (signal.SIGHUP, "hup"), (signal.SIGUSR1, "usr1")):
        os.kill(waiting.pid, number)
        assert waiting.stdout.readline() == f"{said}\n"
    os.kill(waiting.pid, signal.SIGUSR2)
    assert waiting.stdout.read() == f"{7 << 8} 1 10 10 12 15\n"


def test_srun_stands_in_a_group_of_its_own_so_that_nothing_reaches_it_twice(
    waiting: subprocess.Popen[str],
) -> None:
    children = Path(f"/proc/{waiting.pid}/task/{waiting.pid}/children").read_text().split()
    assert [os.getpgid(int(child)) for child in children] == [int(child) for child in children]


def test_srun_starts_with_no_signal_held_back_and_nothing_to_read() -> None:
    tell = "grep SigBlk /proc/self/status; readlink /proc/self/fd/0"
    done = subprocess.run(
        [sys.executable, "-c", WAIT, "/bin/sh", "-c", tell], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["SigBlk:", "0" * 16, os.devnull, "0"]
