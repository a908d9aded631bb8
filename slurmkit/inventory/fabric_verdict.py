"""Which node or path of a fabric is slow. Pure.

Times are compared as logarithms. What is usual is the median over the nodes of each node's own median, so
that one slow node does not shift it even among four; the median absolute deviation tells what is chance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median, median_low
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from slurmkit.inventory.fabric import Fabric

    Pair = tuple[str, str]

SLOWER, LATER = 1.3, 2.0
"""Times the usual from which on a transfer, and a small message, may count as slow."""
LATER_BY = 20e-6
"""Seconds, at least: what Python itself adds to a small message scatters by less."""
DEVIATIONS = 5.0
NORMAL = 1.4826
"""Makes a median absolute deviation comparable to a standard deviation."""
MOSTLY = 0.75
"""Of its paths: where so many are slow, it is the node's fault."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong with the fabric, in one sentence."""

    kind: str
    """slow-path, slow-node, slow-group, dead-path, dead-node, wrong-sum, all-reduce, unfinished."""
    nodes: tuple[str, ...]
    measure: str | None
    """bandwidth or latency."""
    factor: float | None
    """How many times slower than usual."""
    sentence: str


@dataclass(frozen=True, slots=True)
class Outliers:
    """What lies beyond the others: nodes, groups of nodes, and paths between other nodes."""

    usual: float
    groups: tuple[tuple[tuple[str, ...], float], ...]
    """Each with how many times slower its paths to the others are. A slow node is a group of one."""
    paths: tuple[tuple[Pair, float], ...]


def outliers(times: Mapping[Pair, float], least: float) -> Outliers:
    """What is at least `least` times slower than usual, and beyond chance."""
    logs = {pair: math.log(value) for pair, value in times.items()}
    usual, limit = _usual(logs, math.log(least))
    slow = {pair for pair, value in logs.items() if value > limit}
    nodes = list(dict.fromkeys(node for pair in logs for node in pair))
    blamed = _blamed(nodes, logs, slow)
    others = {*nodes} - {*blamed}

    def factor(pairs: Sequence[Pair]) -> float:
        return math.exp(median(logs[pair] for pair in pairs) - usual)

    groups = []
    for group in _groups(blamed, logs, slow):
        own = [pair for pair in logs if {*group} & {*pair}]
        groups.append((tuple(group), factor([pair for pair in own if others & {*pair}] or own)))
    paths = [(pair, factor([pair])) for pair in logs if pair in slow and not {*blamed} & {*pair}]
    paths.sort(key=lambda one: -one[1])
    return Outliers(math.exp(usual), tuple(groups), tuple(paths))


def findings(fabric: Fabric) -> tuple[Finding, ...]:
    """All that is wrong, the gravest first."""
    found = [*_broken(fabric), *_dead(fabric)]
    times = {one.nodes: one.seconds for one in fabric.links if one.seconds is not None}
    delays = {one.nodes: one.latency for one in fabric.links if one.latency is not None}
    found += _slow(times, "bandwidth", fabric.pair_bytes)
    known = {one.nodes for one in found}
    blamed = {node for one in found if one.kind in {"slow-node", "slow-group"} for node in one.nodes}
    for finding in _slow(delays, "latency", 0):
        # Where the bytes come slowly, that they come late as well is no news.
        if finding.nodes not in known and blamed.isdisjoint(finding.nodes):
            found.append(finding)
    return tuple(found)


def _usual(logs: Mapping[Pair, float], least: float) -> tuple[float, float]:
    """The usual value, and the one beyond which one is slow."""
    by_node: dict[str, list[float]] = {}
    for pair, value in logs.items():
        for node in pair:
            by_node.setdefault(node, []).append(value)
    own = {node: median_low(values) for node, values in by_node.items()}
    usual = median_low(own.values())
    common = {node for node, value in own.items() if value <= usual + least}
    inside = [value for pair, value in logs.items() if common.issuperset(pair)]
    if inside:
        usual = median_low(inside)
    chance = NORMAL * median([abs(value - usual) for value in inside]) if inside else 0.0
    return usual, usual + max(least, DEVIATIONS * chance)


def _blamed(nodes: Sequence[str], logs: Mapping[Pair, float], slow: set[Pair]) -> list[str]:
    """The nodes most of whose paths are slow, the worst first; a path speaks against one node only."""
    left = set(nodes)
    blamed: list[str] = []
    while True:
        own: dict[str, list[Pair]] = {node: [] for node in nodes}
        for pair in filter(left.issuperset, logs):
            own[pair[0]].append(pair)
            own[pair[1]].append(pair)
        shares = {
            node: (sum(pair in slow for pair in pairs) / len(pairs), median([logs[pair] for pair in pairs]))
            for node, pairs in own.items()
            if len(pairs) > 1
        }
        worst = max(shares, key=lambda node: shares[node], default=None)
        if worst is None or shares[worst][0] < MOSTLY:
            return blamed
        blamed.append(worst)
        left.remove(worst)


def _groups(blamed: Sequence[str], logs: Mapping[Pair, float], slow: set[Pair]) -> list[list[str]]:
    """Blamed nodes in groups that are fast among themselves: their fault lies in what they share."""
    groups: list[list[str]] = []
    for node in blamed:
        near = {other for pair in logs if node in pair and pair not in slow for other in pair}
        joined = [group for group in groups if near & {*group}]
        groups = [group for group in groups if group not in joined]
        groups.append([*(other for group in joined for other in group), node])
    return [sorted(group) for group in groups]


def _slow(times: Mapping[Pair, float], measure: str, size: int) -> Iterator[Finding]:
    if len(times) < 3:
        return  # nothing to compare with
    found = outliers(times, SLOWER if size else LATER)
    least = 1.0 if size else 1.0 + LATER_BY / found.usual

    def told(factor: float) -> str:
        here, usual = (amount(measure, value, size) for value in (found.usual * factor, found.usual))
        return f"{here} where {usual} is usual, {factor:.1f} times slower"

    what = "slow" if size else "late"
    for group, factor in found.groups:
        if factor < least:
            continue
        if len(group) == 1:
            sentence = (
                f"{group[0]} is {what} with nearly all others: {told(factor)}. Look at this node: its "
                "network adapter, cable, settings, or another program on it"
            )
            yield Finding("slow-node", group, measure, factor, sentence)
        else:
            sentence = (
                f"{and_list(group)} are fast with each other and {what} with the others: {told(factor)}. "
                "Look at what joins them to the rest, such as the uplink of their switch"
            )
            yield Finding("slow-group", group, measure, factor, sentence)
    for pair, factor in found.paths:
        if factor < least:
            continue
        sentence = (
            f"the path between {pair[0]} and {pair[1]} is {what}: {told(factor)}. Neither is so with most "
            "others: look at what lies between these two"
        )
        yield Finding("slow-path", pair, measure, factor, sentence)


def _dead(fabric: Fabric) -> Iterator[Finding]:
    dead = {one.nodes: one.error for one in fabric.links if one.error is not None}
    left = {one.nodes for one in fabric.links}
    for node in fabric.nodes:
        own = [pair for pair in left if node in pair]
        if len(own) > 1 and dead.keys() >= {*own}:
            error = dead[own[0]]
            yield Finding(
                "dead-node", (node,), None, None, f"{node} could be measured with no other node: {error}"
            )
            dead = {pair: error for pair, error in dead.items() if node not in pair}
            left.difference_update(own)
    for pair, error in dead.items():
        yield Finding(
            "dead-path",
            pair,
            None,
            None,
            f"between {pair[0]} and {pair[1]} nothing could be measured: {error}",
        )


def _broken(fabric: Fabric) -> Iterator[Finding]:
    if fabric.adds_up is False:
        sentence = "an all-reduce over all ranks gave a wrong sum: trust no training on these nodes"
        yield Finding("wrong-sum", (), None, None, sentence)
    if fabric.world_error is not None:
        sentence = f"the all-reduce over all ranks failed: {fabric.world_error}"
        yield Finding("all-reduce", (), None, None, sentence)
    if not fabric.is_complete:
        pairs = and_list([f"{a}-{b}" for a, b in fabric.measuring]) or "all nodes together"
        sentence = f"the check is not complete; the last that was begun: {pairs}"
        yield Finding("unfinished", (), None, None, sentence)


def amount(measure: str, seconds: float, size: int) -> str:
    """A time as people compare it: the bandwidth that it means, or microseconds."""
    if measure == "bandwidth":
        return f"{number(size / seconds / 1e9)} GB/s"
    return f"{number(seconds * 1e6)} µs"


def number(value: float) -> str:
    """Three digits that count, and never an exponent."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}" if value >= 0.001 else f"{value:.6f}"


def and_list(names: Sequence[str], most: int = 8) -> str:
    """`a, b and c`, or of many the first ones and how many more."""
    shown = list(names) if len(names) <= most else [*names[: most - 1], f"{len(names) - most + 1} more"]
    return " and ".join(filter(None, [", ".join(shown[:-1]), *shown[-1:]]))
