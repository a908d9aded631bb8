"""The mesh: the named grid that the ranks of a step form, and each rank's place in it. Pure.

With the axes a1, a2 ... from the fastest varying to the slowest, and their sizes s1, s2 ..., a rank is
c1 + c2 * s1 + c3 * s1 * s2 ...; a group of an axis are the ranks that differ in its coordinate alone. The
default order is Megatron-LM's and TorchTitan's: tensor innermost, pipeline outermost.

Experts have no axis of their own, as in both: they are dealt over context and data taken as one, `expert`
neighbours at a time, within one tensor and one pipeline coordinate.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing itself costs a rank milliseconds
    from collections.abc import Iterable, Mapping, Sequence

ORDER = ("tensor", "context", "data", "pipeline")
AXES = (*ORDER, "expert")
FOLDED = frozenset({"context", "data"})
"""What experts are dealt over."""
LARGEST_TOLD = 8192
"""Ranks of a group that is listed: Linux starts no program with a variable of over 128 KiB."""


class Mesh:
    """Sizes of all axes, and the order of those that are not folded, the fastest varying first."""

    __slots__ = ("order", "sizes")

    def __init__(self, sizes: Mapping[str, int], order: Iterable[str] = ()) -> None:
        """Axes that `sizes` leaves out have size 1; those that `order` leaves out come last.

        Raises:
            ValueError: a size is below 1, an axis is unknown or named twice, experts do not come out.
        """
        self.sizes = {axis: sizes.get(axis, 1) for axis in AXES}
        named = tuple(order)
        self.order = (*named, *(axis for axis in ORDER if axis not in named))
        if sorted(self.order) != sorted(ORDER) or not set(sizes) <= set(AXES):
            raise ValueError(f"the order {','.join(named)} is none of {', '.join(ORDER)}")
        if min(self.sizes.values()) < 1:
            raise ValueError("an axis has at least one rank")
        if self._places % self.sizes["expert"]:
            raise ValueError(
                f"expert = {self.sizes['expert']} does not divide context x data = {self._places}"
            )

    @property
    def world_size(self) -> int:
        """How many ranks the mesh has."""
        size = 1
        for axis in ORDER:
            size *= self.sizes[axis]
        return size

    @property
    def _places(self) -> int:
        return self.sizes["context"] * self.sizes["data"]

    def __str__(self) -> str:
        """The form that `parse` reads, for an environment variable."""
        sizes = ";".join(f"{axis}={size}" for axis, size in self.sizes.items())
        return f"order={','.join(self.order)};{sizes}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mesh) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def coordinates(self, rank: int) -> dict[str, int]:
        """Where a rank stands on each axis.

        Raises:
            ValueError: the mesh has no such rank.
        """
        if not 0 <= rank < self.world_size:
            raise ValueError(f"rank {rank} is not in a mesh of {self.world_size}")
        found = {}
        place, stride = 0, 1
        for axis in self.order:
            rank, found[axis] = divmod(rank, self.sizes[axis])
            if axis in FOLDED:
                place += found[axis] * stride
                stride *= self.sizes[axis]
        found["expert"] = place % self.sizes["expert"]
        return {axis: found[axis] for axis in AXES}

    def group(self, axis: str, rank: int) -> list[int]:
        """The ranks of an axis' group that a rank is in, itself included, by coordinate."""
        strides = self._strides()
        here = self.coordinates(rank)
        if axis != "expert":
            first = rank - here[axis] * strides[axis]
            return [first + at * strides[axis] for at in range(self.sizes[axis])]
        folded = [name for name in self.order if name in FOLDED]
        place = here[folded[0]] + here[folded[1]] * self.sizes[folded[0]]
        base = rank - sum(here[name] * strides[name] for name in folded)
        start = place - here["expert"]
        return [
            base
            + at % self.sizes[folded[0]] * strides[folded[0]]
            + at // self.sizes[folded[0]] * strides[folded[1]]
            for at in range(start, start + self.sizes["expert"])
        ]

    def groups(self, axis: str) -> list[list[int]]:
        """All groups of an axis, by their rank of coordinate 0: every rank is in one of them."""
        if axis != "expert":
            stride = self._strides()[axis]
            span = stride * self.sizes[axis]
            return [
                list(range(first, start + span, stride))
                for start in range(0, self.world_size, span)
                for first in range(start, start + stride)
            ]
        starts = (rank for rank in range(self.world_size) if not self.coordinates(rank)[axis])
        return [self.group(axis, rank) for rank in starts]

    def _strides(self) -> dict[str, int]:
        strides, stride = {}, 1
        for axis in self.order:
            strides[axis] = stride
            stride *= self.sizes[axis]
        return strides


def parse(text: str) -> Mesh:
    """The mesh that `str` wrote.

    Raises:
        ValueError: the text is none of a mesh.
    """
    fields = dict(part.split("=", 1) for part in text.split(";"))
    order = fields.pop("order")
    return Mesh({axis: int(size) for axis, size in fields.items()}, order.split(","))


def variables(text: str, rank: int) -> str:
    """What SLURMKIT_MESH tells a rank, as JSON: order, sizes, its coordinates, the ranks of its groups.

    A group too large to be listed is left out.

    Raises:
        ValueError: the text is none of a mesh, or it has no such rank.
    """
    from slurmkit.launch.plain_json import encode

    mesh = parse(text)
    told = {
        "order": mesh.order,
        "sizes": mesh.sizes,
        "coordinates": mesh.coordinates(rank),
        "groups": {axis: mesh.group(axis, rank) for axis in AXES if mesh.sizes[axis] <= LARGEST_TOLD},
    }
    return encode(told)


def crossing(mesh: Mesh, axis: str, node_of_rank: Sequence[object]) -> list[list[int]]:
    """The groups of an axis whose ranks are on more than one node."""
    if mesh.sizes[axis] == 1:
        return []
    return [group for group in mesh.groups(axis) if len({node_of_rank[rank] for rank in group}) > 1]
