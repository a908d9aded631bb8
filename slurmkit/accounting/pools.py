"""Pools of GPUs: nodes that the same jobs could run on, as far as accounting tells.

Partitions that have nodes in common are one pool, as a job in one takes from the other, and each type of GPU
is a pool of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Place = tuple[str, str, str]
"""Cluster, partition, type of GPU: where a job is or wants to be. The type is '' where it is not known."""


class Pool(NamedTuple):
    """Nodes that jobs share."""

    number: int
    cluster: str
    partitions: tuple[str, ...]
    gpu_type: str | None
    """'' for GPUs without a type; None of jobs that wait and whose place is not known."""


def joined(seen: Iterable[tuple[str, Sequence[str]]]) -> dict[tuple[str, str], tuple[str, ...]]:
    """By cluster and partition: all partitions that nodes join with it; of those seen at each node."""
    groups: dict[tuple[str, str], set[str]] = {}
    for cluster, partitions in seen:
        merged = set(partitions)
        for partition in partitions:
            merged |= groups.get((cluster, partition), set())
        for partition in merged:
            groups[cluster, partition] = merged
    return {place: tuple(sorted(merged)) for place, merged in groups.items()}


def pools_of_nodes(nodes: Sequence[tuple[str, Sequence[str], str]]) -> tuple[list[Pool], list[int]]:
    """The pools, and the number of each node's, of nodes as (cluster, partitions seen there, type)."""
    groups = joined((cluster, partitions) for cluster, partitions, _ in nodes)
    keys = [(cluster, groups[cluster, partitions[0]], kind) for cluster, partitions, kind in nodes]
    numbers = {key: number for number, key in enumerate(sorted(set(keys)))}
    return [Pool(number, *key) for key, number in numbers.items()], [numbers[key] for key in keys]


def pools_of_places(pools: Sequence[Pool], places: Iterable[Place]) -> dict[Place, Pool]:
    """Where jobs wait: the pool of their partition and type, or of their partition where it has but one.

    Others wait in a pool of their own, which has no nodes.
    """
    found: dict[Place, Pool] = {}
    unknown: dict[tuple[str, str], Pool] = {}
    for place in places:
        cluster, partition, kind = place
        near = [one for one in pools if one.cluster == cluster and partition in one.partitions]
        exact = [one for one in near if one.gpu_type == kind]
        if exact or len(near) == 1:
            found[place] = (exact or near)[0]
        else:
            new = Pool(len(pools) + len(unknown), cluster, (partition,), None)
            found[place] = unknown.setdefault((cluster, partition), new)
    return found
