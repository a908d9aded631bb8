"""The mesh of a job file: does it come out, and what would its groups cost?

A rule of `slurmkit.spec.conflicts`; the agent makes the same check on the nodes and tasks that Slurm gave.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import msgspec

from slurmkit.launch.mesh import ORDER, Mesh, crossing
from slurmkit.spec.gres import gpu_count, node_count, tasks
from slurmkit.spec.problems import KeyPath, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from slurmkit.spec.model import JobSpec, Parallel

COST: Final = (
    "the ranks of such a group exchange data in every layer, many times a step, and between nodes that takes "
    "the network, often ten times slower than the links inside a node"
)
SIZED: Final = ("pipeline", "context", "tensor")
"""Axes whose size is the user's choice, the cheapest to change first."""
LARGEST: Final = 2**17
"""Ranks of a world that are looked at one by one; of a larger one the layout is left open."""
LARGEST_SIZE: Final = 4096
"""Of the sizes that an error names as fitting."""
_DISTRIBUTION: Final = re.compile(r"(?:--distribution=|-m=?)(?P<method>.+)")


def mesh_of(parallel: Parallel, world_size: int) -> Mesh:
    """The mesh of so many ranks; `data` is what is left.

    Raises:
        ValueError: the sizes do not make that number of ranks, or contradict each other.
    """
    model = parallel.tensor * parallel.pipeline * parallel.context
    factors = " x ".join(
        f"{axis} {getattr(parallel, axis)}" for axis in ORDER if getattr(parallel, axis) not in {None, 1}
    )
    if parallel.data is None and world_size % model:
        less, more = world_size // model * model, (world_size // model + 1) * model
        fit = f"{more} ranks" if not less else f"{less} or {more} ranks"
        raise ValueError(f"{factors} does not divide the {world_size} ranks of the step; {fit} would fit")
    data = world_size // model if parallel.data is None else parallel.data
    if model * data != world_size:
        raise ValueError(f"{factors or 'data 1'} makes {model * data} ranks, the step has {world_size}")
    sizes = {
        "tensor": parallel.tensor,
        "pipeline": parallel.pipeline,
        "context": parallel.context,
        "data": data,
        "expert": parallel.expert,
    }
    return Mesh(sizes, parallel.order)


def mesh_text(spec: JobSpec, world_size: int) -> str | None:
    """What SLURMKIT_PARALLEL tells the ranks of a world of that size; None without [parallel].

    Raises:
        ValueError: as in `mesh_of`.
    """
    return None if spec.parallel is None else str(mesh_of(spec.parallel, world_size))


def world_size(spec: JobSpec) -> int | None:
    """How many ranks the program has, where the job file determines it."""
    if spec.launch.launcher == "torchrun":
        nodes, per_node = node_count(spec.resources), _ranks_per_node(spec)
        return None if nodes is None or per_node is None else nodes * per_node
    return tasks(spec).ntasks


def node_of_rank(spec: JobSpec, size: int) -> list[int] | None:
    """The node of every rank as Slurm will place it; None where the job file leaves that open."""
    nodes, per_node = node_count(spec.resources), _ranks_per_node(spec)
    if nodes is None or per_node is None or per_node * nodes != size or size > LARGEST:
        return None
    method = distribution(spec)
    if method == "cyclic":
        return [rank % nodes for rank in range(size)]
    if method == "block":
        return [rank // per_node for rank in range(size)]
    plane = method.removeprefix("plane=")
    if plane.isdecimal() and int(plane) and per_node % int(plane) == 0:
        return [rank // int(plane) % nodes for rank in range(size)]
    return None


def distribution(spec: JobSpec) -> str:
    """How Slurm deals tasks to nodes: `block`, `cyclic`, `plane=2`; [launch] srun has the last word."""
    if spec.launch.launcher == "torchrun":
        return "block"  # of the ranks, which torchrun numbers node by node
    asked = str(spec.resources.get("distribution", "block"))
    for option, value in pairwise((*spec.launch.srun, "")):
        if option in {"--distribution", "-m"}:
            asked = value
        elif found := _DISTRIBUTION.fullmatch(option):
            asked = found["method"]
    method = re.split("[:,]", asked)[0].lower()
    return "block" if method == "*" else method


def _ranks_per_node(spec: JobSpec) -> int | None:
    if spec.launch.launcher != "torchrun":
        return tasks(spec).per_node
    gpus = gpu_count(spec)
    return gpus.per_node if gpus else 1


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
        yield from _whatever_the_nodes(spec, parallel)
        return
    try:
        mesh = mesh_of(parallel, size)
    except ValueError as error:
        yield _misfit(parallel, size, str(error))
        return
    nodes = node_of_rank(spec, size)
    spread = None if nodes is None or parallel.allow_cross_node else _spread(mesh, nodes)
    if spread:
        right = f"{_right(spec, mesh)}; or say allow_cross_node = true, if it must be"
        yield Problem(("parallel", "tensor"), f"parallel.tensor: {spread}", right)


def layout_problems(parallel: Parallel, mesh: Mesh, nodes: Sequence[object]) -> list[str]:
    """What is wrong with the mesh on nodes as they are: `nodes[rank]` is the rank's."""
    if len(nodes) != mesh.world_size:
        return [f"the mesh has {mesh.world_size} ranks, the step has {len(nodes)}"]
    spread = None if parallel.allow_cross_node else _spread(mesh, nodes)
    return [f"{spread}; [parallel] allow_cross_node = true lets it be"] if spread else []


def _spread(mesh: Mesh, nodes: Sequence[object]) -> str | None:
    """Which tensor group is not within a node, and what that costs."""
    crossed = crossing(mesh, "tensor", nodes)
    if not crossed:
        return None
    first = crossed[0]
    is_run = first[-1] - first[0] == len(first) - 1
    ranks = f"{first[0]} to {first[-1]}" if is_run else ", ".join(map(str, first))
    count = len({nodes[rank] for rank in first})
    many = "" if len(crossed) == 1 else f" ({len(crossed)} such groups)"
    return f"the tensor group of ranks {ranks} is spread over {count} nodes{many}: {COST}"


def _misfit(parallel: Parallel, size: int, why: str) -> Problem:
    """The key to change, and the sizes of it that fit where the others stay."""
    left = size // (parallel.tensor * parallel.pipeline * parallel.context)
    if parallel.data is not None and left and _fits(parallel, size, "data", left):
        right = f"leave data out, which is what is left, or say data = {left}"
        return Problem(("parallel", "data"), f"parallel: {why}", right)
    changeable = [axis for axis in ("expert", *SIZED) if getattr(parallel, axis) > 1]
    for axis in changeable:
        fitting = [value for value in _divisors(size) if _fits(parallel, size, axis, value)]
        if fitting:
            right = f"with the others as they are, {axis} = {_choice(fitting)} would fit"
            return Problem(("parallel", axis), f"parallel: {why}", right)
    key = ("parallel", "data") if parallel.data is not None else ("parallel",)
    return Problem(key, f"parallel: {why}", at="key")


def _fits(parallel: Parallel, size: int, axis: str, value: int) -> bool:
    try:
        mesh_of(msgspec.structs.replace(parallel, **{axis: value}), size)
    except ValueError:
        return False
    return True


def _right(spec: JobSpec, mesh: Mesh) -> str:
    """What would keep the tensor groups within their nodes."""
    per_node, method = _ranks_per_node(spec), distribution(spec)
    if method != "block":
        return f"distribution = {method} deals neighbours to different nodes: block keeps them together"
    if mesh.order[0] != "tensor":
        return f"{mesh.order[0]} varies faster: put tensor first in parallel.order"
    sizes = [value for value in _divisors(per_node or 1) if 1 < value < mesh.sizes["tensor"]]
    return f"a node has {per_node} ranks: tensor = {_choice(sizes or [1])} stays within one"


def _whatever_the_nodes(spec: JobSpec, parallel: Parallel) -> Iterator[Problem]:
    """What is wrong with any number of nodes, where that is open."""
    per_node, tensor = _ranks_per_node(spec), parallel.tensor
    is_innermost = tuple(parallel.order)[:1] in {(), ("tensor",)} and distribution(spec) == "block"
    if per_node and is_innermost and per_node % tensor and not parallel.allow_cross_node:
        sizes = [value for value in _divisors(per_node) if value < tensor]
        yield Problem(
            ("parallel", "tensor"),
            f"parallel.tensor: groups of {tensor} ranks cross nodes of {per_node}: {COST}",
            f"tensor = {_choice(sizes)} stays within a node; or say allow_cross_node = true, if it must be",
        )


def _divisors(number: int) -> list[int]:
    return [value for value in range(1, min(number, LARGEST_SIZE) + 1) if number % value == 0]


def _choice(values: Sequence[int]) -> str:
    """`1, 2 or 4`; of many the greatest."""
    *some, last = map(str, values[-6:])
    return f"{', '.join(some)} or {last}" if some else last


def _order(parallel: Parallel) -> Iterator[Problem]:
    order = parallel.order
    path: KeyPath = ("parallel", "order")
    twice = next((axis for axis in order if order.count(axis) > 1), None)
    if twice:
        yield Problem(path, f"parallel.order: an axis is named twice: {twice}")
    if "expert" in order:
        why = "experts have no place of their own: they are dealt over context and data"
        yield Problem(path, f"parallel.order: {why}; leave expert out")
    missing = [axis for axis in ORDER if order and axis not in order and getattr(parallel, axis) != 1]
    if missing:
        yield Problem(
            path, f"parallel.order: {' and '.join(missing)} left out; name every axis of more than one rank"
        )
