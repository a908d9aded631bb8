"""The mesh of a job file: does it come out, and what would its groups cost?

A rule of `slurmkit.spec.conflicts`; the agent makes the same check on the nodes and tasks that Slurm gave.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmkit.launch.mesh import ORDER, Mesh, crossing
from slurmkit.spec.gres import gpu_count, node_count, tasks
from slurmkit.spec.problems import KeyPath, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from slurmkit.spec.model import JobSpec, Parallel

COST = (
    "its ranks exchange data in every layer, many times a step, and between nodes that takes the network, "
    "often ten times slower than the links inside a node"
)


def mesh_of(parallel: Parallel, world_size: int) -> Mesh:
    """The mesh of so many ranks; `data` is what is left.

    Raises:
        ValueError: the sizes do not make that number of ranks, or contradict each other.
    """
    model = parallel.tensor * parallel.pipeline * parallel.context
    factors = " x ".join(
        f"{axis} {getattr(parallel, axis)}"
        for axis in ("tensor", "context", "data", "pipeline")
        if getattr(parallel, axis) not in {None, 1}
    )
    if parallel.data is None and world_size % model:
        less, more = world_size // model * model, (world_size // model + 1) * model
        fit = f"{more} ranks" if not less else f"{less} or {more} ranks"
        raise ValueError(f"{factors} does not divide the {world_size} ranks of the step; {fit} would fit")
    data = world_size // model if parallel.data is None else parallel.data
    if model * data != world_size:
        raise ValueError(
            f"{factors or 'data 1'} makes {model * data} ranks, the step has {world_size}; "
            "data left out is what is left"
        )
    sizes = {
        "tensor": parallel.tensor,
        "pipeline": parallel.pipeline,
        "context": parallel.context,
        "data": data,
        "expert": parallel.expert,
    }
    return Mesh(sizes, parallel.order)


def world_size(spec: JobSpec) -> int | None:
    """How many ranks the program has, where the job file determines it."""
    if spec.launch.launcher == "torchrun":
        return gpu_count(spec).total
    return tasks(spec).ntasks


def node_of_rank(spec: JobSpec, size: int) -> list[int] | None:
    """The node of every rank as Slurm will place it; None where the job file leaves that open."""
    nodes = node_count(spec.resources)
    if nodes is None:
        return None
    per_node = gpu_count(spec).per_node if spec.launch.launcher == "torchrun" else tasks(spec).per_node
    method = str(spec.resources.get("distribution", "block")).partition(":")[0].partition(",")[0]
    if method == "cyclic":
        return [rank % nodes for rank in range(size)]
    if method not in {"block", "*"} or per_node is None or per_node * nodes != size:
        return None
    return [rank // per_node for rank in range(size)]


def mesh_problems(spec: JobSpec) -> Iterator[Problem]:
    """What does not come out in [parallel]."""
    parallel = spec.parallel
    if parallel is None:
        return
    wrong = list(_order(parallel))
    if wrong:
        yield from wrong
        return
    size = world_size(spec)
    if size is None:
        return
    try:
        mesh = mesh_of(parallel, size)
    except ValueError as error:
        key: KeyPath = ("parallel", "expert") if str(error).startswith("expert") else ("parallel",)
        yield Problem(key, f"parallel: {error}", at="key")
        return
    nodes = node_of_rank(spec, size)
    if nodes is not None:
        for problem in layout_problems(parallel, mesh, nodes):
            yield Problem(("parallel", "tensor"), f"parallel.tensor: {problem}")


def layout_problems(parallel: Parallel, mesh: Mesh, nodes: Sequence[object]) -> list[str]:
    """What is wrong with the mesh on nodes as they are: `nodes[rank]` is the rank's."""
    if parallel.allow_cross_node:
        return []
    crossed = crossing(mesh, "tensor", nodes)
    if not crossed:
        return []
    first = crossed[0]
    ranks = (
        f"{first[0]} to {first[-1]}" if first[-1] - first[0] == len(first) - 1 else ", ".join(map(str, first))
    )
    count = len({nodes[rank] for rank in first})
    many = "" if len(crossed) == 1 else f" ({len(crossed)} such groups)"
    return [
        f"the tensor group of ranks {ranks} is spread over {count} nodes{many}: {COST}; "
        "choose a tensor size that divides the ranks of a node, or say allow_cross_node = true"
    ]


def _order(parallel: Parallel) -> Iterator[Problem]:
    order = parallel.order
    path: KeyPath = ("parallel", "order")
    if len(set(order)) < len(order):
        yield Problem(path, "parallel.order: an axis is named twice")
    if "expert" in order:
        why = "experts have no place of their own: they are dealt over context and data"
        yield Problem(path, f"parallel.order: {why}; leave expert out")
    missing = [axis for axis in ORDER if order and axis not in order and getattr(parallel, axis) != 1]
    if missing:
        yield Problem(
            path, f"parallel.order: {' and '.join(missing)} left out; name every axis of more than one rank"
        )
