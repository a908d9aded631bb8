"""Which of the allocation's nodes the step uses, and in which order: fit ones, as the network joins them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from slurmkit.errors import JobFailed
from slurmkit.launch.files import write_atomically
from slurmkit.launch.tasks import tasks_per_node
from slurmkit.recovery import report
from slurmkit.recovery.node_order import hostfile, node_of_rank, ordered, why_not
from slurmkit.recovery.step import world_size
from slurmkit.spec.gres import tasks
from slurmkit.spec.mesh import distribution, layout_problems, mesh_of
from slurmkit.spec.mesh import node_of_rank as mesh_layout

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from slurmkit.launch.mesh import Mesh
    from slurmkit.recovery.setting import Setting


class Placement(NamedTuple):
    """The step's nodes in the order of its ranks, and what srun and the ranks are told of it."""

    nodes: tuple[str, ...]
    is_all: bool = True
    """Whether these are all nodes of the allocation, so that srun needs no list of them."""
    hostfile: Path | None = None
    """The file with the node of every rank, where the order is not Slurm's."""
    ntasks: int | None = None
    """Lines of that file."""
    mesh: str | None = None
    """For SLURMKIT_PARALLEL."""


def choose(nodes: Sequence[str], spares: int, unfit: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """The nodes for the step: the first that are fit, spares standing in for those that are not.

    Raises:
        JobFailed: too few are fit; the message names the others and says why.
    """
    needed = len(nodes) - spares
    fit = [node for node in nodes if node not in unfit]
    if len(fit) >= needed:
        return tuple(fit[:needed])
    named = "; ".join(f"{node}: {', '.join(unfit[node])}" for node in nodes if node in unfit)
    raise JobFailed(
        f"{needed} nodes are needed, and {len(fit)} of {len(nodes)} are fit: {named}",
        hint="exclude the nodes, ask for spare_nodes, or turn the check off: [launch] check_nodes = false",
    )


def place(setting: Setting, nodes: tuple[str, ...], topology: Mapping[str, str]) -> Placement:
    """Lay the ranks over the chosen nodes, and check that their mesh comes out there.

    `topology` is each node's SLURM_TOPOLOGY_ADDR, where it is known.

    Raises:
        JobFailed: the mesh does not come out on the nodes and tasks that Slurm gave.
        UsageError: the file of hosts cannot be written.
    """
    spec, this = setting.spec, setting.attempt
    is_all = len(nodes) == len(this.nodes)
    mesh = _checked_mesh(setting, nodes)
    text = str(mesh) if mesh else None
    as_slurm_has_it = Placement(nodes, is_all=is_all, mesh=text)
    if why_not(spec, setting.environ) is not None:
        return as_slurm_has_it
    counts = _counts(setting, nodes)
    order = ordered(nodes, topology)
    if not order.changed or counts is None or _takes_groups_apart(setting, mesh, order.nodes):
        return as_slurm_has_it
    file = setting.paths.checks(this.name) / "hosts"
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, hostfile(order.nodes, counts).encode())
    setting.note("nodes-ordered", nodes=list(order.nodes), by=order.by)
    report.say(f"the order of nodes is {order.by}")
    return Placement(order.nodes, is_all=is_all, hostfile=file, ntasks=sum(counts.values()), mesh=text)


def _checked_mesh(setting: Setting, nodes: Sequence[str]) -> Mesh | None:
    """The mesh of the ranks that the step will have."""
    parallel = setting.spec.parallel
    size = world_size(setting.spec, setting.attempt, setting.environ)
    if parallel is None or size is None:
        return None
    try:
        mesh = mesh_of(parallel, size)
    except ValueError as error:
        raise JobFailed(f"[parallel] does not come out: {error}") from error
    placed = _foreseen(setting, nodes, size)
    problems = layout_problems(parallel, mesh, placed) if placed and len(placed) == size else []
    if problems:
        raise JobFailed(f"[parallel] does not come out on these nodes: {problems[0]}")
    return mesh


def _foreseen(setting: Setting, nodes: Sequence[str], size: int) -> list[str] | None:
    """Where Slurm puts each rank; None where that is not foreseen here."""
    even = mesh_layout(setting.spec, size)
    if even is not None and max(even) < len(nodes):
        return [nodes[at] for at in even]
    counts = _counts(setting, nodes)
    return node_of_rank(nodes, counts) if counts and distribution(setting.spec) == "block" else None


def _takes_groups_apart(setting: Setting, mesh: Mesh | None, nodes: Sequence[str]) -> bool:
    """Whether uneven nodes in another order would have tensor groups cross."""
    parallel, counts = setting.spec.parallel, _counts(setting, nodes)
    if mesh is None or parallel is None or counts is None or sum(counts.values()) != mesh.world_size:
        return False
    return bool(layout_problems(parallel, mesh, node_of_rank(nodes, counts)))


def _counts(setting: Setting, nodes: Sequence[str]) -> dict[str, int] | None:
    """How many tasks each node has, as the job file or Slurm says it."""
    per_node = tasks(setting.spec).per_node
    if per_node is not None:
        return dict.fromkeys(nodes, per_node)
    try:
        counts = tasks_per_node(setting.environ.get("SLURM_TASKS_PER_NODE", ""))
    except ValueError:
        return None
    return dict(zip(nodes, counts, strict=True)) if len(counts) == len(nodes) else None
