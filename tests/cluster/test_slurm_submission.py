"""A submit whose answer is lost, with a real Slurm: one job in the end, and its id known."""

from __future__ import annotations

import os
import shlex
import signal
import threading
import time
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from slurmkit.slurm.commands import Commands
from slurmkit.slurm.process import find_program
from slurmkit.slurm.request import Submission
from slurmkit.slurm.submission import GRACE, submit_once

if TYPE_CHECKING:
    from pathlib import Path

    from slurmkit.slurm.request import Submitted
    from slurmkit.testbed.testbed import Testbed

pytestmark = pytest.mark.cluster

TIMED_OUT = (
    "echo 'sbatch: error: Batch job submission failed: Socket timed out on send/recv operation' >&2; exit 1"
)


class QuickClock:
    """Fifty times as fast as time: a grace of a minute passes in a second."""

    def __init__(self) -> None:
        self.slept = 0.0

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return self.slept

    def sleep(self, seconds: float) -> None:
        self.slept += seconds
        time.sleep(seconds / 50)


class Attempt:
    """One submit with a unique tag, through a `sbatch` of our own that stands before the real one on PATH."""

    def __init__(self, testbed: Testbed, folder: Path) -> None:
        self.tag = f"slurmkit:{uuid.uuid4()}"
        self.clock = QuickClock()
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.real = find_program("sbatch", os.environ["PATH"])
        environment = {**os.environ, **testbed.environment, "PATH": f"{self.bin}:{os.environ['PATH']}"}
        self.slurm = Commands(environment=environment, clock=self.clock)
        script = folder / "job.sbatch"
        script.write_text(f"#!/bin/bash\n#SBATCH --comment={self.tag}\n#SBATCH --output=/dev/null\ntrue\n")
        self.submission = Submission(
            script=script, tag=self.tag, directory=folder, environment={"PATH": os.environ["PATH"]}
        )

    def wrap(self, body: str) -> None:
        """`body` runs in place of sbatch; `real` in it stands for the real one's call."""
        calls = shlex.quote(str(self.bin / "calls"))
        wrapper = self.bin / "sbatch"
        wrapper.write_text(
            f'#!/bin/bash\nreal() {{ {shlex.quote(self.real)} "$@"; }}\necho call >> {calls}\n{body}\n'
        )
        wrapper.chmod(0o755)

    def calls(self) -> int:
        return len((self.bin / "calls").read_text().splitlines())

    def submit(self) -> Submitted:
        return submit_once(self.slurm, self.submission, clock=self.clock, since=datetime.now(UTC))

    def in_slurm(self) -> list[str]:
        """The ids of all jobs that carry the tag."""
        return [str(job.id) for job in self.slurm.jobs() if job.comment == self.tag]


@pytest.fixture
def attempt(slurm_testbed: Testbed, tmp_path: Path) -> Attempt:
    return Attempt(slurm_testbed, tmp_path)


def test_trap_148_a_submit_that_took_effect_and_reported_a_timeout_is_adopted(attempt: Attempt) -> None:
    attempt.wrap(f'real "$@" > /dev/null; {TIMED_OUT}')
    receipt = attempt.submit()
    assert attempt.in_slurm() == [str(receipt.id)]
    assert attempt.calls() == 1


def test_trap_136_a_submit_whose_id_a_wrapper_swallowed_is_adopted(attempt: Attempt) -> None:
    attempt.wrap('real "$@" | sed "s/^/Job /"')
    receipt = attempt.submit()
    assert attempt.in_slurm() == [str(receipt.id)]
    assert attempt.calls() == 1


def test_a_submit_that_failed_before_slurm_heard_of_it_is_made_anew_after_the_grace(attempt: Attempt) -> None:
    attempt.wrap(f'test -e "$0.once" && {{ real "$@"; exit; }}; touch "$0.once"; {TIMED_OUT}')
    receipt = attempt.submit()
    assert attempt.in_slurm() == [str(receipt.id)]
    assert attempt.calls() == 2
    assert attempt.clock.slept >= GRACE


def test_trap_148_a_controller_that_was_frozen_does_not_make_two_jobs(
    attempt: Attempt, slurm_testbed: Testbed
) -> None:
    attempt.wrap('real "$@"')
    slurm_testbed.kill("slurmctld", signal.SIGSTOP)
    thaw = threading.Timer(14, slurm_testbed.kill, ("slurmctld", signal.SIGCONT))
    thaw.start()
    try:
        receipt = attempt.submit()
    finally:
        thaw.join()
    assert attempt.in_slurm() == [str(receipt.id)]
    assert attempt.calls() == 1
