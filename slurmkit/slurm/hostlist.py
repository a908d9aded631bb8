"""Host lists as sets of names, and back. A job's nodes have an order: they are expanded by `launch`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from slurmkit.launch.hostlist import expand

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["expand", "expand_set", "fold"]

_FOLDABLE = re.compile(r"[\w.-]*\d", re.ASCII)


def expand_set(text: str) -> frozenset[str]:
    """The names in a host list such as `gpu[01-03,07],login`.

    Raises:
        ValueError: the list is not one; the message names the faulty part.
    """
    return frozenset(expand(text))


def fold(names: Iterable[str]) -> str:
    """The shortest host list that Slurm reads as these names; sorted, each once.

    Slurm takes no list that goes on after its last bracket: names that end in no digit stay as they are.
    """
    distinct = set(names)
    numbered = {name for name in distinct if _FOLDABLE.fullmatch(name)}
    parts = sorted(distinct - numbered)
    if numbered:
        from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet

        parts.insert(0, str(NodeSet.fromlist(numbered, resolver=RESOLVER_NOGROUP)))
    return ",".join(parts)
