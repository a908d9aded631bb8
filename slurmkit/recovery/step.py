"""What a step is started with: the command lines of srun, and the variables that its ranks get."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from slurmkit.errors import MissingRequirement, UsageError
from slurmkit.launch.environment import NAMES
from slurmkit.launch.rendezvous import host_and_port
from slurmkit.recovery.node_order import HOSTFILE, srun_options
from slurmkit.script.step import program, srun_arguments
from slurmkit.spec.gres import gpu_count, tasks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from slurmkit.checkpoint.choice import Checkpoint
    from slurmkit.recovery.attempt import Attempt
    from slurmkit.recovery.placing import Placement
    from slurmkit.recovery.setting import Setting
    from slurmkit.run.paths import RunPaths
    from slurmkit.spec.model import JobSpec
STDOUT, STDERR = 1, 2
START = (
    "import sys; sys.path.insert(0, sys.argv[1]); from slurmkit.launch.parent import main; main(sys.argv[2:])"
)
"""What `python3 launch.pyz` does, in two thirds of the time: it finds out by itself what the file is."""


def srun_command(
    spec: JobSpec, paths: RunPaths, attempt: str, placement: Placement | None = None
) -> list[str]:
    """The command line of the step: every task is a parent that starts the program.

    Without a placement Slurm lays the tasks over all nodes.

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
        *_with_run_directory(_placed(srun_arguments(spec), placement), spec, paths),
        # A container has its own Python.
        *(["python3"] if _is_pyxis(spec) else [sys.executable]),
        *("-I", "-S", "-c", START, str(paths.launch_archive)),
        *("--", *program(spec)),
    ]


def step_environment(
    environ: Mapping[str, str],
    paths: RunPaths,
    attempt: Attempt,
    step: int,
    *,
    address: str,
    port: str,
    placement: Placement | None = None,
) -> dict[str, str]:
    """The variables of srun and of every rank's parent. `environ` is the batch script's."""
    placed: dict[str, str] = {}
    if placement is not None and placement.hostfile is not None:
        placed[HOSTFILE] = str(placement.hostfile)
    if placement is not None and placement.mesh is not None:
        placed["SLURMKIT_PARALLEL"] = placement.mesh
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
        "SLURMKIT_MASTER_NODE": placement.nodes[0] if placement else attempt.nodes[0],
        "MASTER_ADDR": address,
        "MASTER_PORT": port,
        **placed,
    }


def saving_environment(setting: Setting, step: int, chosen: Checkpoint | None) -> dict[str, str]:
    """The variables that tell the ranks where checkpoints go, how one is asked for, which to resume from."""
    wanted = setting.spec.checkpoint
    if wanted is None:
        return {}
    told = {
        "SLURMKIT_CHECKPOINTS": str(Path(wanted.path).absolute()),
        "SLURMKIT_CHECKPOINT_SIGNAL": wanted.signal,
        "SLURMKIT_CHECKPOINT_REQUEST": str(setting.paths.request(setting.attempt.name, step)),
    }
    if chosen is not None:
        told["SLURMKIT_RESUME_FROM"] = str(chosen.path)
        if chosen.step is not None:
            told["SLURMKIT_RESUME_STEP"] = str(chosen.step)
    return told


def telling_environment(
    environ: Mapping[str, str], host: str, port: int, *, launcher: str, token: str, stacks: Path
) -> dict[str, str]:
    """The variables by which the ranks know who starts them, and can tell the agent how they are."""
    return {
        "SLURMKIT_LAUNCHER": launcher,
        "SLURMKIT_PROGRESS": host_and_port(host, str(port)),
        "SLURMKIT_TOKEN": token,
        "SLURMKIT_STACKS": str(stacks),
        # A Python that dies by a fault, or is told to abort, then says where it was.
        "PYTHONFAULTHANDLER": environ.get("PYTHONFAULTHANDLER", "1"),
    }


def world_size(spec: JobSpec, attempt: Attempt, environ: Mapping[str, str]) -> int | None:
    """How many ranks the step has, where that is known beforehand."""
    wanted = tasks(spec)
    nodes = len(attempt.nodes) - spec.spare_nodes
    if spec.launch.launcher == "torchrun":
        gpus = gpu_count(spec)
        return nodes * gpus.per_node if gpus and gpus.per_node else None
    if wanted.ntasks is not None:
        return wanted.ntasks
    if wanted.per_node is not None:
        return wanted.per_node * nodes
    given = environ.get("SLURM_NTASKS", "")
    return int(given) if given.isdigit() else None


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


def start(
    argv: list[str],
    program_path: str,
    environ: Mapping[str, str],
    mask: Iterable[int],
    *,
    stdout: int = STDOUT,
) -> tuple[int, int]:
    """Start srun in a process group of its own, with no input; its pid, and what its stderr is read from.

    Raises:
        MissingRequirement: it cannot be started.
    """
    stderr, end = os.pipe()
    try:
        pid = os.posix_spawn(
            program_path,
            argv,
            environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, stdout, STDOUT),
                (os.POSIX_SPAWN_DUP2, end, STDERR),
            ],
            setpgroup=0,
            setsigmask=mask,
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
        )
    except OSError as error:
        os.close(stderr)
        raise MissingRequirement(f"srun cannot be started: {error.strerror}", where=program_path) from error
    finally:
        os.close(end)
    return pid, stderr


def on_every_node(setting: Setting, what: str, nodes: Sequence[str] = ()) -> list[str]:
    """A small step beside the job's own: one task of launch.pyz on each node, or on some."""
    count = len(nodes or setting.attempt.nodes)
    return [
        "srun",
        "--overlap",
        "--mem=0",
        f"--nodes={count}",
        f"--ntasks={count}",
        "--ntasks-per-node=1",
        "--cpus-per-task=1",
        "--kill-on-bad-exit=0",
        *([f"--nodelist={','.join(nodes)}"] if nodes else []),
        # The agent's own Python: it works here.
        *(sys.executable, "-I", "-S", str(setting.paths.launch_archive), what),
    ]


def _placed(options: Sequence[str], placement: Placement | None) -> Sequence[str]:
    """The options, with the step on these nodes, in this order."""
    if placement is None:
        return options
    if placement.hostfile is not None and placement.ntasks is not None:
        return srun_options(options, placement.ntasks)
    return options if placement.is_all else (f"--nodelist={','.join(placement.nodes)}", *options)


def _is_pyxis(spec: JobSpec) -> bool:
    return spec.container is not None and spec.container.runtime == "pyxis"


def _with_run_directory(options: Sequence[str], spec: JobSpec, paths: RunPaths) -> list[str]:
    """Pyxis starts the parent inside the container, which must see the run directory."""
    if not _is_pyxis(spec):
        return list(options)
    mount, name = f"{paths.root}:{paths.root}", "--container-mounts="
    mounted = [f"{option},{mount}" if option.startswith(name) else option for option in options]
    return mounted if mounted != list(options) else [*mounted, name + mount]
