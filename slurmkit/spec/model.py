"""The job file's model. Section by section as the user writes it; values are checked and normalised.

`resources` holds sbatch's long options with underscores, in the order of `slurmkit.spec.options.OPTIONS`,
each value in Slurm's own form: `time` is `1:30:00`, `mem` is `65536M`, a list joined by commas, a flag True.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

OptionValue = str | int | bool


def about(text: str, check: str | None = None, *, least: int | None = None) -> msgspec.Meta:
    """What a key means, the check of `slurmkit.spec.checks` that its text must pass, its least number."""
    return msgspec.Meta(description=text, extra={"check": check} if check else None, ge=least)


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of every table of the job file."""


class Environment(Section, frozen=True):
    """What is prepared before the program starts, in this order."""

    modules: Annotated[tuple[str, ...], about("Modules to load, in this order.", "words")] = ()
    venv: Annotated[
        str | None, about("Virtual environment of Python to enter; relative to the job file.", "path")
    ] = None
    conda: Annotated[str | None, about("Conda environment to enter, by name or path.", "word")] = None
    setup: Annotated[tuple[str, ...], about("Lines of bash, run last before the program.", "bash")] = ()
    variables: Annotated[dict[str, str], about("Variables of the program's environment.", "variables")] = {}
    keep: Annotated[
        tuple[str, ...],
        about(
            "Variables of the submitting shell that stay though slurmkit strips their kind: `SLURM_*` ...",
            "names",
        ),
    ] = ()


class Container(Section, frozen=True):
    """The image that the program runs in."""

    runtime: Annotated[Literal["apptainer", "pyxis"], about("What runs the image.")]
    image: Annotated[str, about("The image: a file, or an address that the runtime understands.", "word")]
    mounts: Annotated[
        tuple[str, ...],
        about("Directories to see inside: `/host`, `/host:/inside`, `/host:/inside:ro`.", "words"),
    ] = ()
    workdir: Annotated[
        str | None, about("Directory inside the image that the program starts in.", "path")
    ] = None
    arguments: Annotated[tuple[str, ...], about("Further arguments for the runtime.", "argument")] = ()


class Launch(Section, frozen=True):
    """How the step is started."""

    ntasks_per_node: Annotated[
        Annotated[int, msgspec.Meta(ge=1)] | Literal["gpu"] | None,
        about("Tasks on each node; `gpu`: one for each GPU, the default where GPUs are asked for."),
    ] = None
    launcher: Annotated[
        Literal["srun", "torchrun"],
        about("`srun` starts every rank; `torchrun`: srun starts one torchrun on each node."),
    ] = "srun"
    mpi: Annotated[str | None, about("MPI interface that srun offers: `pmix`, `pmi2`, `none`.", "word")] = (
        None
    )
    grace: Annotated[str, about("How long ranks may take to end before they are killed.", "duration")] = "30s"
    kill_on_bad_exit: Annotated[bool, about("A rank that fails ends the others.")] = True
    srun: Annotated[
        tuple[str, ...], about("Further options for srun, as they stand on its command line.", "argument")
    ] = ()
    check_nodes: Annotated[
        bool, about("Every node is checked before the first rank starts: GPUs, memory, disks, clock, port.")
    ] = True
    check_time: Annotated[
        str, about("How long the checks may take; a node that has not answered is unfit.", "duration")
    ] = "10s"
    checks: Annotated[
        tuple[str, ...],
        about("The site's own checks: programs run on each node; one that fails makes it unfit.", "words"),
    ] = ()


class Parallel(Section, frozen=True):
    """The mesh of ranks; `data` is what is left where it is not given."""

    tensor: Annotated[int, about("Ranks that share each layer.", least=1)] = 1
    pipeline: Annotated[int, about("Stages that the layers are dealt to.", least=1)] = 1
    context: Annotated[int, about("Ranks that share each sequence.", least=1)] = 1
    expert: Annotated[int, about("Ranks that share the experts.", least=1)] = 1
    data: Annotated[
        Annotated[int, msgspec.Meta(ge=1)] | None, about("Replicas; what is left where it is not given.")
    ] = None
    order: Annotated[tuple[str, ...], about("Axes from the fastest varying to the slowest.", "axes")] = ()
    allow_cross_node: Annotated[bool, about("Tensor groups may span nodes.")] = False


class Progress(Section, frozen=True):
    """How far the run is, and when silence means that it hangs."""

    total: Annotated[
        Annotated[int, msgspec.Meta(ge=1)] | None, about("Steps of work; the run is done when they are.")
    ] = None
    pattern: Annotated[
        str | None, about("Regular expression that finds the step in the output, as group 1.", "pattern")
    ] = None
    hang_after: Annotated[str | None, about("Silence after which the run counts as hung.", "duration")] = None


class Checkpoint(Section, frozen=True):
    """Where checkpoints are, what they look like, how the program resumes from one."""

    path: Annotated[str, about("Directory of the checkpoints; relative to the job file.", "path")]
    layout: Annotated[str, about("Layout on disk, or `auto`.", "word")] = "auto"
    resume: Annotated[
        tuple[str, ...],
        about(
            "Appended to the command where a complete checkpoint exists; `{checkpoint}` is its path.",
            "argument",
        ),
    ] = ()
    signal: Annotated[str, about("Signal that asks every rank for a checkpoint.", "signal")] = "USR1"
    lead_time: Annotated[str, about("How long before the time limit the signal is sent.", "duration")] = "2m"
    keep: Annotated[Annotated[int, msgspec.Meta(ge=1)] | None, about("Complete checkpoints to keep.")] = None


class Retry(Section, frozen=True):
    """When to try again and when to stop."""

    without_progress: Annotated[
        int, about("Give up after so many failures in a row that made no checkpoint.", least=1)
    ] = 2
    restarts: Annotated[int, about("Restarts in one allocation without a new checkpoint.", least=0)] = 5
    requeues: Annotated[int, about("Requeues and resubmits without a new checkpoint.", least=0)] = 20
    memory_factor: Annotated[
        Annotated[float, msgspec.Meta(gt=1)] | None,
        about("After out of memory, try again with so much more."),
    ] = None
    stop_on: Annotated[
        tuple[Annotated[int, msgspec.Meta(ge=1, le=255)], ...],
        about("Exit codes that are never tried again."),
    ] = ()
    exclude_bad_nodes: Annotated[bool, about("Nodes that failed are excluded from the next attempt.")] = True


class RunSection(Section, frozen=True):
    """Where run directories are made; relative to the directory of the submit."""

    directory: Annotated[
        str, about("Directory of the run directories; relative to where submit is called.", "path")
    ] = "runs"


class JobSpec(Section, frozen=True):
    """What the user asks for. Made by `slurmkit.spec.load`, which checks it as a whole."""

    name: Annotated[str, about("Name of the job.", "name")]
    command: Annotated[
        str | tuple[str, ...],
        about(
            "The program: a list is its exact argv, text is a line of bash that is expanded on the node.",
            "command",
        ),
    ]
    resources: Annotated[dict[str, OptionValue], about("Any option of sbatch, with underscores.")] = {}
    spare_nodes: Annotated[
        int,
        about("Stands in [resources]: nodes asked for on top, kept idle to replace one that dies.", least=0),
    ] = 0
    environment: Environment = Environment()
    container: Container | None = None
    launch: Launch = Launch()
    parallel: Parallel | None = None
    progress: Progress | None = None
    checkpoint: Checkpoint | None = None
    retry: Retry | None = None
    run: RunSection = RunSection()
