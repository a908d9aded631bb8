"""Slurm's host list expressions, expanded in Slurm's own order with duplicates kept.

Which rank sits on which host, and which host is the first, hangs on that order; a set of names has none.
Equal to `scontrol show hostnames`, whose C code is the only specification.
"""

from __future__ import annotations

LARGEST = 64 * 1024
"""Slurm refuses a longer range (MAX_RANGE in src/common/hostlist.h)."""


def expand(text: str) -> list[str]:
    """The host names that an expression such as `gpu[01-03,07],login` stands for.

    Raises:
        ValueError: the expression is malformed; the message holds the faulty part.
    """
    return [name for part in _split(text) for name in _expand_part(part)]


def first(text: str) -> str:
    """The first host of an expression: where rank 0 is.

    Raises:
        ValueError: the expression is malformed or names no host.
    """
    names = expand(text)
    if not names:
        raise ValueError("no host in %r" % text)
    return names[0]


def _split(text: str) -> list[str]:
    """The parts between commas (and blanks) that stand outside brackets."""
    parts = [""]
    depth = 0
    for character in text:
        if character == "[":
            depth += 1
        elif character == "]":
            depth -= 1
        if depth not in (0, 1):
            raise ValueError("unbalanced brackets in %r" % text)
        if depth == 0 and character in ", \t\n":
            parts.append("")
        else:
            parts[-1] += character
    if depth:
        raise ValueError("unbalanced brackets in %r" % text)
    return [part for part in parts if part]


def _expand_part(part: str) -> list[str]:
    """Prefixes and bracketed ranges in turn, the rightmost varying fastest."""
    names = [""]
    rest = part
    while rest:
        prefix, opened, rest = rest.partition("[")
        if not opened:
            return [name + prefix for name in names]
        ranges, _, rest = rest.partition("]")
        numbers = [number for one in ranges.split(",") for number in _numbers(one, part)]
        names = [name + prefix + number for name in names for number in numbers]
    return names


def _numbers(text: str, part: str) -> list[str]:
    low, dash, high = text.partition("-")
    high = high if dash else low
    if not (low.isascii() and low.isdigit() and high.isascii() and high.isdigit()):
        raise ValueError("%r is no range of numbers, in %r" % (text, part))
    begin, end = int(low), int(high)
    if begin > end or end - begin >= LARGEST:
        raise ValueError("%r is no range from low to high, in %r" % (text, part))
    return ["%0*d" % (len(low), number) for number in range(begin, end + 1)]
