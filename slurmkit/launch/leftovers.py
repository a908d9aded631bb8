"""Programs of an earlier start of the run that live on: a slurmstepd that dies takes nothing with it.

They would write checkpoints beside those of the start that follows. They are ended before it.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from slurmkit.launch.stacks import read_processes
from slurmkit.launch.tasks import step_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from slurmkit.launch.stacks import Process

GONE_WITHIN = 3.0
"""Seconds that the kernel may take to end them."""
LOOK = 0.01


def end_leftovers(run_id: str, job_id: str | None) -> tuple[int, int]:
    """End what is left of a run on this node; how many there were, and how many are there all the same.

    `job_id` is SLURM_JOB_ID where other tasks of the same array are to be left alone.
    """
    until = time.monotonic() + GONE_WITHIN
    ended: set[int] = set()
    # Again, for one of them may have started another just before its end.
    while time.monotonic() < until and (found := of_run(read_processes(), run_id, job_id)):
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        ended.update(found)
        while left := [pid for pid in ended if is_there(pid)]:
            if time.monotonic() >= until:
                return len(ended), len(left)
            time.sleep(LOOK)
    return len(ended), 0


def of_run(processes: Iterable[Process], run_id: str, job_id: str | None) -> Sequence[int]:
    """The processes of a run's ranks. The agent and its srun are in no step, and what asks has no run id.

    A job that a rank has submitted inherits all that, and is known by a job id that its attempt has not.
    """
    return [
        one.pid
        for one in processes
        if one.environ.get("SLURMKIT_RUN_ID") == run_id
        and step_of(one.environ) is not None
        and one.environ.get("SLURM_JOB_ID")
        == (job_id or one.environ.get("SLURMKIT_ATTEMPT", "").rpartition("-")[0])
    ]


def is_there(pid: int) -> bool:
    """Whether a process is still at work: one that has ended and is not yet buried is not."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except (OSError, IndexError):
        return False
