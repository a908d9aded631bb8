"""`slurmkit fabric-check`: the job that measures, and its result as records. `fabric_program` measures."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurmkit.errors import JobFailed, UsageError
from slurmkit.inventory import fabric_program

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from slurmkit.run.paths import RunPaths
    from slurmkit.spec import Loaded


@dataclass(frozen=True, slots=True)
class Size:
    """All-reduce over all ranks at one message size. Bandwidths are bytes per second."""

    bytes: int
    seconds: float
    algorithm_bandwidth: float
    bus_bandwidth: float


@dataclass(frozen=True, slots=True)
class Link:
    """What was measured between two nodes. Seconds; bytes per second of the slowest rank."""

    nodes: tuple[str, str]
    seconds: float | None
    latency: float | None
    bandwidth: float | None
    lane: int | None
    """Place of that rank among those of its node."""
    again: bool
    error: str | None


@dataclass(frozen=True, slots=True)
class Fabric:
    """The result of one check."""

    transport: str
    """nccl, gloo, or sockets."""
    why: str
    """Why nothing better; empty where there is nothing better."""
    torch: str | None
    nodes: tuple[str, ...]
    ranks: int
    lanes: int
    pair_bytes: int
    world: tuple[Size, ...]
    links: tuple[Link, ...]
    is_complete: bool
    measuring: tuple[tuple[str, str], ...]
    """The pairs that were being measured when the result was written."""
    world_error: str | None
    adds_up: bool | None
    started: float
    """Epoch seconds."""


def bus_bandwidth(size: int, seconds: float, ranks: int) -> float:
    """Bytes per second that a link of the ring carries: size/time * 2(n-1)/n.

    Source: PERFORMANCE.md of NVIDIA's nccl-tests. It can be compared between worlds of any size.
    """
    return size / seconds * 2 * (ranks - 1) / ranks


def check_job(
    resources: Mapping[str, object],
    overrides: Sequence[str] = (),
    *,
    python: str = sys.executable,
    arguments: Sequence[str] = (),
) -> Loaded:
    """The job of a check: sbatch's options from `resources`, the user's `--set` over them.

    It starts in the current directory.

    Raises:
        JobFileError: an option is wrong.
    """
    from msgspec.structs import replace

    from slurmkit.spec import load
    from slurmkit.templating import template_root

    command = [python, fabric_program.__file__, *arguments]
    own = {f"resources.{name}": value for name, value in resources.items() if value is not None}
    if own.get("resources.gpus_per_node") is not None:
        own["launch.ntasks_per_node"] = "gpu"
    own["command"] = command
    # JSON's texts, numbers and lists are TOML's, but for a DEL.
    texts = [f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in own.items()]
    loaded = load(template_root() / "jobs" / "fabric-check.toml", [*texts, *overrides])
    return replace(loaded, directory=Path.cwd())


def read(paths: RunPaths) -> Fabric:
    """What a run of the check has found so far.

    Raises:
        JobFailed: it has found nothing.
        UsageError: what is there cannot be read, or the run is no fabric check.
    """
    file = paths.root / fabric_program.RESULT
    try:
        return from_json(json.loads(file.read_bytes()))
    except FileNotFoundError as error:
        raise JobFailed(
            "the check has no result",
            where=str(paths.root),
            hint=f"slurmkit show {paths.run_id} tells how far it came",
        ) from error
    except (OSError, ValueError, TypeError, LookupError) as error:
        raise UsageError(f"the result of the check cannot be read: {error}", where=str(file)) from error


def from_json(data: Mapping[str, Any]) -> Fabric:
    """The result as the program wrote it.

    Raises:
        ValueError: it is of another format.
    """
    if data["format"] != fabric_program.FORMAT:
        raise ValueError(f"format {data['format']} is none that this version knows")
    nodes, ranks, pair_bytes = tuple(data["nodes"]), data["ranks"], data["pair_bytes"]

    def names(pair: Sequence[int]) -> tuple[str, str]:
        return nodes[pair[0]], nodes[pair[1]]

    def link(one: Mapping[str, Any]) -> Link:
        seconds = one["seconds"]
        bandwidth = None if seconds is None else pair_bytes / seconds
        return Link(
            names(one["nodes"]), seconds, one["latency"], bandwidth, one["lane"], one["again"], one["error"]
        )

    return Fabric(
        transport=data["transport"],
        why=data["why"],
        torch=data["torch"],
        nodes=nodes,
        ranks=ranks,
        lanes=data["lanes"],
        pair_bytes=pair_bytes,
        world=tuple(
            Size(size, seconds, size / seconds, bus_bandwidth(size, seconds, ranks))
            for size, seconds in ((one["bytes"], one["seconds"]) for one in data["world"])
        ),
        links=tuple(map(link, data["pairs"])),
        is_complete=data["complete"],
        measuring=tuple(map(names, data["measuring"])),
        world_error=data["world_error"],
        adds_up=data["adds_up"],
        started=data["started"],
    )
