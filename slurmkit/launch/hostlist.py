"""Slurm's host lists, expanded as Slurm does it: its order, its duplicates.

The order decides which rank sits on which host, so nothing is sorted. `re` is not imported: a rank starts
without it.
"""

from __future__ import annotations

SEPARATORS = ", \t\n"
LONGEST_RANGE = 65536
"""Slurm's own bound for one range; it also keeps a mistyped list from filling the memory."""


def expand(text: str) -> list[str]:
    """The hosts of a list such as `gpu[01-03,07],login`, equal to `scontrol show hostnames`.

    Raises:
        ValueError: the list is not one; the message names the faulty part.
    """
    names = []
    for part in _split(text):
        names.extend(_expand_part(part) if "[" in part else [part])
    return names


def first(text: str) -> str:
    """The first host of a list.

    Raises:
        ValueError: the list is empty or not a host list.
    """
    parts = _split(text)
    if not parts:
        raise ValueError("an empty host list has no first host")
    return expand(parts[0])[0]


def _split(text: str) -> list[str]:
    """Cut at the separators that stand outside brackets."""
    parts = []
    start = depth = 0
    for position, character in enumerate(text):
        if character == "[":
            depth += 1
        elif character == "]":
            depth -= 1
        elif not depth and character in SEPARATORS:
            parts.append(text[start:position])
            start = position + 1
        if depth not in (0, 1):
            break
    if depth:
        raise ValueError(f"brackets do not pair in host list {text[start:]!r}")
    parts.append(text[start:])
    return [part for part in parts if part]


def _expand_part(part: str) -> list[str]:
    """Expand one element. The last bracket varies fastest, then the first, the second ...: so does Slurm."""
    pieces = [piece.split("[") for piece in part.split("]")]
    if pieces.pop() != [""]:
        raise ValueError(f"host list element {part!r} goes on after its last bracket")
    names = [""]
    for prefix, ranges in pieces[:-1]:
        names = [name + prefix + number for number in _numbers(ranges, part) for name in names]
        _check_size(len(names), part)
    prefix, ranges = pieces[-1]
    numbers = _numbers(ranges, part)
    return [name + prefix + number for name in names for number in numbers]


def _numbers(ranges: str, part: str) -> list[str]:
    """The numbers of `1-3,07`, each as wide as the lower end of its range."""
    numbers = []
    for text in ranges.split(","):
        low, dash, high = text.partition("-")
        if not _is_number(low) or (dash and not _is_number(high)):
            raise ValueError(f"invalid range {text!r} in host list element {part!r}")
        if not dash:
            numbers.append(low)
            continue
        begin, end = int(low), int(high)
        if end < begin:
            raise ValueError(f"range {text!r} in host list element {part!r} runs backwards")
        _check_size(end - begin + 1, part)
        numbers.extend([str(number).zfill(len(low)) for number in range(begin, end + 1)])
    return numbers


def _check_size(count: int, part: str) -> None:
    if count > LONGEST_RANGE:
        raise ValueError(f"too many hosts in host list element {part!r}")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
