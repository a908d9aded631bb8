"""The kinds of ends of a step or a job: what each means, by what it is known, and what follows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from slurmkit.run.suspects import AT_ONCE

if TYPE_CHECKING:
    from collections.abc import Mapping

Follows = Literal["done", "stop", "leave", "again", "elsewhere", "more memory"]
FOLLOWS: Mapping[Follows, str] = {
    "done": "nothing: the run is done",
    "stop": "the run stops",
    "leave": "nothing of slurmkit's: Slurm, or a person, acts",
    "again": "another try: in place, else in another allocation",
    "elsewhere": "another allocation",
    "more memory": "resubmitted with more memory, as `[retry] memory_factor` says; without it, the run stops",
}
"""What each word of `Kind.follows` stands for."""
Counts = Literal["never", "at once", "same", "any", "idle"]
COUNTS: Mapping[Counts, str] = {
    "never": "",
    "at once": "the run stops at the first one that comes before a new checkpoint",
    "same": "the run stops where the same error comes back",
    "any": "the run stops after many",
    "idle": "the run stops where it comes back, but counts only an allocation that made no checkpoint",
}
"""How an end without progress counts towards a stop. `any`: it says little of the program itself."""


class Kind(NamedTuple):
    """A kind of end."""

    meaning: str
    known_by: str
    follows: Follows
    counts: Counts = "never"
    blames_node: bool = False
    """Whether the node itself is to blame."""
    waits: bool = False
    """Whether time may heal it: the next start is put off a little, and each time for longer."""

    @property
    def transient(self) -> bool:
        """Whether another try, as it was, can end otherwise."""
        return self.follows in {"again", "elsewhere"}


KINDS: Mapping[str, Kind] = {
    "finished": Kind(
        "the work is done", "exit code 0, and all steps of `[progress] total` where that is given", "done"
    ),
    "never-starts": Kind(
        "the job can never start as it was asked for",
        "a pending job's reason, as `DependencyNeverSatisfied`; Slurm's `DEADLINE`",
        "stop",
    ),
    "cancelled": Kind(
        "somebody cancelled the job",
        "`slurmkit cancel`, or Slurm's `CANCELLED by`; the user is named",
        "stop",
    ),
    "held": Kind(
        "Slurm holds the job until it is released",
        "a pending job's reason: `JobHoldMaxRequeue`, `launch failed requeued held`, `JobHeldUser`",
        "leave",
    ),
    "preempted": Kind(
        "a job of higher priority took the nodes",
        "Slurm's `PREEMPTED`, or SIGTERM to the ranks alone, inside GraceTime",
        "elsewhere",
    ),
    "requeued": Kind(
        "the job is in the queue again",
        "Slurm's `REQUEUED`, a job that is pending, srun's word; nobody but Slurm or a person did it",
        "leave",
    ),
    "time-limit": Kind(
        "the time of the allocation is over",
        "the agent's own timer, or Slurm's `TIMEOUT`",
        "elsewhere",
        "idle",
    ),
    "node-died": Kind(
        "a node died under the step",
        "the node's state, Slurm's `NODE_FAIL` or `BOOT_FAIL`, or srun's word",
        "again",
        "any",
        blames_node=True,
        waits=True,
    ),
    "told-to-end": Kind(
        "Slurm told the job to end, and has not said why",
        "SIGTERM to the agent, and no state of the job's that explains it",
        "leave",
    ),
    "node-unfit": Kind(
        "a node is not fit for the step",
        "the check of the nodes before the start, or a GPU that was lost",
        "again",
        "any",
        blames_node=True,
        waits=True,
    ),
    "host-out-of-memory": Kind(
        "a node's memory, or the job's share of it, was full",
        "the step's `OUT_OF_MEMORY` or `0:125`, whatever the job says; the kernel's count of memory kills",
        "more memory",
        "any",
    ),
    "hung": Kind("no rank made progress for too long", "the silence of all ranks", "again", "same"),
    "do-not-requeue": Kind(
        "the program asks not to be started again", "exit code 93, or one of `[retry] stop_on`", "stop"
    ),
    "setup-failed": Kind(
        "what the program needs is not there",
        "a module, a file or a command that is not found, or a permission, before the first step",
        "stop",
    ),
    "launch-failed": Kind(
        "Slurm could not start the ranks", "srun's word, before any rank ran", "again", "any", waits=True
    ),
    "gpu-out-of-memory": Kind("the GPU's memory was full", "the rank's last words", "again", "at once"),
    "communication-timeout": Kind(
        "the ranks lost one another",
        "the rank's last words: NCCL, the rendezvous, a lost connection",
        "again",
        "same",
        waits=True,
    ),
    "port-in-use": Kind("a port was taken", "the rank's last words", "again", "any", waits=True),
    "disk-full": Kind(
        "a disk was full, or a quota used up", "the rank's last words", "again", "any", waits=True
    ),
    "storage-failed": Kind(
        "the file system failed under the program", "the rank's last words", "again", "any", waits=True
    ),
    "killed": Kind(
        "a signal from outside ended a rank or the step",
        "SIGKILL or SIGTERM that neither the kernel's count nor Slurm explains; `scancel` of the step",
        "again",
        "any",
    ),
    "crashed": Kind(
        "a rank failed by itself", "its exit code or signal, and its last words", "again", "same"
    ),
    "ended-early": Kind(
        "the program ended with 0 before its work was done",
        "exit code 0, and fewer steps than `[progress] total`",
        "again",
        "same",
    ),
    "agent-died": Kind(
        "the agent is gone without a last word",
        "an attempt without an end in the run's events, and nothing of the above",
        "again",
        "any",
    ),
    "unknown": Kind("nobody knows", "none of the above; what was seen is said", "again", "any"),
}
"""Every kind of end, the one with the strongest evidence first."""


def as_markdown() -> str:
    """The table of the manual: every kind, its evidence, and what follows."""
    rows = ["| kind | what happened | how it is known | what follows |", "|---|---|---|---|"]
    rows += [
        f"| `{name}` | {kind.meaning} | {kind.known_by} | {_what_follows(name, kind)} |"
        for name, kind in KINDS.items()
    ]
    return "\n".join(rows) + "\n"


def _what_follows(name: str, kind: Kind) -> str:
    words = [FOLLOWS[kind.follows]]
    if name in AT_ONCE:
        words.append("without that node")
    if kind.waits:
        words.append("after a pause")
    if COUNTS[kind.counts]:
        words.append(COUNTS[kind.counts])
    return "; ".join(words)


OF_A_CAUSE: Mapping[str, str] = {
    "gpu-out-of-memory": "gpu-out-of-memory",
    "host-out-of-memory": "host-out-of-memory",
    "disk-full": "disk-full",
    "storage-failed": "storage-failed",
    "port-in-use": "port-in-use",
    "gpu-lost": "node-unfit",
    "node-failed": "node-died",
    "nccl-error": "communication-timeout",
    "nccl-timeout": "communication-timeout",
    "rendezvous-timeout": "communication-timeout",
    "connection-lost": "communication-timeout",
    "no-network": "communication-timeout",
    "killed": "killed",
    "hung": "hung",
    "launch-failed": "launch-failed",
    "missing-module": "setup-failed",
    "import-error": "setup-failed",
    "python-syntax": "setup-failed",
    "missing-file": "setup-failed",
    "permission": "setup-failed",
}
"""The kind of end that a cause makes; every other one is a crash."""
