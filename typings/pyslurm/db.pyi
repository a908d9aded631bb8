# What of pyslurm.db slurmkit uses.
from collections.abc import Iterable, Mapping, Sequence

class TrackableResource:
    type_and_name: str
    count: int

class TrackableResources:
    cpu: TrackableResource | None
    mem: TrackableResource | None
    node: TrackableResource | None
    billing: TrackableResource | None
    energy: TrackableResource | None
    pages: TrackableResource | None
    vmem: TrackableResource | None
    fs: Mapping[str, TrackableResource]
    gres: Mapping[str, TrackableResource]
    interconnect: Mapping[str, TrackableResource]
    license: Mapping[str, TrackableResource]
    other: Mapping[str, TrackableResource]

class JobStepStatistics:
    max_resident_memory: int

class JobStep:
    elapsed_time: int | None
    end_time: int | None
    exit_code: int
    exit_code_signal: int
    id: int | str
    name: str | None
    nodelist: str | None
    ntasks: int | None
    start_time: int | None
    state: str
    stats: JobStepStatistics
    tres: TrackableResources | None

class Job:
    account: str | None
    allocated_tres: TrackableResources | None
    array_id: int | None
    array_task_id: int | None
    array_tasks_parallel: int | None
    array_tasks_waiting: str | None
    cancelled_by: str | None
    cluster: str | None
    comment: str | None
    cpus: int
    elapsed_time: int | None
    eligible_time: int | None
    end_time: int | None
    exit_code: int
    exit_code_signal: int
    heterogeneous_id: int | None
    heterogeneous_offset: int | None
    id: int
    name: str | None
    nodelist: str | None
    partition: str | None
    qos: str | None
    requested_tres: TrackableResources | None
    requeue_count: int
    start_time: int | None
    state: str
    state_reason: str | None
    steps: Mapping[int | str, JobStep]
    submit_command: str | None
    submit_time: int | None
    time_limit: int | str | None
    user_id: int
    user_name: str
    working_directory: str | None

class JobFilter:
    ids: Sequence[int]
    users: Sequence[str]
    start_time: int
    end_time: int
    def __init__(self, *, end_time: int = ...) -> None: ...

class Jobs:
    @staticmethod
    def load(db_filter: JobFilter | None = ...) -> Jobs: ...
    def values(self) -> Iterable[Job]: ...
