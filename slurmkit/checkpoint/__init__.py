"""Checkpoints: which ones are there, which is complete, which a program is to resume from.

    >>> from slurmkit import checkpoint
    >>> checkpoint.commit("checkpoints/step-100", step=100)     # doctest: +SKIP
    >>> checkpoint.choose("checkpoints").chosen.step            # doctest: +SKIP
    100

Names are loaded when they are first used: a training program that only wants `commit` or `requested` loads
neither the other layouts nor anything that is not in the standard library.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from slurmkit.checkpoint.choice import choose, verify
    from slurmkit.checkpoint.layouts import LAYOUTS
    from slurmkit.checkpoint.plain import commit
    from slurmkit.launch.request import requested

__all__ = ["LAYOUTS", "choose", "commit", "requested", "verify"]

_HOMES = {
    "LAYOUTS": "slurmkit.checkpoint.layouts",
    "choose": "slurmkit.checkpoint.choice",
    "commit": "slurmkit.checkpoint.plain",
    "requested": "slurmkit.launch.request",
    "verify": "slurmkit.checkpoint.choice",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
