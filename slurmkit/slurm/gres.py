"""The generic resources of a node as scontrol and sinfo write them: `gpu:a100:8(S:0-1),shard:a100:32`."""

from __future__ import annotations


def count(text: str | None, name: str = "gpu") -> int:
    """How many of one resource a node has, or uses, of all its types together.

    What stands in parentheses (sockets, indices) may itself have commas; a name alone is one.
    """
    return sum(by_type(text, name).values())


def by_type(text: str | None, name: str = "gpu") -> dict[str, int]:
    """The same for each type; those without one are under an empty name."""
    found: dict[str, int] = {}
    for part in _outside_parentheses(text or "").split(","):
        words = part.strip().split(":")
        if words[0] == name:
            numbers = [int(word) for word in words[1:] if word.isdigit()]
            kind = next((word for word in words[1:] if not word.isdigit() and word != "no_consume"), "")
            found[kind] = found.get(kind, 0) + (numbers[-1] if numbers else 1)
    return found


def _outside_parentheses(text: str) -> str:
    kept, depth = [], 0
    for character in text:
        depth += character == "("
        if not depth:
            kept.append(character)
        depth -= character == ")"
    return "".join(kept)
