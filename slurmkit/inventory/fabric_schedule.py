"""What is measured in which order, by `slurmkit fabric-check`. Pure; Python 3.8, standard library only."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    Pair = tuple[int, int]

SMALLEST = 1024
TIME_EACH = 2.0
"""Seconds after which fewer repeats must do."""


def rounds(count: int) -> list[list[Pair]]:
    """Every pair of `count` once, in disjoint rounds by the circle method; of an odd count one rests."""
    seats: list[int] = [*range(count), *([-1] if count % 2 else [])]
    half = len(seats) // 2
    found = []
    for _ in range(len(seats) - 1):
        pairs = [(seats[at], seats[-1 - at]) for at in range(half)]
        found.append(sorted((min(pair), max(pair)) for pair in pairs if -1 not in pair))
        seats.insert(1, seats.pop())
    return [pairs for pairs in found if pairs]


def packed(pairs: Sequence[Pair]) -> list[list[Pair]]:
    """Given pairs in few rounds of disjoint ones, each placed in the first round that has room for it."""
    found: list[list[Pair]] = []
    for pair in pairs:
        room = (one for one in found if not any(set(pair) & set(other) for other in one))
        chosen = next(room, None)
        if chosen is None:
            found.append([pair])
        else:
            chosen.append(pair)
    return found


def sizes(largest: int) -> list[int]:
    """Message sizes from 1 KiB to `largest`, each four times the one before, `largest` itself among them."""
    found = [SMALLEST]
    while found[-1] * 4 < largest:
        found.append(found[-1] * 4)
    return found if found[-1] >= largest else [*found, largest]


def fitting(wanted: int, seconds: float) -> int:
    """How many repeats, where one takes so long."""
    return max(1, min(wanted, int(TIME_EACH / max(seconds, 1e-9))))
