"""Words of Slurm's that say why a step or a job ended, or does not start, and what they stand for."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING

from slurmkit.launch.parent import TOLD_TO_END

if TYPE_CHECKING:
    from collections.abc import Mapping

PASSES = re.compile(
    r"[Cc]onnection|[Tt]imed out|[Tt]imeout|[Cc]ommunication|[Ss]ocket|busy|completing|not respond|contact"
    r"|temporarily|try again"
)
"""Words of srun's by which a launch that failed may do better the next time."""
NODE = re.compile(r"(?:failed on node|Node failure on|DUE TO NODE) (?P<node>[\w.-]+)")
ENDED = re.compile(
    r"\*\*\* (?:JOB|STEP) .*?CANCELLED AT \S+"
    r"(?: DUE TO (?P<why>TIME LIMIT|PREEMPTION|JOB REQUEUE|NODE (?:\S+ )?FAILURE))?"
)
"""srun's word on a step that Slurm ended."""
ABORTED = re.compile(r"Job step aborted|forcing job termination|Force Terminated StepId=")
"""srun's word where it does not know how the tasks ended: its exit code may be 0 then."""
WHY: Mapping[str, str] = {
    "TIME": "TIMEOUT",
    "PREEMPTION": "PREEMPTED",
    "JOB": "REQUEUED",
    "NODE": "NODE_FAIL",
}
"""The first word of its reason, and the state of a job that it stands for."""
IN_QUEUE = frozenset({"PENDING", "REQUEUED", "REQUEUE_FED", "REVOKED"})
"""States of a job that starts again, here or (REVOKED) on another cluster of the federation."""
FROM_OUTSIDE = frozenset({signal.SIGKILL, *TOLD_TO_END})
CUT = frozenset({signal.SIGKILL, signal.SIGTERM})
"""Exit codes of jobs in accounting that more likely were a shell's 128 + signal."""
RELEASE = "`scontrol release JOB` lets it start, once the reason for the hold is gone"
HELD: Mapping[str, str] = {
    "launchfailedrequeuedheld": "a node failed to launch it; look at the node, then `scontrol release JOB`",
    "jobholdmaxrequeue": "it was requeued too often (MaxBatchRequeue); `scontrol release JOB` lets it start",
    "jobheldadmin": "an administrator holds it: only one can release it",
    "jobhelduser": RELEASE,
}
"""Reasons of jobs that are held, without blanks, brackets and underscores: Slurm spells them both ways."""
HELD_STATES = frozenset({"REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"})
NEVER: Mapping[str, str] = {
    "dependencyneversatisfied": "the job that it waits for ended otherwise; submit without that dependency",
    "badconstraints": "no node has what it asks for; `slurmkit lint` says what is there",
    "partitiontimelimit": "its time is longer than the partition allows",
    "partitionnodelimit": "it asks for more nodes than the partition allows",
}
"""Reasons of jobs that nothing will change."""
