"""The order of nodes that follows the network: those of one switch or block stand together.

Slurm numbers ranks by its own list of nodes, which knows nothing of the network. In a mesh those ranks talk
most whose numbers are near, so that their nodes should be near too. srun takes an order of ours from a file:
a line for each task, `--distribution=arbitrary`, and the file's name in SLURM_HOSTFILE.
"""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

from slurmkit.script.step import counts_by_gpu
from slurmkit.slurm.hostlist import fold

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from slurmkit.spec.model import JobSpec

HOSTFILE: Final = "SLURM_HOSTFILE"
"""Where it is set, srun goes by the file whatever its options say: no other srun may see it."""
SHOWN_SWITCHES: Final = 8
_PLACING: Final = re.compile(
    r"-[mwxN].*|--(?:distribution|nodelist|exclude|nodefile|nodes|ntasks-per-\w+|relative)(?:=.*)?"
)


class Order(NamedTuple):
    """Nodes in the order in which ranks are laid over them."""

    nodes: tuple[str, ...]
    by: str
    """What it follows, in words."""
    changed: bool
    """Whether it is another than Slurm's."""


def ordered(nodes: Sequence[str], addresses: Mapping[str, str]) -> Order:
    """The nodes with neighbours in the network side by side; otherwise in the order that they have.

    The first node stays the first, as rank 0 and MASTER_ADDR are there, and its switch comes first. Addresses
    are as in SLURM_TOPOLOGY_ADDR, `spine.leaf1.n3`; a node without one is taken for a switch of its own.
    """
    paths = {node: switches(node, addresses.get(node, "")) for node in nodes}
    known = {path for path in paths.values() if path}
    if not known:
        return Order(tuple(nodes), "Slurm's order: it knows nothing of the network", changed=False)
    places: dict[tuple[str, ...], int] = {}
    keys = {}
    for node in nodes:
        path = paths[node] or (node,)
        prefixes = [path[: depth + 1] for depth in range(len(path))]
        keys[node] = [places.setdefault(prefix, len(places)) for prefix in prefixes]
    found = tuple(sorted(nodes, key=keys.__getitem__))
    told = _by_switch(found, paths)
    if len({path or (node,) for node, path in paths.items()}) == 1:
        return Order(found, f"Slurm's order: all nodes are on one switch, {told}", changed=False)
    if found == tuple(nodes):
        return Order(found, f"Slurm's order, which follows the network: {told}", changed=False)
    return Order(found, f"by switch: {told}", changed=True)


def switches(node: str, address: str) -> tuple[str, ...]:
    """The switches above a node, the topmost first; none where the address is the node alone."""
    above = address.removesuffix(node) if address.endswith(f".{node}") else address.rpartition(".")[0]
    return tuple(part for part in above.split(".") if part)


def _by_switch(nodes: Iterable[str], paths: Mapping[str, tuple[str, ...]]) -> str:
    groups = [
        f"{path[-1] if path else 'no switch known'} ({fold(members)})"
        for path, members in groupby(nodes, key=paths.__getitem__)
    ]
    rest = len(groups) - SHOWN_SWITCHES
    return ", ".join(groups[:SHOWN_SWITCHES]) + (f" and {rest} more" if rest > 0 else "")


def why_not(spec: JobSpec, environ: Mapping[str, str]) -> str | None:
    """Why the order of nodes has to stay Slurm's, as a sentence; None where it may be ours."""
    asked = str(spec.resources.get("distribution", "block"))
    method, *more = re.split("[:,]", asked)
    placing = next(filter(_PLACING.fullmatch, spec.launch.srun), None)
    reasons = {
        "the job has no [parallel], so that no rank has neighbours to be near to": spec.parallel is None,
        f"the job asks for distribution = {asked}": method not in {"block", "*"},
        f"beside an order of nodes srun takes no choice of sockets, as in distribution = {asked}": more,
        f"{HOSTFILE} is the job's own": environ.get(HOSTFILE),
        f"[launch] srun has {placing}, which places tasks itself": placing,
        "tasks are counted by GPU, which srun takes in its own order alone": counts_by_gpu(spec),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def hostfile(nodes: Sequence[str], tasks_per_node: int | Mapping[str, int]) -> str:
    """The file for SLURM_HOSTFILE: line n is the node of rank n. Ranks of a node stand together."""
    return "".join(f"{node}\n" for node in node_of_rank(nodes, tasks_per_node))


def node_of_rank(nodes: Sequence[str], tasks_per_node: int | Mapping[str, int]) -> list[str]:
    """The node of every rank, where nodes are filled one after the other."""
    return [
        node
        for node in nodes
        for _ in range(tasks_per_node if isinstance(tasks_per_node, int) else tasks_per_node[node])
    ]


def srun_options(arguments: Iterable[str], ntasks: int) -> tuple[str, ...]:
    """Options of the step's srun, made to go by a file of hosts with so many lines.

    `--ntasks-per-node` would be ignored with a warning where nodes differ; from 24.11 `--nodes` is refused.
    With fewer tasks than lines srun takes the first ones; with more it refuses.
    """
    replaced = ("--distribution=", "--nodes=", "--ntasks=", "--ntasks-per-node=")
    kept = (word for word in arguments if not word.startswith(replaced))
    return (f"--ntasks={ntasks}", "--distribution=arbitrary", *kept)
