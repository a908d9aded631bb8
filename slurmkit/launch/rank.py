"""For programs: `from slurmkit.launch import rank_from_env`."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field  # only programs load this module, never the parent of a rank

from slurmkit.launch.devices import device
from slurmkit.launch.environment import rank_variables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class MeshPlace:
    """Where a rank stands in the mesh of `[parallel]`, by axis: tensor, context, data, pipeline, expert."""

    order: tuple[str, ...]
    """From the fastest varying axis to the slowest."""
    sizes: Mapping[str, int]
    coordinates: Mapping[str, int]
    groups: Mapping[str, tuple[int, ...]]
    """The ranks that differ from this one on that axis only, itself included, by coordinate."""


@dataclass(frozen=True)
class Rank:
    """Who this process is, in PyTorch's words. What nothing tells is None."""

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int | None
    node_rank: int
    master_addr: str | None
    master_port: int | None
    device: int | None
    """Index of this rank's GPU among those that it sees."""
    mesh: MeshPlace | None = field(default=None, hash=False)


def rank_from_env(environ: Mapping[str, str] = os.environ) -> Rank:
    """Who this process is: under slurmkit, torchrun or bare srun; rank 0 of 1 where nothing started it.

    Raises:
        ValueError: variables are there in part only; the message lists what is missing.
    """
    variables = _given(environ) or rank_variables(environ)

    def number(name: str) -> int | None:
        return int(variables[name]) if variables.get(name) else None

    rank, local_rank = int(variables["RANK"]), int(variables["LOCAL_RANK"])
    return Rank(
        rank=rank,
        world_size=int(variables["WORLD_SIZE"]),
        local_rank=local_rank,
        local_world_size=number("LOCAL_WORLD_SIZE"),
        node_rank=int(variables.get("NODE_RANK") or variables["GROUP_RANK"]),
        master_addr=variables.get("MASTER_ADDR"),
        master_port=number("MASTER_PORT"),
        device=device(environ, local_rank),
        mesh=_mesh(environ, rank),
    )


def _mesh(environ: Mapping[str, str], rank: int) -> MeshPlace | None:
    text = environ.get("SLURMKIT_MESH")
    if "TORCHELASTIC_RUN_ID" in environ and environ.get("SLURMKIT_PARALLEL"):
        # The ranks are torchrun's: the parent, which has one task for many of them, could not place them.
        from slurmkit.launch import mesh

        text = mesh.variables(environ["SLURMKIT_PARALLEL"], rank)
    if not text:
        return None
    told = json.loads(text)
    groups = {axis: tuple(ranks) for axis, ranks in told["groups"].items()}
    return MeshPlace(tuple(told["order"]), told["sizes"], told["coordinates"], groups)


def _given(environ: Mapping[str, str]) -> Mapping[str, str] | None:
    """The environment itself where the launcher has set PyTorch's variables: slurmkit's or torchrun's.

    They go before Slurm's: below torchrun these are the launcher's own.
    """
    group = "NODE_RANK" if "NODE_RANK" in environ else "GROUP_RANK"
    needed = ("RANK", "WORLD_SIZE", "LOCAL_RANK", group)
    return environ if all(environ.get(name, "").isdigit() for name in needed) else None
