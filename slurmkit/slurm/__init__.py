"""All that talks to Slurm: the protocol, its records, and the client that runs Slurm's own commands.

Names are loaded when they are first used: a start-up pays for no part that it does not need.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from slurmkit.slurm.clock import Clock, SystemClock
    from slurmkit.slurm.commands import Commands
    from slurmkit.slurm.exitcode import ExitCode
    from slurmkit.slurm.ids import JobId, StepId, TaskSet
    from slurmkit.slurm.protocol import Slurm
    from slurmkit.slurm.records import Job, Node, Partition, Step
    from slurmkit.slurm.request import Submission, Submitted
    from slurmkit.slurm.states import JobState, NodeState
    from slurmkit.slurm.submission import submit_once
    from slurmkit.slurm.tres import Tres

__all__ = [
    "Clock",
    "Commands",
    "ExitCode",
    "Job",
    "JobId",
    "JobState",
    "Node",
    "NodeState",
    "Partition",
    "Slurm",
    "Step",
    "StepId",
    "Submission",
    "Submitted",
    "SystemClock",
    "TaskSet",
    "Tres",
    "submit_once",
]

_HOMES = {
    "clock": ("Clock", "SystemClock"),
    "commands": ("Commands",),
    "exitcode": ("ExitCode",),
    "ids": ("JobId", "StepId", "TaskSet"),
    "protocol": ("Slurm",),
    "records": ("Job", "Node", "Partition", "Step"),
    "request": ("Submission", "Submitted"),
    "states": ("JobState", "NodeState"),
    "submission": ("submit_once",),
    "tres": ("Tres",),
}


def __getattr__(name: str) -> object:
    for module, names in _HOMES.items():
        if name in names:
            from importlib import import_module

            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
