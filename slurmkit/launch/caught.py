"""Which signals a process handles, from /proc."""

from __future__ import annotations

MANY = 40
"""What handles more signals than this passes them on, as Go's runtime does in apptainer: whether the program
below it handles them, it does not tell."""


def caught(pid: int | str = "self") -> int:
    """The signals that a process handles, as bits; 0 where that cannot be known."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            return int(file.read().partition(b"\nSigCgt:")[2].split(None, 1)[0], 16)
    except (OSError, ValueError, IndexError):
        return 0


def has(mask: int, number: int) -> bool:
    """Whether a signal is among those of `caught`, and meant: not where all are handled."""
    return bool(mask >> (number - 1) & 1) and not passes_on(mask)


def passes_on(mask: int) -> bool:
    """Whether a process handles about all signals."""
    return bin(mask).count("1") > MANY  # noqa: FURB161 - int.bit_count is there from Python 3.10 on
