"""The job file's model. Section by section as the user writes it; values are checked and normalised.

`resources` holds sbatch's long options with underscores, in the order of `slurmkit.spec.options.OPTIONS`,
each value in Slurm's own form: `time` is `1:30:00`, `mem` is `65536M`, a flag is True.
"""

from __future__ import annotations

from typing import Literal

import msgspec

OptionValue = str | int | bool | tuple[str, ...]


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of every table of the job file."""


class Environment(Section, frozen=True):
    """What is prepared before the program starts, in this order."""

    modules: tuple[str, ...] = ()
    venv: str | None = None
    conda: str | None = None
    setup: tuple[str, ...] = ()
    variables: dict[str, str] = {}
    keep: tuple[str, ...] = ()
    """Variables of the submitting shell that would be stripped (SLURM_*, SBATCH_* ...) and shall stay."""


class Container(Section, frozen=True):
    """The image that the program runs in."""

    runtime: Literal["apptainer", "pyxis"]
    image: str
    mounts: tuple[str, ...] = ()
    workdir: str | None = None
    arguments: tuple[str, ...] = ()


class Launch(Section, frozen=True):
    """How the step is started."""

    ntasks_per_node: int | Literal["gpu"] | None = None
    launcher: Literal["srun", "torchrun"] = "srun"
    mpi: str | None = None
    grace: str = "30s"
    kill_on_bad_exit: bool = True
    srun: tuple[str, ...] = ()
    """Further options for srun, as they stand on its command line."""
    checks: tuple[str, ...] = ()


class Parallel(Section, frozen=True):
    """The mesh of ranks; `data` is what is left where it is not given."""

    tensor: int = 1
    pipeline: int = 1
    context: int = 1
    expert: int = 1
    data: int | None = None
    order: tuple[str, ...] = ()
    allow_cross_node: bool = False


class Progress(Section, frozen=True):
    """How far the run is, and when silence means that it hangs."""

    total: int | None = None
    pattern: str | None = None
    hang_after: str | None = None


class Checkpoint(Section, frozen=True):
    """Where checkpoints are, what they look like, how the program resumes from one."""

    path: str
    layout: str = "auto"
    resume: tuple[str, ...] = ()
    signal: str = "USR1"
    lead_time: str = "2m"
    keep: int | None = None


class Retry(Section, frozen=True):
    """When to try again and when to stop."""

    without_progress: int = 2
    restarts: int = 5
    requeues: int = 20
    memory_factor: float | None = None
    stop_on: tuple[int, ...] = ()
    exclude_bad_nodes: bool = True


class RunSection(Section, frozen=True):
    """Where run directories are made; relative to the directory of the submit."""

    directory: str = "runs"


class JobSpec(Section, frozen=True):
    """What the user asks for. Made by `slurmkit.spec.load`, which checks it as a whole."""

    name: str
    command: str | tuple[str, ...]
    """A tuple is the exact argv; a string is a line of bash, expanded on the node."""
    resources: dict[str, OptionValue] = {}
    environment: Environment = Environment()
    container: Container | None = None
    launch: Launch = Launch()
    parallel: Parallel | None = None
    progress: Progress | None = None
    checkpoint: Checkpoint | None = None
    retry: Retry = Retry()
    run: RunSection = RunSection()
