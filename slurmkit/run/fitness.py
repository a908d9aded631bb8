"""What the check of nodes found: which are unfit, and why."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_LABEL = re.compile(r"\A *(\d+): ")
"""What srun --label puts before a line: the number of its task."""
_ENDED = re.compile(r"tasks? [\d,-]+: (?:Killed|Terminated)|CANCELLED|[Jj]ob step aborted")
SKEW_WARNED, SKEW_UNFIT = 1.0, 60.0
"""Seconds that a node's clock may differ from the first node's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitness:
    """What is known of the nodes before the start."""

    unfit: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    warnings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    topology: Mapping[str, str] = field(default_factory=dict)
    """Each node's SLURM_TOPOLOGY_ADDR."""
    why_not: str | None = None
    """Why nothing could be checked, where that is so: no fault of any node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What the nodes said, by name: how far each clock is ahead of this host's, and each record."""

    ahead: Mapping[str, float] = field(default_factory=dict)
    records: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def read_answers(lines: Iterable[tuple[float, str]], token: str) -> Answers:
    """The nodes' lines, each with the time of its arrival; what is not of this check is passed over."""
    ahead: dict[str, float] = {}
    records: dict[str, Mapping[str, Any]] = {}
    for arrived, line in lines:
        try:
            told = json.loads(_LABEL.sub("", line))
            if told["token"] != token:
                continue
            if "hello" in told:
                ahead[str(told["node"])] = float(told["hello"]) - arrived
            else:
                records[str(told["node"])] = told
        except (ValueError, TypeError, KeyError):
            continue
    return Answers(ahead=ahead, records=records)


def judge(
    nodes: Sequence[str], answers: Answers, said: Sequence[str], *, within: float, is_late: bool = False
) -> Fitness:
    """Which nodes are unfit. `said` is srun's stderr; `is_late`: the check was ended after `within` seconds.

    Where not one node has answered, it is the check that failed, not they.
    """
    records = answers.records
    if not any(node in records for node in nodes):
        own = [line for line in said if _LABEL.match(line)]
        last = next((_LABEL.sub("", line).strip() for line in reversed(own or said) if line.strip()), "")
        return Fitness(
            why_not=f"no node answered within {within:g} s" if is_late else last or "no node answered"
        )
    problems: dict[str, list[str]] = {node: [] for node in nodes}
    warnings: dict[str, list[str]] = {node: [] for node in nodes}
    for node in nodes:
        if node not in records:
            # What srun says once it is told to end the step is no reason of the node's.
            words = [line for line in said if not (is_late and _ENDED.search(line))]
            problems[node].append(
                _last_words(nodes, node, words)
                or (f"no answer within {within:g} s" if is_late else "no answer")
            )
            continue
        problems[node] += map(str, records[node].get("problems") or ())
        warnings[node] += map(str, records[node].get("warnings") or ())
    _judge_meeting(nodes, records, problems)
    _judge_clocks(nodes, answers.ahead, problems, warnings)
    return Fitness(
        unfit={node: tuple(found) for node, found in problems.items() if found},
        warnings={node: tuple(found) for node, found in warnings.items() if found},
        topology={
            node: str(records[node]["topology"])
            for node in nodes
            if node in records and records[node].get("topology")
        },
    )


def _last_words(nodes: Sequence[str], node: str, said: Sequence[str]) -> str | None:
    """What its task said last, by srun's label, or else srun of it: one task on each node, in their order."""
    labelled = [(label[1], line[label.end() :]) for line in said if (label := _LABEL.match(line))]
    own = [text.strip() for task, text in labelled if nodes.index(node) == int(task) and text.strip()]
    named = [line.strip() for line in said if _names(line, node)]
    return next(iter(own[-1:] or named[-1:]), None)


def _names(line: str, node: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(node)}(?![\w-])", line) is not None


def _judge_meeting(
    nodes: Sequence[str], records: Mapping[str, Mapping[str, Any]], problems: dict[str, list[str]]
) -> None:
    """That all of several nodes cannot reach the first one is its fault; else it is theirs who cannot."""
    first, *others = [node for node in nodes if node in records]
    unreached = {
        node: str(records[node]["facts"]["unreached"])
        for node in others
        if "unreached" in (records[node].get("facts") or {})
    }
    if first != nodes[0]:
        return  # whom they could not reach has not answered itself, and is unfit for that
    if (records[first].get("facts") or {}).get("port_taken"):
        return  # another program has that port, which is warned of: another port will do
    if len(others) > 1 and len(unreached) == len(others):
        problems[first].append(f"no other node reaches it at {unreached[others[0]]}")
        return
    for node, why in unreached.items():
        problems[node].append(f"does not reach {first} at {why}")


def _judge_clocks(
    nodes: Sequence[str],
    ahead: Mapping[str, float],
    problems: dict[str, list[str]],
    warnings: dict[str, list[str]],
) -> None:
    """Clocks beside the first node's. What a line took to arrive is in it, so that fractions tell nothing."""
    first = nodes[0]
    for node in nodes[1:]:
        if node not in ahead or first not in ahead:
            continue
        skew = ahead[node] - ahead[first]
        if abs(skew) > SKEW_WARNED:
            text = f"its clock is {abs(skew):.1f} s {'ahead of' if skew > 0 else 'behind'} that of {first}"
            (problems if abs(skew) > SKEW_UNFIT else warnings)[node].append(text)
