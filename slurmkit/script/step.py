"""The step of a job: srun's options and the program's argv, for the template `plain` and the agent alike."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from slurmkit.spec.gres import gpu_count, node_count, tasks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slurmkit.spec.model import Container, JobSpec

TORCHRUN: Final = re.compile(r"\b(?:torchrun|torch\.distributed\.(?:run|launch))\b")
"""A command that starts torchrun itself."""


def srun_arguments(spec: JobSpec) -> tuple[str, ...]:
    """Options of the job's one srun, `[launch] srun` last so that the user's word counts."""
    return (*_shape(spec), *_conduct(spec), *_pyxis(spec.container), *spec.launch.srun)


def program(spec: JobSpec) -> tuple[str, ...]:
    """The argv that each task runs: the command, under torchrun or in its container where asked for."""
    return (*_apptainer(spec), *_torchrun(spec), *_command(spec))


def counts_by_gpu(spec: JobSpec) -> bool:
    """Whether tasks are asked for by GPU: srun refuses to hear of their number on a node as well."""
    return "ntasks_per_gpu" in spec.resources or "ntasks_per_tres" in spec.resources


def _command(spec: JobSpec) -> tuple[str, ...]:
    """A line of bash is expanded on the node; as in the script, one of its commands that fails fails all."""
    return ("bash", "-eo", "pipefail", "-c", spec.command) if isinstance(spec.command, str) else spec.command


def _shape(spec: JobSpec) -> Iterator[str]:
    """How many tasks, and where. Said anew: srun inherits not all of it, and not on every version."""
    wanted = tasks(spec)
    nodes = node_count(spec.resources)
    if nodes is not None:
        yield f"--nodes={nodes}"
    if wanted.ntasks is not None:
        yield f"--ntasks={wanted.ntasks}"
    if wanted.per_node is not None and not counts_by_gpu(spec):
        yield f"--ntasks-per-node={wanted.per_node}"
    cpus = spec.resources.get("cpus_per_task")
    if cpus is not None:
        # From 22.05 to 23.02 srun reads SLURM_CPUS_PER_TASK no more.
        yield f"--cpus-per-task={cpus}"
    # The mesh lays its innermost axis over neighbours: they must be on one node, whatever the site's default.
    distribution = spec.resources.get("distribution", "block" if spec.parallel else None)
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


def _apptainer(spec: JobSpec) -> Iterator[str]:
    container = spec.container
    if container is None or container.runtime != "apptainer":
        return
    yield from ("apptainer", "exec")
    if gpu_count(spec):
        yield "--nv"
    yield from (f"--bind={mount}" for mount in container.mounts)
    if container.workdir:
        yield f"--pwd={container.workdir}"
    yield from container.arguments
    yield container.image


def _torchrun(spec: JobSpec) -> Iterator[str]:
    """The one task of each node starts the ranks there; its number is known only inside the step."""
    text = spec.command if isinstance(spec.command, str) else " ".join(spec.command)
    if spec.launch.launcher != "torchrun" or TORCHRUN.search(text):
        return
    gpus = gpu_count(spec)
    per_node = gpus.per_node or "gpu" if gpus else 1
    where = (
        '--nnodes="$WORLD_SIZE" --node-rank="$RANK" --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT"'
    )
    line = f'exec torchrun {where} --nproc-per-node={per_node} --no-python "$@"'
    yield from ("bash", "-c", line, "torchrun")
