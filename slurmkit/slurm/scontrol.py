"""scontrol: its answers of `Key=value` text as records."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from slurmkit.launch.hostlist import expand
from slurmkit.slurm.exitcode import ExitCode
from slurmkit.slurm.ids import JobId
from slurmkit.slurm.records import Node, Partition
from slurmkit.slurm.states import NodeState
from slurmkit.slurm.times import parse_duration
from slurmkit.slurm.tres import Tres

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_KEY = re.compile(r"(?:\A|\s)([A-Z][A-Za-z_:/]*)=")
_ENDED = re.compile(
    r"^JobId=(\d+)(?: ArrayJobId=(\d+) ArrayTaskId=(\d+))?(?: HetJobId=(\d+) HetJobOffset=(\d+))?"
    r".*? ExitCode=(\d+:\d+) ",
    re.MULTILINE | re.DOTALL | re.ASCII,
)
_MEBIBYTE = 1024**2


def fields(line: str) -> dict[str, str]:
    """One line of `scontrol --oneliner` as key to value; values may hold blanks, as Reason and OS do."""
    found = list(_KEY.finditer(line))
    ends = [key.start() for key in found[1:]] + [len(line)]
    return {key[1]: line[key.end() : end].strip() for key, end in zip(found, ends, strict=True)}


def parse_nodes(text: str) -> list[Node]:
    """The answer to `scontrol --details --oneliner show node`."""
    return [_node(one) for one in _lines(text, "NodeName")]


def parse_partitions(text: str) -> list[Partition]:
    """The answer to `scontrol --oneliner show partition`."""
    return [_partition(one) for one in _lines(text, "PartitionName")]


def parse_config(text: str) -> dict[str, str]:
    """The answer to `scontrol show config`."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {key.strip(): value.strip() for key, _, value in pairs}


def parse_version(text: str) -> tuple[int, int, int]:
    """The answer to `--version`: `slurm-wlm 22.05.8`, `slurm 24.11.5-1`.

    Raises:
        ValueError: there is no version in it.
    """
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    if found is None:
        raise ValueError(f"not a version of Slurm: {text!r}")
    return int(found[1]), int(found[2]), int(found[3] or 0)


def parse_exit_codes(text: str) -> dict[JobId, ExitCode]:
    """Exit codes out of `scontrol --oneliner show job`, by the id that squeue lists a job under."""
    codes = {}
    for job, array, task, leader, offset, code in _ENDED.findall(text):
        if array:
            job_id = JobId(int(array), task=int(task))
        elif leader:
            job_id = JobId(int(leader), het=int(offset))
        else:
            job_id = JobId(int(job))
        codes[job_id] = ExitCode.parse(code)
    return codes


def _lines(text: str, first: str) -> Iterator[dict[str, str]]:
    return (fields(line) for line in text.splitlines() if line.startswith(f"{first}="))


def _node(told: Mapping[str, str]) -> Node:
    reason = told.get("Reason", "")
    return Node(
        name=told["NodeName"],
        address=told.get("NodeAddr", told["NodeName"]),
        hostname=told.get("NodeHostName", told["NodeName"]),
        state=NodeState.parse(told["State"]),
        reason=reason or None,
        cpus=_number(told.get("CPUTot")) or 0,
        cpus_allocated=_number(told.get("CPUAlloc")) or 0,
        memory=(_number(told.get("RealMemory")) or 0) * _MEBIBYTE,
        memory_allocated=(_number(told.get("AllocMem")) or 0) * _MEBIBYTE,
        gres=_or_none(told.get("Gres")),
        gres_used=_or_none(told.get("GresUsed")),
        tres=_tres(told.get("CfgTRES")),
        tres_allocated=_tres(told.get("AllocTRES")),
        features=_words(told.get("ActiveFeatures")),
        partitions=_words(told.get("Partitions")),
    )


def _partition(told: Mapping[str, str]) -> Partition:
    return Partition(
        name=told["PartitionName"],
        is_default=told.get("Default") == "YES",
        state=told.get("State", "UNKNOWN"),
        nodes=tuple(expand(_or_none(told.get("Nodes")) or "")),
        max_time=parse_duration(told.get("MaxTime", "")),
        default_time=parse_duration(told.get("DefaultTime", "")),
        max_nodes=_number(told.get("MaxNodes")),
        tres=_tres(told.get("TRES")),
    )


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() else None


def _or_none(text: str | None) -> str | None:
    return None if text in {None, "", "(null)", "N/A"} else text


def _words(text: str | None) -> tuple[str, ...]:
    return tuple((_or_none(text) or "").split(",")) if _or_none(text) else ()


def _tres(text: str | None) -> Tres | None:
    return Tres.parse(text) if text else None
