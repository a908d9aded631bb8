"""An attempt of a run in a directory of its own, with a clock that only tests move and a small Slurm."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from slurmkit.recovery.attempt import current_attempt
from slurmkit.recovery.setting import Setting
from slurmkit.run import events
from slurmkit.run.paths import RunPaths
from slurmkit.slurm.ids import JobId
from slurmkit.slurm.records import Job
from slurmkit.slurm.states import JobState
from slurmkit.spec.model import Checkpoint, JobSpec
from tests.unit.run.conftest import NOW, FakeClock

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from slurmkit.errors import SlurmError

BATCH = {"SLURM_JOB_ID": "12", "SLURM_JOB_NODELIST": "n[1-2]"}


@dataclass
class QueueOfOne:
    """slurmctld with this one job. `faults` are raised one after the other, in the place of an answer."""

    job: Job
    recorded: tuple[Job, ...] = ()
    faults: list[SlurmError] = field(default_factory=list)
    carried_out_all_the_same: bool = False
    """Whether a request whose answer is lost had its effect."""
    done: list[str] = field(default_factory=list)

    def jobs(self, *_: object, **__: object) -> list[Job]:
        return [self.job]

    def accounting(self, *_: object, **__: object) -> list[Job]:
        return list(self.recorded)

    def requeue(self, job: JobId, *, hold: bool = False) -> None:
        fault = self.faults.pop(0) if self.faults else None
        if fault is None or self.carried_out_all_the_same:
            self.done.append(f"requeuehold {job}" if hold else f"requeue {job}")
            self.job = self.job._replace(restarts=(self.job.restarts or 0) + 1)
        if fault is not None:
            raise fault

    def config(self) -> dict[str, str]:
        return {"KillWait": "30 sec"}

    def update(self, job: JobId, changes: dict[str, str]) -> None:
        self.done.append(f"update {job} {changes}")

    def exclude(self, job: JobId, nodes: Sequence[str]) -> None:
        self.done.append(f"exclude {job} {','.join(nodes)}")

    def release(self, job: JobId) -> None:
        self.done.append(f"release {job}")


@dataclass
class Made:
    """An attempt, and what stands around it."""

    setting: Setting
    clock: FakeClock
    queue: QueueOfOne
    root: Path

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        """The events of some kinds, without their times."""
        told = events.read(self.setting.paths)
        return [{"event": one.kind, **one.fields} for one in told if not kinds or one.kind in kinds]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    """A job of two nodes with checkpoints, whose time ends in an hour."""
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "runs" / "r 1"
    root.mkdir(parents=True)
    clock = FakeClock()
    job = Job(
        id=JobId(12),
        name="job",
        user="alice",
        state=JobState.parse("RUNNING"),
        restarts=0,
        ends_by=NOW + timedelta(hours=1),
    )
    queue = QueueOfOne(job)
    setting = Setting(
        paths=RunPaths(root),
        spec=JobSpec(
            name="job",
            command=("python", "train.py"),
            checkpoint=Checkpoint(path="saved", resume=("--resume", "{checkpoint}")),
        ),
        attempt=current_attempt(BATCH),
        environ=BATCH,
        mask=(),
        srun="srun",
        clock=clock,
        connect=lambda: queue,  # type: ignore[arg-type, return-value]
        began=NOW.timestamp(),
    )
    return Made(setting, clock, queue, tmp_path)
