"""The step of a job: srun's options and the program's argv, for the template `plain` and the agent alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmkit.spec.gres import node_count, tasks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slurmkit.spec.model import Container, JobSpec


def srun_arguments(spec: JobSpec) -> tuple[str, ...]:
    """Options of the job's one srun, `[launch] srun` last so that the user's word counts."""
    return (*_shape(spec), *_conduct(spec), *_pyxis(spec.container), *spec.launch.srun)


def program(spec: JobSpec) -> tuple[str, ...]:
    """The argv that each task runs: the command, inside its container where apptainer runs it.

    A command that is a line of bash is expanded on the node, by bash.
    """
    command = ("bash", "-c", spec.command) if isinstance(spec.command, str) else spec.command
    container = spec.container
    if container is None or container.runtime != "apptainer":
        return command
    gpus = ("--nv",) if _asks_for_gpus(spec) else ()
    mounts = tuple(f"--bind={mount}" for mount in container.mounts)
    workdir = (f"--pwd={container.workdir}",) if container.workdir else ()
    return ("apptainer", "exec", *gpus, *mounts, *workdir, *container.arguments, container.image, *command)


def _shape(spec: JobSpec) -> Iterator[str]:
    """How many tasks, and where. Said anew: srun inherits not all of it, and not on every version."""
    wanted = tasks(spec)
    nodes = node_count(spec.resources)
    if nodes is not None:
        yield f"--nodes={nodes}"
    if wanted.ntasks is not None:
        yield f"--ntasks={wanted.ntasks}"
    if wanted.per_node is not None:
        yield f"--ntasks-per-node={wanted.per_node}"
    cpus = spec.resources.get("cpus_per_task")
    if cpus is not None:
        # From 22.05 to 23.02 srun reads SLURM_CPUS_PER_TASK no more.
        yield f"--cpus-per-task={cpus}"
    distribution = spec.resources.get("distribution")
    if distribution is not None:
        yield f"--distribution={distribution}"


def _conduct(spec: JobSpec) -> Iterator[str]:
    if spec.launch.kill_on_bad_exit:
        # Slurm's default leaves the other ranks waiting for the one that crashed.
        yield "--kill-on-bad-exit=1"
    if spec.spare_nodes or spec.resources.get("no_kill"):
        # sbatch's own --no-kill does not reach the step.
        yield "--no-kill"
    if spec.launch.mpi is not None:
        yield f"--mpi={spec.launch.mpi}"


def _pyxis(container: Container | None) -> Iterator[str]:
    if container is None or container.runtime != "pyxis":
        return
    yield f"--container-image={container.image}"
    if container.mounts:
        yield f"--container-mounts={','.join(container.mounts)}"
    if container.workdir:
        yield f"--container-workdir={container.workdir}"
    yield from container.arguments


def _asks_for_gpus(spec: JobSpec) -> bool:
    from slurmkit.spec.gres import gpu_count

    return bool(gpu_count(spec))
