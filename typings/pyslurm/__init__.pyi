# What of pyslurm slurmkit uses.
from collections.abc import Iterable

from pyslurm import db as db

__version__: str

class PyslurmError(Exception): ...
class RPCError(PyslurmError): ...

class Job:
    def __init__(self, job_id: int) -> None: ...
    def cancel(self) -> None: ...
    account: str | None
    allocated_nodes: str | None
    allocated_tres: db.TrackableResources | None
    array_id: int | None
    array_task_id: int | None
    array_tasks_parallel: int | None
    array_tasks_waiting: str | None
    cluster: str | None
    comment: str | None
    cpus: int
    eligible_time: int | None
    end_time: int | None
    exit_code: int
    exit_code_signal: int
    heterogeneous_id: int | None
    heterogeneous_offset: int | None
    id: int
    name: str | None
    num_nodes: int | None
    partition: str | None
    qos: str | None
    requested_tres: db.TrackableResources | None
    requeue_count: int
    run_time: int
    start_time: int | None
    state: str
    state_reason: str | None
    submit_time: int | None
    time_limit: int | None
    user_id: int
    user_name: str
    working_directory: str | None

class Jobs:
    @staticmethod
    def load() -> Jobs: ...
    def values(self) -> Iterable[Job]: ...

class Node: ...

class Nodes:
    @staticmethod
    def load() -> Nodes: ...
    def values(self) -> Iterable[Node]: ...
