"""How a job ended, in words and as an exit code. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from slurmkit.run.history import Attempt
    from slurmkit.slurm.records import Job

ENDS: Mapping[str, str] = {
    "TIMEOUT": "the time limit was reached",
    "OUT_OF_MEMORY": "out of memory",
    "NODE_FAIL": "a node failed",
    "BOOT_FAIL": "a node did not boot",
    "PREEMPTED": "a job of higher priority took the nodes",
    "DEADLINE": "the deadline was reached",
    "REVOKED": "another cluster of the federation took the job",
}
"""Ends of Slurm's that say by themselves why."""

_NO_NEWS = frozenset({None, "None", "NonZeroExitCode"})


def run_state(job: Job) -> str:
    """What the end of a job makes of its run."""
    if job.state.is_success:
        return "completed"
    return "cancelled" if job.state.name == "CANCELLED" else "failed"


def exit_code(jobs: Sequence[Job]) -> int:
    """The exit code of jobs that did not all do well, as `sbatch --wait` has it: the highest, never 0."""
    return max((job.exit_code.status for job in jobs if job.exit_code), default=0) or 1


def reason(job: Job, attempt: Attempt | None) -> str:
    """Why a job did not end well."""
    state = job.state.name
    if any(step.state.name == "OUT_OF_MEMORY" for step in job.steps):
        state = "OUT_OF_MEMORY"  # the job itself may say FAILED with exit code 0 (trap 019)
    if state == "CANCELLED":
        return "CANCELLED" if job.cancelled_by is None else f"CANCELLED by {user_name(job.cancelled_by)}"
    if state in ENDS:
        return f"{state}: {ENDS[state]}" + _first(attempt)
    told = "" if job.reason in _NO_NEWS else f" ({job.reason})"
    if job.exit_code is None or job.exit_code.is_success:
        return state + told
    return exit_reason(job.exit_code.status, attempt) + told


def exit_reason(code: int, attempt: Attempt | None) -> str:
    """Why a run whose exit code is `code` did not end well."""
    signal = f" (signal {code - 128})" if code > 128 else ""
    return f"exit code {code}{signal}" + _first(attempt)


def _first(attempt: Attempt | None) -> str:
    """What the agent says; else the rank that failed first, as the others' ends are only its echo."""
    if attempt and attempt.reason:
        return f"; {attempt.reason}"
    failure = attempt.first_failure if attempt else None
    if not failure:
        return ""
    host = f" on {failure['host']}" if failure.get("host") else ""
    return f"; rank {failure.get('rank')}{host} failed first"


def user_name(uid: int) -> str:
    """The name of a user, or the uid where it has none here."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
