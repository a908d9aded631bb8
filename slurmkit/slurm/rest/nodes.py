"""Nodes and partitions as slurmrestd tells them, as records: the same that scontrol's text makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slurmkit.launch.hostlist import expand
from slurmkit.slurm.records import Node, Partition
from slurmkit.slurm.rest import wire
from slurmkit.slurm.states import NodeState

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

_MEBIBYTE = 1024**2


def parse_nodes(answer: Mapping[str, Any]) -> list[Node]:
    """The nodes of an answer.

    Raises:
        ValueError: a field is missing or cannot be read.
    """
    return [_node(record) for record in wire.records(answer, "nodes")]


def parse_partitions(answer: Mapping[str, Any]) -> list[Partition]:
    """The partitions of an answer.

    Raises:
        ValueError: a field is missing or cannot be read.
    """
    return [_partition(record) for record in wire.records(answer, "partitions")]


def _node(record: Mapping[str, Any]) -> Node:
    name = str(wire.need(record, "name"))
    # v0.0.38 tells the flags apart from the base, later versions all in one list.
    states = [*wire.words(wire.need(record, "state")), *wire.words(record.get("state_flags"))]
    return Node(
        name=name,
        address=wire.text(record.get("address")) or name,
        hostname=wire.text(record.get("hostname")) or name,
        state=NodeState.parse("+".join(states)),
        reason=wire.text(record.get("reason")),
        cpus=wire.number(wire.need(record, "cpus")) or 0,
        cpus_allocated=wire.number(record.get("alloc_cpus")) or 0,
        memory=(wire.number(wire.need(record, "real_memory")) or 0) * _MEBIBYTE,
        memory_allocated=(wire.number(record.get("alloc_memory")) or 0) * _MEBIBYTE,
        gres=wire.text(record.get("gres")),
        gres_used=wire.text(record.get("gres_used")),
        tres=wire.tres(record.get("tres")),
        tres_allocated=wire.tres(record.get("tres_used")),
        features=wire.words(record.get("active_features")),
        partitions=wire.words(record.get("partitions")),
    )


def _partition(record: Mapping[str, Any]) -> Partition:
    is_flat = "max_time_limit" in record  # v0.0.38
    return Partition(
        name=str(wire.need(record, "name")),
        is_default="DEFAULT" in map(str.upper, wire.words(record.get("flags"))),
        state="+".join(
            wire.words(wire.need(record, "state") if is_flat else wire.need(record, "partition", "state"))
        ),
        nodes=tuple(
            expand(
                wire.text(record.get("nodes") if is_flat else wire.look(record, "nodes", "configured")) or ""
            )
        ),
        max_time=_limit(record, "max_time_limit", "maximums", "time"),
        default_time=_limit(record, "default_time_limit", "defaults", "time"),
        max_nodes=wire.number(
            record.get("maximum_nodes_per_job") if is_flat else wire.look(record, "maximums", "nodes")
        ),
        tres=wire.tres(record.get("tres") if is_flat else wire.look(record, "tres", "configured")),
    )


def _limit(record: Mapping[str, Any], flat: str, *path: str) -> timedelta | None:
    return wire.minutes(record[flat] if flat in record else wire.look(record, *path))
