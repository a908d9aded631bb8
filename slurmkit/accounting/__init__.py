"""Slurm's accounting as tables that can be asked: from sacct into a store, from there into reports.

Each report is a function here, by its name; its answer is a DataFrame. They are made when they are first
used: pandas and DuckDB take half a second to load.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from slurmkit.accounting.api import ReportFunction

    efficiency: ReportFunction
    failures: ReportFunction
    fairness: ReportFunction
    fragmentation: ReportFunction
    goodput: ReportFunction
    job: ReportFunction
    jobs: ReportFunction
    usage: ReportFunction
    waits: ReportFunction

__all__ = ["efficiency", "failures", "fairness", "fragmentation", "goodput", "job", "jobs", "usage", "waits"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from slurmkit.accounting.api import function

    return function(name)
