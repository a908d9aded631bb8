"""scontrol: its answers of `Key=value` text as records."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from slurmkit.launch.hostlist import expand
from slurmkit.slurm.records import Node, Partition
from slurmkit.slurm.rows import number, text_or_none
from slurmkit.slurm.states import NodeState
from slurmkit.slurm.times import parse_duration
from slurmkit.slurm.tres import Tres

if TYPE_CHECKING:
    from collections.abc import Mapping

_FIELD = re.compile(r"(?:\A|(?<=\s))(\w+)=(\S*)")
_REASON = re.compile(r"\sReason=(?P<text>.*?)\s\[\S+@\S+\](?P<more>(?s:.*?))(?=\s(?:Comment|Extra)=|\s*\Z)")
_MEBIBYTE = 1024**2


def parse_nodes(text: str) -> list[Node]:
    """The answer to `scontrol --details --oneliner show node`.

    Raises:
        ValueError: the text is not what scontrol prints.
    """
    return [_node(record) for record in _records(text, "NodeName")]


def parse_partitions(text: str) -> list[Partition]:
    """The answer to `scontrol --oneliner show partition`.

    Raises:
        ValueError: the text is not what scontrol prints.
    """
    return [_partition(_fields(record)) for record in _records(text, "PartitionName")]


def parse_topology(text: str) -> dict[str, str]:
    """The answer to `scontrol show topology` as SLURM_TOPOLOGY_ADDR has it: node to `spine.leaf1.n3`.

    Of switches the higher level stands before the lower, of blocks the larger before the smaller.

    Raises:
        ValueError: a list of nodes is not one.
    """
    above: dict[str, list[tuple[int, str]]] = {}
    for record in re.findall(r"(?m)^(?:SwitchName|BlockName|AggregatedBlock)=.*$", text):
        told = _fields(record)
        level = number(told.get("Level", told.get("BlockSize"))) or 0
        for node in expand(text_or_none(told.get("Nodes")) or ""):
            above.setdefault(node, []).append((-level, record.partition("=")[2].split()[0]))
    return {node: ".".join([*(name for _, name in sorted(found)), node]) for node, found in above.items()}


def parse_config(text: str) -> dict[str, str]:
    """The answer to `scontrol show config`."""
    pairs = (line.partition(" = ") for line in text.splitlines())
    return {key.strip(): value.strip() for key, equals, value in pairs if equals}


def parse_version(text: str) -> tuple[int, int, int]:
    """The answer to `--version`: `slurm-wlm 22.05.8`, `slurm 24.11.5-1`.

    Raises:
        ValueError: there is no version in it.
    """
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    if found is None:
        raise ValueError(f"not a version of Slurm: {text!r}")
    return int(found[1]), int(found[2]), int(found[3] or 0)


def _records(text: str, first: str) -> list[str]:
    """One text per record. A reason that an admin typed over several lines stays in its own."""
    return [record for record in re.split(rf"(?m)^(?={first}=)", text) if record.startswith(f"{first}=")]


def _fields(record: str) -> dict[str, str]:
    """Values without blanks, by key; of two alike the first counts: free text stands at the end."""
    return {found[1]: found[2] for found in reversed(list(_FIELD.finditer(record)))}


def _node(record: str) -> Node:
    told = _fields(record)
    features = text_or_none(told.get("ActiveFeatures"))
    partitions = text_or_none(told.get("Partitions"))
    return Node(
        name=told["NodeName"],
        address=told.get("NodeAddr", told["NodeName"]),
        hostname=told.get("NodeHostName", told["NodeName"]),
        state=NodeState.parse(told["State"]),
        reason=_reason(record),
        cpus=number(told.get("CPUTot")) or 0,
        cpus_allocated=number(told.get("CPUAlloc")) or 0,
        memory=(number(told.get("RealMemory")) or 0) * _MEBIBYTE,
        memory_allocated=(number(told.get("AllocMem")) or 0) * _MEBIBYTE,
        gres=text_or_none(told.get("Gres")),
        gres_used=text_or_none(told.get("GresUsed")),
        tres=_tres(told.get("CfgTRES")),
        tres_allocated=_tres(told.get("AllocTRES")),
        features=tuple(features.split(",")) if features else (),
        partitions=tuple(partitions.split(",")) if partitions else (),
    )


def _reason(record: str) -> str | None:
    """Without the user and the time that scontrol puts behind its first line."""
    found = _REASON.search(record)
    if found is None:
        return None
    return "\n".join([found["text"], *(line.strip() for line in found["more"].split("\n") if line.strip())])


def _partition(told: Mapping[str, str]) -> Partition:
    return Partition(
        name=told["PartitionName"],
        is_default=told.get("Default") == "YES",
        state=told.get("State", "UNKNOWN"),
        nodes=tuple(expand(text_or_none(told.get("Nodes")) or "")),
        max_time=parse_duration(told.get("MaxTime", "")),
        default_time=parse_duration(told.get("DefaultTime", "")),
        max_nodes=number(told.get("MaxNodes")),
        tres=_tres(told.get("TRES")),
    )


def _tres(text: str | None) -> Tres | None:
    given = text_or_none(text)
    return None if given is None else Tres.parse(given)
