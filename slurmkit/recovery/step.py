"""One step: its srun, the variables that its ranks get, and waiting for its end while passing signals on."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from slurmkit.errors import MissingRequirement, UsageError
from slurmkit.launch.environment import NAMES
from slurmkit.script.step import program, srun_arguments

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from slurmkit.recovery.attempt import Attempt
    from slurmkit.run.paths import RunPaths
    from slurmkit.spec.model import JobSpec

PASSED_ON = frozenset({signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})
"""To srun, which sends the first three to every rank, and at the others ends the step."""

WATCHED = PASSED_ON | {signal.SIGTERM, signal.SIGCHLD}
"""SIGTERM is not passed on: at a cancel, the time limit, a preemption Slurm sends it to the ranks itself, and
srun would kill them at once."""


def srun_command(spec: JobSpec, paths: RunPaths, attempt: str) -> list[str]:
    """The command line of the step: every task is a parent that starts the program.

    Raises:
        UsageError: Slurm could not write one log per rank there.
    """
    logs = str(paths.logs(attempt))
    if "\\" in logs:
        raise UsageError("Slurm writes no log per rank where a directory's name has a backslash", where=logs)
    return [
        "srun",
        f"--output={logs.replace('%', '%%')}/rank-%5t.out",
        "--open-mode=append",
        "--disable-status",
        *_with_run_directory(srun_arguments(spec), spec, paths),
        # The agent's own Python, which is known to work here. A container has its own.
        "python3" if _is_pyxis(spec) else sys.executable,
        "-I",
        "-S",
        str(paths.launch_archive),
        "--",
        *program(spec),
    ]


def step_environment(
    environ: Mapping[str, str], paths: RunPaths, attempt: Attempt, step: int, *, address: str, port: str
) -> dict[str, str]:
    """The variables of srun and of every rank's parent. `environ` is the batch script's."""
    return {
        **environ,
        "SLURM_EXPORT_ENV": "ALL",
        "SLURMKIT_RUN_DIRECTORY": str(paths.root),
        "SLURMKIT_RUN_ID": paths.run_id,
        "SLURMKIT_ATTEMPT": attempt.name,
        "SLURMKIT_STEP": str(step),
        "SLURMKIT_EXIT_DIRECTORY": str(paths.exit(attempt.name, step)),
        "SLURMKIT_USER_VARIABLES": " ".join(users_variables(environ)),
        "SLURMKIT_SIGNALS": environ.get("SLURMKIT_SIGNALS") or who_is_signalled(),
        "SLURMKIT_MASTER_NODE": attempt.nodes[0],
        "MASTER_ADDR": address,
        "MASTER_PORT": port,
    }


def users_variables(environ: Mapping[str, str]) -> list[str]:
    """The rank variables that the job file, or what it sets up, has set: they stay."""
    return [name for name in NAMES if environ.get(name)]


def who_is_signalled(cgroups: Path = Path("/proc/self/cgroup")) -> str:
    """Whom Slurm signals in a task: the "parent" alone, as under cgroup tracking, or "all" its processes."""
    try:
        lines = cgroups.read_text().splitlines()
    except OSError:
        return "all"
    # Version 1 tracks processes by the freezer; version 2 has one tree, whose controller field is empty.
    paths = [
        path
        for _, controllers, path in (line.split(":", 2) for line in lines)
        if controllers in {"freezer", ""}
    ]
    return "parent" if any("/step_" in path for path in paths) else "all"


def start(argv: list[str], program_path: str, environ: Mapping[str, str], mask: Iterable[int]) -> int:
    """Start srun in a process group of its own, with no input; its pid.

    Raises:
        MissingRequirement: it cannot be started.
    """
    try:
        return os.posix_spawn(
            program_path,
            argv,
            environ,
            file_actions=[(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)],
            setpgroup=0,
            setsigmask=mask,
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
        )
    except OSError as error:
        raise MissingRequirement(f"srun cannot be started: {error.strerror}", where=program_path) from error


def wait(srun: int) -> tuple[int, list[int]]:
    """Wait for srun's end, passing each signal on once; its wait status and the signals that came.

    All of `WATCHED` must be blocked, so that none is lost between one look and the next.
    """
    received: list[int] = []
    while True:
        number = signal.sigwait(WATCHED)
        if number == signal.SIGCHLD:
            ended, status = os.waitpid(srun, os.WNOHANG)
            if ended:
                return status, received
            continue
        received.append(int(number))
        if number in PASSED_ON:
            os.kill(srun, number)


def _is_pyxis(spec: JobSpec) -> bool:
    return spec.container is not None and spec.container.runtime == "pyxis"


def _with_run_directory(options: Sequence[str], spec: JobSpec, paths: RunPaths) -> list[str]:
    """Pyxis starts the parent inside the container, which must see the run directory."""
    if not _is_pyxis(spec):
        return list(options)
    mount, name = f"{paths.root}:{paths.root}", "--container-mounts="
    mounted = [f"{option},{mount}" if option.startswith(name) else option for option in options]
    return mounted if mounted != list(options) else [*mounted, name + mount]
