"""Carries a GPU training job through its whole life on a Slurm cluster.

    >>> import slurmkit
    >>> run = slurmkit.submit("job.toml")     # doctest: +SKIP
    >>> run.wait().state                      # doctest: +SKIP
    'completed'

Names are loaded when they are first used, so that `import slurmkit` costs nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from slurmkit.run.handle import Run, submit
    from slurmkit.run.reckoning import cost_frame as costs
    from slurmkit.script.rendering import render
    from slurmkit.slurm.commands import Commands as Slurm
    from slurmkit.spec.loading import load

__version__ = "0.1.0"

__all__ = ["Run", "Slurm", "costs", "load", "render", "submit"]

_HOMES = {
    "Run": ("slurmkit.run.handle", "Run"),
    "Slurm": ("slurmkit.slurm.commands", "Commands"),
    "costs": ("slurmkit.run.reckoning", "cost_frame"),
    "load": ("slurmkit.spec.loading", "load"),
    "render": ("slurmkit.script.rendering", "render"),
    "submit": ("slurmkit.run.handle", "submit"),
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module, attribute = _HOMES[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
