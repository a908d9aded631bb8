"""A Slurm of one screen, a clock that only tests move, and run directories with hostile names."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from slurmkit.run import events, record
from slurmkit.run.paths import RunPaths
from slurmkit.slurm.exitcode import ExitCode
from slurmkit.slurm.ids import JobId
from slurmkit.slurm.records import Job
from slurmkit.slurm.request import Submission, Submitted
from slurmkit.slurm.states import JobState

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path

    from slurmkit.errors import SlurmError
    from slurmkit.slurm.records import Node, Partition

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)


class FakeClock:
    """Stands still but for its own sleeps; `on_sleep` lets a test change the world meanwhile."""

    def __init__(self) -> None:
        self.time = NOW
        self.on_sleep: Callable[[], None] = lambda: None

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp()

    def sleep(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)
        self.on_sleep()


@dataclass
class FakeSlurm:
    """Answers from two lists and counts the questions. An error in the place of a list is raised."""

    live: list[Job] | SlurmError = field(default_factory=list)
    past: list[Job] | SlurmError = field(default_factory=list)
    on_submit: Callable[[Submission], Submitted] = lambda _: Submitted(JobId(12))
    calls: list[str] = field(default_factory=list)
    ages: list[float] = field(default_factory=list)
    """How old an answer of the queue might have been, at each call."""
    cancelled: list[JobId] = field(default_factory=list)
    configuration: dict[str, str] = field(default_factory=dict)

    def submit(self, submission: Submission) -> Submitted:
        self.calls.append("submit")
        return self.on_submit(submission)

    def find(self, tag: str, *, since: datetime) -> Job | None:
        jobs = [*self.jobs(), *self.accounting(since=since)]
        return next((job for job in jobs if tag in (job.comment or "")), None)

    def jobs(
        self, ids: Collection[JobId] | None = None, *, user: str | None = None, max_age: float = 0.0
    ) -> list[Job]:
        self.calls.append("jobs")
        self.ages.append(max_age)
        return [job for job in self._chosen(self.live, ids) if user in {None, job.user}]

    def accounting(self, ids: Collection[JobId] | None = None, **_: object) -> list[Job]:
        self.calls.append("accounting")
        return self._chosen(self.past, ids)

    def _chosen(self, jobs: list[Job] | SlurmError, ids: Collection[JobId] | None) -> list[Job]:
        if not isinstance(jobs, list):
            raise jobs
        return [job for job in jobs if ids is None or any(one.covers(job.id) for one in ids)]

    def cancel(self, ids: Sequence[JobId]) -> None:
        self.cancelled += ids

    def nodes(self, names: Collection[str] | None = None) -> list[Node]:
        raise NotImplementedError

    def partitions(self) -> list[Partition]:
        raise NotImplementedError

    def signal(self, job: JobId, name: str, *, batch: bool = False) -> None:
        raise NotImplementedError

    def requeue(self, job: JobId, *, hold: bool = False) -> None:
        raise NotImplementedError

    def hold(self, job: JobId) -> None:
        raise NotImplementedError

    def release(self, job: JobId) -> None:
        raise NotImplementedError

    def update(self, job: JobId, changes: Mapping[str, str]) -> None:
        raise NotImplementedError

    def end_steps(self, job: JobId) -> tuple[str, ...]:
        raise NotImplementedError

    def exclude(self, job: JobId, nodes: Sequence[str]) -> None:
        raise NotImplementedError

    def topology(self) -> Mapping[str, str]:
        raise NotImplementedError

    def config(self) -> Mapping[str, str]:
        return self.configuration

    def version(self) -> tuple[int, int, int]:
        raise NotImplementedError


def make_job(text: str = "12", state: str = "RUNNING", **fields: Any) -> Job:
    """A job as Slurm would tell it; `exit_code` may be text."""
    if isinstance(code := fields.get("exit_code"), str):
        fields["exit_code"] = ExitCode.parse(code)
    for name, value in {"name": "a name", "user": "ada", "submit_time": NOW}.items():
        fields.setdefault(name, value)
    return Job(id=JobId.parse(text), state=JobState.parse(state), **fields)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def slurm() -> FakeSlurm:
    return FakeSlurm()


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """The index of runs."""
    return tmp_path / "state of 'ada' $HOME" / "runs"


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., RunPaths]:
    """Make a run directory with a record; `job_id` writes a receipt, `log` further (kind, fields)."""

    def make(
        run_id: str = "a-name-20261201-aaaaaa",
        *log: tuple[str, dict[str, Any]],
        job_id: str | None = "12",
        **fields: Any,
    ) -> RunPaths:
        root = tmp_path / 'runs `of` "ada" é' / run_id
        root.mkdir(parents=True)
        paths = RunPaths(root)
        known = {"name": "a name", "created": NOW, "user": "ada", "host": "h", "directory": str(tmp_path)}
        for name, value in known.items():
            fields.setdefault(name, value)
        record.save(paths, record.RunRecord(id=run_id, **fields))
        events.append(paths, "submitting", at=NOW)
        if job_id:
            events.append(paths, "submitted", at=NOW, job_id=job_id)
        for kind, more in log:
            events.append(paths, kind, at=NOW, **more)
        return paths

    return make
