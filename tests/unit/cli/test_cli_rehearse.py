"""`slurmkit rehearse` against a Slurm of one screen, whose one job is played by the test."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from slurmkit.cli import context
from slurmkit.cli import rehearse as command
from slurmkit.errors import Refused
from slurmkit.launch.plain_json import encode
from slurmkit.recovery.rehearsing import signalled
from slurmkit.run import events
from slurmkit.run.paths import RunPaths
from tests.unit.cli.conftest import own_job
from tests.unit.run.conftest import FakeClock, FakeSlurm

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from slurmkit.slurm.ids import JobId
    from slurmkit.slurm.request import Submission, Submitted
    from tests.unit.cli.conftest import Slurmkit

JOB = """\
name = "long"
command = ["python", "train.py", "--save", "saved"]
[resources]
time = "1d"
[checkpoint]
path = "saved"
lead_time = "10s"
"""
ATTEMPT = "12-0"


@dataclass
class Play(FakeSlurm):
    """A job whose agent and ranks write what they would, one thing at each look."""

    clock: FakeClock = field(default_factory=FakeClock)
    folder: Path = Path()
    resumes_at: int = 41
    saves: bool = True
    loss_after: float = 0.4
    on_running: Callable[[], None] = lambda: None
    leaves: str = "."
    """What lies in its folder when it is running."""
    told: int = 0

    def begin(self) -> None:
        self.clock.time = datetime.now(UTC)
        self.clock.on_sleep = self.go_on
        self.live = [own_job()]

    @property
    def paths(self) -> RunPaths:
        (root,) = self.folder.glob("runs/long-rehearsal-*")
        return RunPaths(root)

    def go_on(self) -> None:
        """What happens between two looks."""
        self.told += 1
        if self.told == 1:
            self.note("attempt-started", job_id="12", nodes=["n1"])
            self.note("step-started", step=0)
        elif self.told == 2:
            (self.own_folder() / self.leaves).mkdir(exist_ok=True)
            self.on_running()
            self.tell(0, step=40, first=1, loss=0.5)
        elif self.saves and self.told in {3, 5}:
            self.save(self.told * 10)

    def save(self, step: int) -> None:
        path = f"{self.own_folder()}/step-{step}"
        at = self.clock.now().timestamp()
        self.note("checkpoint-complete", step=0, checkpoint=path, at_step=step, saved=at)

    def own_folder(self) -> Path:
        text = self.paths.job_toml.read_text()
        return self.folder / text.partition('path = "')[2].partition('"')[0]

    def end_steps(self, job: JobId) -> tuple[str, ...]:
        self.note("step-ended", step=0, exit_code=137, at_step=52)
        chosen = f"{self.own_folder()}/step-50"
        self.clock.sleep(0.5)
        self.note("checkpoint-chosen", step=1, checkpoint=chosen, at_step=50)
        self.note("step-started", step=1, from_step=50)
        self.tell(1, step=60, first=self.resumes_at, loss=self.loss_after)
        return (f"{job}.0",)

    def cancel(self, ids: Sequence[JobId]) -> None:
        super().cancel(ids)
        self.live = []

    def note(self, kind: str, **fields: Any) -> None:
        events.append(self.paths, kind, at=self.clock.now(), attempt=ATTEMPT, **fields)

    def tell(self, start: int, *, step: int, first: int, loss: float) -> None:
        told = {"updated": self.clock.now().timestamp(), "attempt": ATTEMPT, "step_start": start}
        told |= {"step": step, "first_step": first, "metrics": {"train/loss": loss}}
        file = self.paths.progress(ATTEMPT)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(encode(told))


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch, place: Path) -> Play:
    play = Play(folder=place)
    play.begin()
    monkeypatch.setattr(command, "connect", lambda _: play)
    monkeypatch.setattr(context, "connect_to_watch", lambda _: play)
    monkeypatch.setattr(command, "system_clock", lambda: play.clock)
    monkeypatch.setattr(context, "system_clock", lambda: play.clock)
    monkeypatch.setenv("PATH", os.devnull)  # there is no srun
    (place / "job.toml").write_text(JOB)
    (place / "saved" / "step-9").mkdir(parents=True)
    return play


def test_a_rehearsal_that_passes_cancels_its_job_and_removes_its_checkpoints(
    slurmkit: Slurmkit, slurm: Play, place: Path
) -> None:
    slurm.resumes_at = 51
    done = slurmkit("rehearse", "job.toml")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert [line.split()[:2] for line in lines[:4]] == [
        ["checkpoint", "ok"],
        ["signal", "ok"],
        ["resume", "ok"],
        ["loss", "ok"],
    ]
    assert lines[4:] == ["passed: it went on from step-50"]
    assert [str(one) for one in slurm.cancelled] == ["12"]
    assert [one.name for one in place.glob("saved*")] == ["saved"]
    assert (place / "saved" / "step-9").exists()
    assert "the ranks could not be signalled" in done.err


def test_a_failure_is_told_with_its_reason_and_where_to_look(slurmkit: Slurmkit, slurm: Play) -> None:
    slurm.resumes_at = 1
    done = slurmkit("rehearse", "job.toml", "--json")
    assert done.code == 1
    assert done.json["passed"] is False
    assert done.json["reason"] == "resumed at step 0 although checkpoint step-50 was there"
    assert done.json["checks"][-1]["outcome"] == "failed"
    assert done.json["job_id"] == "12"
    assert f"slurmkit show {done.json['id']}" in done.err


def test_kept_checkpoints_are_where_json_says(slurmkit: Slurmkit, slurm: Play) -> None:
    slurm.resumes_at = 51
    done = slurmkit("rehearse", "job.toml", "--json", "--keep")
    assert Path(done.json["checkpoints"]).is_dir()
    assert Path(done.json["checkpoints"]).name.startswith("saved-rehearsal-")


def test_a_wait_in_vain_names_what_lies_about(slurmkit: Slurmkit, slurm: Play, place: Path) -> None:
    slurm.saves = False
    slurm.leaves = "step-20"
    done = slurmkit("rehearse", "job.toml", "--timeout", "20s")
    assert done.code == 1
    assert "no checkpoint was complete within 20s, though every rank was asked for one; step-20" in done.out
    assert [one.name for one in place.glob("saved*")] == ["saved"]
    assert [str(one) for one in slurm.cancelled] == ["12"]


def test_an_interrupt_cancels_the_job(slurmkit: Slurmkit, slurm: Play, place: Path) -> None:
    slurm.on_running = lambda: os.kill(os.getpid(), signal.SIGTERM)
    before = signal.getsignal(signal.SIGTERM)
    done = slurmkit("rehearse", "job.toml")
    assert done.code != 0
    assert "interrupted; the job is cancelled" in done.err
    assert [str(one) for one in slurm.cancelled] == ["12"]
    assert [one.name for one in place.glob("saved*")] == ["saved"]
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_job_that_slurm_refuses_leaves_no_folder(slurmkit: Slurmkit, slurm: Play, place: Path) -> None:
    def refuse(_: Submission) -> Submitted:
        raise Refused("invalid partition specified")

    slurm.on_submit = refuse
    done = slurmkit("rehearse", "job.toml", "-p", "none")
    assert done.code == 3
    assert [one.name for one in place.glob("saved*")] == ["saved"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--time", "soon"], "--time: "),
        (["--timeout", "0s"], "--timeout must be more than nothing"),
        (["--set", "checkpoint.path=else"], "among the run's own"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_happens(
    arguments: list[str], why: str, slurmkit: Slurmkit, slurm: Play, place: Path
) -> None:
    (place / "else").mkdir()
    (place / "else" / "step-1").mkdir()
    done = slurmkit("rehearse", "job.toml", *arguments)
    assert done.code == 2
    assert why in done.err
    assert not (place / "runs").exists()
    assert slurm.calls == []


def test_a_rank_catches_the_signal_if_any_of_its_processes_does() -> None:
    lines = [
        "srun: a word",
        '{"rank":0,"sent":true}',
        '{"rank":0,"sent":false}',
        '{"rank":1,"sent":false}',
        "[]",
    ]
    assert signalled("\n".join([*lines, '{"rank":'])) == {0: True, 1: False}
