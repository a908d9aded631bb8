"""Why attempts ended, as far as accounting alone can say. The kinds are those of a run's diagnosis."""

from __future__ import annotations

from typing import NamedTuple

from slurmkit.run.sentences import end_in_words
from slurmkit.slurm.exitcode import OUT_OF_MEMORY

NO_FAILURE = frozenset({"COMPLETED", "REVOKED", "RESIZING"})
"""Ends at which nothing was lost: the job goes on elsewhere, or with other nodes, or had done its work."""

TOLD = frozenset({1, 2, 3, 9, 15})
"""Signals that somebody else sends: HUP, INT, QUIT, KILL, TERM."""

NODE_DIED = "(state IN ('NODE_FAIL', 'BOOT_FAIL'))"
FAILED = f"(state = 'FAILED' AND exit_signal IS DISTINCT FROM {OUT_OF_MEMORY})"
"""SQL over jobs: Slurm blames a node for the one, a node may be to blame for the other."""

WHO = """CASE WHEN cancelled_by IS NULL THEN NULL
 WHEN cancelled_by = "user" OR cancelled_by = uid::VARCHAR THEN 'user'
 WHEN cancelled_by IN ('0', 'root') THEN 'administrator'
 WHEN uid IS NULL AND regexp_full_match(cancelled_by, '\\d+') THEN NULL
 ELSE 'administrator' END"""
"""SQL over jobs: whether its own user cancelled it. Slurm lets nobody else but those who administer."""


class End(NamedTuple):
    """Why an attempt ended."""

    kind: str
    cause: str


_STATES = {
    "OUT_OF_MEMORY": End("host-out-of-memory", "out of memory"),
    "TIMEOUT": End("time-limit", "time limit"),
    "NODE_FAIL": End("node-died", "node failed"),
    "BOOT_FAIL": End("node-died", "node did not boot"),
    "PREEMPTED": End("preempted", "preempted"),
    "REQUEUED": End("requeued", "requeued"),
    "DEADLINE": End("never-starts", "deadline passed"),
}


def end_of(state: str, exit_code: int | None, exit_signal: int | None, who: str | None) -> End | None:
    """Why an attempt ended that has ended; None where it did well. `who` is what `WHO` gives.

    The state decides (sacct man page, JOB STATE CODES), and of a FAILED one the exit code.
    """
    if state in NO_FAILURE or state in _STATES:
        return _STATES.get(state)
    if state == "CANCELLED":
        by = {"user": " by its user", "administrator": " by an administrator"}.get(who or "", "")
        return End("cancelled", f"cancelled{by}")
    if state != "FAILED":
        return End("unknown", f"state {state}")
    if exit_signal == OUT_OF_MEMORY:
        return _STATES["OUT_OF_MEMORY"]
    if exit_code or exit_signal:
        kind = "killed" if exit_signal in TOLD and not exit_code else "crashed"
        return End(kind, end_in_words(exit_code, None if exit_code else exit_signal))
    return End("unknown", "failed without an exit code")
