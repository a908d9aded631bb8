"""Slurm's notation for how many tasks each node of a step has."""

from __future__ import annotations


def tasks_per_node(text: str) -> list[int]:
    """Tasks of each node in order: `4(x2),2` is [4, 4, 2].

    Raises:
        ValueError: the text is not of that form; the message holds the faulty part.
    """
    counts = []
    for part in text.split(","):
        count, repeated, times = part.partition("(x")
        if repeated:
            times, closed, after = times.partition(")")
            if not closed or after:
                raise ValueError("%r is no number of tasks, in %r" % (part, text))
        else:
            times = "1"
        if not (count.isascii() and count.isdigit() and times.isascii() and times.isdigit()):
            raise ValueError("%r is no number of tasks, in %r" % (part, text))
        counts.extend([int(count)] * int(times))
    return counts
