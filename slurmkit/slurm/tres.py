"""Trackable resources as Slurm writes them (`cpu=4,gres/gpu:a100=2,mem=64G,node=1`), and memory sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_UNITS = {"": 0, "B": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
_SENTINELS = frozenset({2**32 - 1, 2**32 - 2, 2**64 - 1, 2**64 - 2})
_IN_MEBIBYTES = ("mem", "vmem", "bb/")


def parse_memory(text: str, *, unit: str = "B") -> int | None:
    """Bytes of `472K`, `16.5M`, `2P`; a bare number counts in `unit`, empty is None.

    Raises:
        ValueError: names the text, e.g. for a letter that is no unit.
    """
    text = text.strip()
    if not text:
        return None
    number = text.rstrip("BKMGTPEbkmgtpe")
    letter = text[len(number) :].upper().removesuffix("B") or (unit if text == number else "B")
    if letter not in _UNITS or not number.replace(".", "", 1).isdigit() or not number.isascii():
        raise ValueError(f"not a memory size: {text!r}")
    factor: int = 1024 ** _UNITS[letter]
    return int(number) * factor if number.isdigit() else round(float(number) * factor)


def format_memory(size: int) -> str:
    """Slurm's own form of a size in bytes, in the largest unit that leaves no fraction."""
    unit = "B"
    for letter in "KMGTP":
        if size == 0 or size % 1024:
            break
        size, unit = size // 1024, letter
    return f"{size}{unit}" if size else "0"


@dataclass(frozen=True, slots=True)
class Tres:
    """Resources by Slurm's names. Memory in bytes, all else as counts; equal whatever the order was."""

    items: tuple[tuple[str, int], ...] = ()

    @classmethod
    def of(cls, counts: Mapping[str, int]) -> Tres:
        """From names and counts."""
        return cls(tuple(sorted(counts.items())))

    @classmethod
    def parse(cls, text: str) -> Tres:
        """Read a TRES string; a name without a value, or with Slurm's mark for "none", is left out.

        Raises:
            ValueError: names the part that is no `name=count`.
        """
        counts: dict[str, int] = {}
        for part in text.strip().split(","):
            name, equals, value = part.rpartition("=")
            if not part or (equals and not value):
                continue
            if not name:
                raise ValueError(f"not a resource count: {part!r} in {text!r}")
            count = parse_memory(value, unit="M" if name.startswith(_IN_MEBIBYTES) else "B")
            if count is not None and count not in _SENTINELS:
                counts[name] = count
        return cls.of(counts)

    def __getitem__(self, name: str) -> int:
        """The count of a resource; 0 where it is not named."""
        return next((count for key, count in self.items if key == name), 0)

    def __contains__(self, name: object) -> bool:
        return any(key == name for key, _ in self.items)

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.items)

    def __len__(self) -> int:
        return len(self.items)

    @property
    def gpus(self) -> int:
        """GPUs in all: the generic entry where there is one, else the sum of the typed ones."""
        return self["gres/gpu"] if "gres/gpu" in self else sum(self.gpus_by_type.values())

    @property
    def gpus_by_type(self) -> dict[str, int]:
        """GPUs by type, as far as the site counts types; MIG profiles stand as types of their own."""
        return {
            name.removeprefix("gres/gpu:"): count
            for name, count in self.items
            if name.startswith("gres/gpu:")
        }

    def __str__(self) -> str:
        """Slurm's own form, names sorted."""
        return ",".join(
            f"{name}={format_memory(count) if name.startswith(_IN_MEBIBYTES) else count}"
            for name, count in self.items
        )
