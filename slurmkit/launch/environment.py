"""Who a task is: from the variables that Slurm gives it to those that programs read. Pure.

Nothing is computed from the rank: with a cyclic distribution or uneven nodes only Slurm knows where it sits.
"""

from __future__ import annotations

from slurmkit.launch import frameworks
from slurmkit.launch.devices import device
from slurmkit.launch.rendezvous import common_port, master_address
from slurmkit.launch.tasks import step_of, tasks_per_node

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing itself costs a rank milliseconds
    from collections.abc import Mapping, Sequence

OF_A_TASK = ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID")
ALONE = {
    "RANK": "0",
    "LOCAL_RANK": "0",
    "WORLD_SIZE": "1",
    "LOCAL_WORLD_SIZE": "1",
    "NODE_RANK": "0",
    "GROUP_RANK": "0",
    "GROUP_WORLD_SIZE": "1",
}
NAMES = (*ALONE, "MASTER_ADDR", "MASTER_PORT", "SLURMKIT_DEVICE", *frameworks.NAMES)
"""Every variable that a rank may be given and that a user may have set instead."""


def rank_environment(
    environ: Mapping[str, str], command: Sequence[str] = ()
) -> tuple[dict[str, str], list[str]]:
    """The variables to set for the program of this task, and what the log should say about them.

    Those named in SLURMKIT_USER_VARIABLES are the user's own and stay as they are. Inside of torchrun, which
    has numbered its workers already, there is nothing to set.

    Raises:
        ValueError: Slurm's variables are there in part only; the message lists what is missing.
    """
    if "TORCHELASTIC_RUN_ID" in environ:
        return {}, []
    users = environ.get("SLURMKIT_USER_VARIABLES", "").split()
    derived = rank_variables(environ)
    said: list[str] = []
    if _is_task(environ):
        place: dict[str, str] = {
            name: environ[name] for name in ("MASTER_ADDR", "MASTER_PORT") if name in users
        }
        more, said = _for_frameworks(environ, {**derived, **place}, command)
        derived.update(more)
        if frameworks.is_torchrun(environ, command):
            derived.pop("SLURMKIT_DEVICE", None)  # its workers have one each
    variables = {}
    for name, value in derived.items():
        there = environ.get(name, value)
        if name not in users:
            variables[name] = value
        if there == value:
            continue
        if name in users:
            said.append(f"{name}={there} is the job's own and stays; Slurm says {value}")
        else:
            said.append(f"{name} is {value} here; the environment had {there}")
    return variables, said


def rank_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Rank, place and rendezvous of this process, under PyTorch's names; rank 0 of 1 outside of a step.

    Raises:
        ValueError: as in `rank_environment`.
    """
    if not _is_task(environ):
        return dict(ALONE)
    local_rank = environ["SLURM_LOCALID"]
    variables = {
        "RANK": environ["SLURM_PROCID"],
        "LOCAL_RANK": local_rank,
        "WORLD_SIZE": _world_size(environ),
        "NODE_RANK": environ["SLURM_NODEID"],
        "GROUP_RANK": environ["SLURM_NODEID"],
        "MASTER_ADDR": master_address(environ),
    }
    nodes = environ.get("SLURM_STEP_NUM_NODES") or environ.get("SLURM_NNODES")
    if nodes:
        variables["GROUP_WORLD_SIZE"] = nodes
    port = environ.get("MASTER_PORT") or common_port(environ)
    if port:
        variables["MASTER_PORT"] = port
    local_world_size = _local_world_size(environ)
    if local_world_size:
        variables["LOCAL_WORLD_SIZE"] = local_world_size
    index = device(environ, int(local_rank))
    if index is not None:
        variables["SLURMKIT_DEVICE"] = str(index)
    return {name: variables[name] for name in NAMES if name in variables}


def as_started(environ: Mapping[str, str], path: str = "/proc/self/environ") -> dict[str, str]:
    """The environment without the LC_CTYPE that Python itself adds in a C locale (PEP 538)."""
    environ = dict(environ)
    if environ.get("LC_CTYPE") in {"C.UTF-8", "C.utf8", "UTF-8"}:
        try:
            with open(path, "rb") as file:
                if b"\0LC_CTYPE=" not in b"\0" + file.read():
                    del environ["LC_CTYPE"]
        except OSError:
            pass  # without /proc the addition stays; it is harmless to most programs
    return environ


def _is_task(environ: Mapping[str, str]) -> bool:
    """Whether Slurm started this process as a task of a step. All of its variables, or none."""
    missing = [name for name in OF_A_TASK if not environ.get(name, "").isdigit()]
    present = [name for name in OF_A_TASK if name not in missing]
    if not _world_size(environ).isdigit():
        missing.append("SLURM_NTASKS")
    # The batch shell carries the numbers of a rank 0 that srun has yet to start.
    is_batch_shell = step_of(environ) is None and all(environ[name] == "0" for name in present)
    if present and not missing and not is_batch_shell:
        return True
    if present and not is_batch_shell:
        why = f"Slurm's variables are there in part only: {', '.join(present)} are set"
    elif not _is_many(environ):
        return False
    else:
        why = "this process is in a job of several tasks and is none of them"
        missing = missing or ["SLURM_STEP_ID"]
    raise ValueError(f"{why}, {', '.join(missing)} missing: start the program with srun")


def _is_many(environ: Mapping[str, str]) -> bool:
    """Whether the job is meant for more than one task."""
    names = ("SLURM_NTASKS", "SLURM_NNODES", "SLURM_JOB_NUM_NODES", "SLURM_NTASKS_PER_NODE")
    return any(environ.get(name, "") not in {"", "0", "1"} for name in names)


def _world_size(environ: Mapping[str, str]) -> str:
    # An interactive step has one task, while SLURM_NTASKS may still be the job's.
    return environ.get("SLURM_STEP_NUM_TASKS") or environ.get("SLURM_NTASKS", "")


def _local_world_size(environ: Mapping[str, str]) -> str | None:
    """How many tasks this node has, from Slurm's list of them; None where there is no list."""
    text = environ.get("SLURM_STEP_TASKS_PER_NODE") or environ.get("SLURM_TASKS_PER_NODE")
    if not text:
        return None
    counts = tasks_per_node(text)
    nodes = environ.get("SLURM_STEP_NUM_NODES") or environ.get("SLURM_NNODES") or str(len(counts))
    node = int(environ["SLURM_NODEID"])
    if str(len(counts)) != nodes or str(sum(counts)) != _world_size(environ) or node >= len(counts):
        raise ValueError(
            f"{text} tasks per node are not {_world_size(environ)} tasks on {nodes} nodes (here: node {node})"
        )
    if environ.get("SLURM_HET_SIZE") and environ.get("SLURM_GTIDS"):
        # The list goes by the hosts' names then, the nodes' numbers by component.
        return str(len(environ["SLURM_GTIDS"].split(",")))
    return str(counts[node])


def _for_frameworks(
    environ: Mapping[str, str], given: Mapping[str, str], command: Sequence[str]
) -> tuple[dict[str, str], list[str]]:
    """What is set beside PyTorch's names, which are `given`, and what is to be said."""
    variables = {}
    size = given.get("LOCAL_WORLD_SIZE")
    if size:
        # Lightning refuses a step of --ntasks alone, and believes what the job had rather than the step.
        variables["SLURM_NTASKS_PER_NODE"] = size
    if not frameworks.is_torchrun(environ, command):
        return {**variables, **frameworks.jax_variables(environ, given)}, []
    more, said = frameworks.torchrun_variables(environ, given, command)
    return {**variables, **more}, said
