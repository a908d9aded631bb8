"""For programs: `from slurmkit.launch import rank_from_env`."""

from __future__ import annotations

import os
from dataclasses import dataclass  # only programs load this module, never the parent of a rank

from slurmkit.launch.devices import device
from slurmkit.launch.environment import rank_variables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


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


def rank_from_env(environ: Mapping[str, str] = os.environ) -> Rank:
    """Who this process is: under slurmkit, torchrun or bare srun; rank 0 of 1 where nothing started it.

    Raises:
        ValueError: variables are there in part only; the message lists what is missing.
    """
    variables = _given(environ) or rank_variables(environ)

    def number(name: str) -> int | None:
        return int(variables[name]) if variables.get(name) else None

    local_rank = int(variables["LOCAL_RANK"])
    return Rank(
        rank=int(variables["RANK"]),
        world_size=int(variables["WORLD_SIZE"]),
        local_rank=local_rank,
        local_world_size=number("LOCAL_WORLD_SIZE"),
        node_rank=int(variables.get("NODE_RANK") or variables["GROUP_RANK"]),
        master_addr=variables.get("MASTER_ADDR"),
        master_port=number("MASTER_PORT"),
        device=device(environ, local_rank),
    )


def _given(environ: Mapping[str, str]) -> Mapping[str, str] | None:
    """The environment itself where the launcher has set PyTorch's variables: slurmkit's or torchrun's.

    They go before Slurm's: below torchrun these are the launcher's own.
    """
    group = "NODE_RANK" if "NODE_RANK" in environ else "GROUP_RANK"
    needed = ("RANK", "WORLD_SIZE", "LOCAL_RANK", group)
    return environ if all(environ.get(name, "").isdigit() for name in needed) else None
