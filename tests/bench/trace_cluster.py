"""The cluster of a generated trace, and its scheduler: a list scheduler over lanes.

A lane is a fixed part of the nodes, one GPU of a node or 64 nodes, that runs one job after the other. Lanes
of one class share a queue. So no two jobs ever hold the same GPU, and every node list is a real one.
"""

from __future__ import annotations

from heapq import heapreplace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

LOAD = 0.7
"""How much of a lane's time is asked for, on the average."""


class Partition(NamedTuple):
    """Nodes that are alike. A slot is what the smallest job gets: a GPU, a MIG device, 8 CPUs."""

    name: str
    gres: str
    """Of a slot, e.g. `gpu:a100`; empty where there is none."""
    slots: int
    cpus: int
    """Of a slot, as is the memory, in GiB."""
    memory: int
    largest: int
    """Slots of the largest job."""
    share: float
    """Of the jobs."""


class Shape(NamedTuple):
    """Jobs of one size: how many there are, and the log-normal distribution of their seconds."""

    slots: int
    weight: float
    median: float
    sigma: float


PARTITIONS = (
    Partition("a100", "gpu:a100", 8, 16, 128, 512, 0.52),
    Partition("h100", "gpu:h100", 8, 24, 256, 512, 0.20),
    Partition("v100", "gpu:v100", 4, 10, 96, 32, 0.10),
    Partition("mig", "gpu:a100_1g.5gb", 28, 4, 16, 4, 0.05),
    Partition("shard", "shard", 16, 2, 8, 4, 0.03),
    Partition("cpu", "", 16, 8, 32, 64, 0.10),
)

SHAPES = (
    Shape(1, 0.62, 500, 2.0),
    Shape(2, 0.09, 800, 2.0),
    Shape(4, 0.08, 1_000, 2.0),
    Shape(8, 0.155, 1_500, 2.0),
    Shape(16, 0.030, 3_000, 1.8),
    Shape(32, 0.014, 5_000, 1.6),
    Shape(64, 0.007, 8_000, 1.5),
    Shape(128, 0.003, 12_000, 1.4),
    Shape(256, 0.0007, 20_000, 1.3),
    Shape(512, 0.0003, 30_000, 1.2),
)
"""After what is known of Philly, Helios, Alibaba PAI and Meta's research clusters: more than nine of ten jobs
have a node or less, most GPU-hours belong to the others. Weights and medians are round figures of ours."""


class Class(NamedTuple):
    """Jobs of one partition and one size, by their number of nodes and slots in all."""

    partition: Partition
    slots: int
    nodes: int

    @property
    def gpus(self) -> int:
        """GPUs; shards are none."""
        return self.slots if self.partition.gres.startswith("gpu") else 0

    @property
    def cpus(self) -> int:
        """CPUs."""
        return self.slots * self.partition.cpus


CLASSES = tuple(
    Class(partition, slots, max(1, -(-slots // partition.slots)))
    for partition in PARTITIONS
    for shape in SHAPES
    for slots in [min(shape.slots, partition.largest)]
)
"""By partition, then shape: of a partition with few sizes the last is there several times."""


class Lanes(NamedTuple):
    """All lanes of a cluster, and what they are called."""

    of_class: tuple[range, ...]
    node_lists: tuple[str, ...]
    """Of each lane, as Slurm folds them."""
    faulty: npt.NDArray[np.bool_]
    """Whether a node of the lane is one on which jobs fail."""
    suspects: tuple[str, ...]
    """These nodes."""
    nodes: dict[str, int]
    """How many nodes each partition has."""


def build(counts: list[int], random: np.random.Generator) -> Lanes:
    """Lanes for each class, packed onto nodes: small ones mixed, large ones on nodes of their own."""
    ends = np.cumsum(counts).tolist()
    of_class = tuple(range(end - count, end) for count, end in zip(counts, ends, strict=True))
    places: list[tuple[str, int, int]] = [("", 0, 0)] * (ends[-1] if ends else 0)
    nodes = {}
    for number, partition in enumerate(PARTITIONS):
        classes = range(number * len(SHAPES), (number + 1) * len(SHAPES))
        lanes = [(lane, CLASSES[code]) for code in classes for lane in of_class[code]]
        small = [(lane, one.slots) for lane, one in lanes if one.slots < partition.slots]
        large = [(lane, one.nodes) for lane, one in lanes if one.slots >= partition.slots]
        node, free = 0, 0
        for chosen in random.permutation(len(small)).tolist():
            lane, slots = small[chosen]
            if slots > free:
                node, free = node + 1, partition.slots
            free -= slots
            places[lane] = (partition.name, node, 1)
        for lane, count in large:
            places[lane] = (partition.name, node + 1, count)
            node += count
        nodes[partition.name] = node
    bad = {
        (name, int(node))
        for name, count in nodes.items()
        for node in random.choice(count, size=count // 100, replace=False) + 1
    }
    faulty = [any((name, first + k) in bad for k in range(count)) for name, first, count in places]
    suspects = tuple(sorted(_folded(name, node, 1) for name, node in bad))
    names = tuple(_folded(*place) for place in places)
    return Lanes(of_class, names, np.array(faulty, dtype=np.bool_), suspects, nodes)


def _folded(partition: str, first: int, count: int) -> str:
    if count == 1:
        return f"{partition}-{first:04d}"
    return f"{partition}-[{first:04d}-{first + count - 1:04d}]"


def lanes_needed(codes: Ints, occupied: Ints, seconds: int) -> list[int]:
    """How many lanes each class needs so that they are busy for `LOAD` of the time; one where it has jobs."""
    busy = np.bincount(codes, weights=occupied, minlength=len(CLASSES))
    present = np.bincount(codes, minlength=len(CLASSES)) > 0
    lanes = np.where(present, np.maximum(1, np.ceil(busy / seconds / LOAD)), 0)
    return [int(count) for count in lanes.tolist()]


def schedule(codes: Ints, submit: Ints, occupied: Ints, lanes: Lanes) -> tuple[Ints, Ints]:
    """When each job starts and on which lane: the next that is free, in the order of arrival."""
    start, lane = np.zeros_like(submit), np.zeros_like(submit)
    for code, numbers in enumerate(lanes.of_class):
        chosen = np.flatnonzero(codes == code)
        # One integer for both: the moment at which a lane is free, and its number.
        free = list(numbers)
        starts, used = [], []
        for arrival, seconds in zip(submit[chosen].tolist(), occupied[chosen].tolist(), strict=True):
            moment, number = divmod(free[0], 1 << 24)
            begin = max(arrival, moment)
            heapreplace(free, ((begin + seconds) << 24) + number)
            starts.append(begin)
            used.append(number)
        start[chosen], lane[chosen] = starts, used
    return start, lane
