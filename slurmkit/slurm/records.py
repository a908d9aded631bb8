"""What Slurm tells, as values: times as aware datetimes, durations as timedeltas, memory in bytes.

A field that Slurm left open (`Unknown`, `None`, empty, a sentinel) is None here, never zero. Made by keyword.
Named tuples: as dataclasses their classes alone would cost `slurmkit status` a tenth of its start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from slurmkit.slurm.exitcode import ExitCode
    from slurmkit.slurm.ids import JobId, StepId
    from slurmkit.slurm.states import JobState, NodeState
    from slurmkit.slurm.tres import Tres


class Step(NamedTuple):
    """One step of a job, as accounting knows it."""

    id: StepId
    name: str
    state: JobState
    exit_code: ExitCode | None = None
    start_time: datetime | None = None
    end_time: datetime | None = None
    elapsed: timedelta | None = None
    nodes: tuple[str, ...] = ()
    tasks: int | None = None
    tres: Tres | None = None
    max_rss: int | None = None


class Job(NamedTuple):
    """One record of a job: live from the controller, or one attempt from accounting."""

    id: JobId
    name: str
    user: str
    state: JobState
    account: str | None = None
    partition: str | None = None
    qos: str | None = None
    cluster: str | None = None
    reason: str | None = None
    cancelled_by: int | None = None
    exit_code: ExitCode | None = None
    submit_time: datetime | None = None
    eligible_time: datetime | None = None
    start_time: datetime | None = None
    end_time: datetime | None = None
    elapsed: timedelta | None = None
    time_limit: timedelta | None = None
    """`timedelta.max` stands for UNLIMITED."""
    nodes: tuple[str, ...] = ()
    node_count: int | None = None
    cpus: int | None = None
    tres: Tres | None = None
    """Allocated; before the start, what was asked for stands in `requested_tres`."""
    requested_tres: Tres | None = None
    comment: str | None = None
    working_directory: str | None = None
    submit_line: str | None = None
    restarts: int | None = None
    ends_by: datetime | None = None
    """When Slurm will end it, as long as it runs: its time limit, or the end of a preemption's grace."""
    steps: tuple[Step, ...] = ()


class Node(NamedTuple):
    """One node, as the controller knows it. Memory in bytes."""

    name: str
    address: str
    hostname: str
    state: NodeState
    reason: str | None = None
    cpus: int = 0
    cpus_allocated: int = 0
    memory: int = 0
    memory_allocated: int = 0
    gres: str | None = None
    """Slurm's own text, e.g. `gpu:a100:8(S:0-1)`."""
    gres_used: str | None = None
    tres: Tres | None = None
    tres_allocated: Tres | None = None
    features: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()


class Partition(NamedTuple):
    """One partition. `max_time` is `timedelta.max` for UNLIMITED; `max_nodes` None for UNLIMITED."""

    name: str
    is_default: bool
    state: str
    nodes: tuple[str, ...]
    max_time: timedelta | None = None
    default_time: timedelta | None = None
    max_nodes: int | None = None
    tres: Tres | None = None
