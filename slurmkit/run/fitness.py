"""What the check of nodes found: which are unfit, and why."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitness:
    """What is known of the nodes before the start."""

    unfit: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    warnings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    topology: Mapping[str, str] = field(default_factory=dict)
    """Each node's SLURM_TOPOLOGY_ADDR."""
    seconds: float = 0.0
    why_not: str | None = None
    """Why nothing could be checked, where that is so: no fault of any node."""
    told_to_end: bool = False
    """Whether SIGTERM came meanwhile; it is still to be received."""


def judge(
    nodes: Iterable[str], records: Mapping[str, Mapping[str, Any]], said: Sequence[str], late: float | None
) -> Fitness:
    """Which nodes are unfit. `said` is srun's stderr; `late`: the seconds after which the step was ended.

    Where not one node has answered, it is the check that failed, not they.
    """
    nodes = list(nodes)
    if not any(node in records for node in nodes):
        last = next((line for line in reversed(said) if line.strip()), "")
        return Fitness(
            why_not=last or (f"no node answered within {late:g} s" if late else "no node answered")
        )
    unfit: dict[str, tuple[str, ...]] = {}
    for node in nodes:
        if node in records:
            problems = tuple(map(str, records[node].get("problems") or ()))
        else:
            named = [
                line.strip() for line in said if re.search(rf"(?<![\w-]){re.escape(node)}(?![\w-])", line)
            ]
            problems = tuple(named[-1:]) or (f"no answer within {late:g} s" if late else "no answer",)
        if problems:
            unfit[node] = problems
    return Fitness(
        unfit=unfit,
        warnings={
            node: tuple(map(str, records[node]["warnings"]))
            for node in nodes
            if node in records and records[node].get("warnings")
        },
        topology={
            node: str(records[node]["topology"])
            for node in nodes
            if node in records and records[node].get("topology")
        },
    )


def read_records(folder: Path) -> dict[str, dict[str, Any]]:
    """What the nodes wrote, by name; what is no record is passed over."""
    records = {}
    for path in folder.glob("*.json"):
        try:
            record = json.loads(path.read_bytes())
            records[str(record["node"])] = record
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return records
