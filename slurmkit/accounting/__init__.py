"""Slurm's accounting as tables that can be asked: from sacct into a store, from there into reports.

Names are loaded when they are first used: pandas and DuckDB take half a second.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from slurmkit.accounting.api import (
        efficiency,
        failures,
        fairness,
        fragmentation,
        goodput,
        job,
        jobs,
        usage,
        waits,
    )

__all__ = [
    "efficiency",
    "failures",
    "fairness",
    "fragmentation",
    "goodput",
    "job",
    "jobs",
    "usage",
    "waits",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module("slurmkit.accounting.api"), name)
