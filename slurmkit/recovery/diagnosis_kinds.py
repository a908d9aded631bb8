"""The kinds of ends of a step or a job: what each means, by what it is known, and what follows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

Follows = Literal["done", "stop", "leave", "again", "next allocation", "more memory"]
Counts = Literal["never", "same", "any", "idle"]


class Kind(NamedTuple):
    """A kind of end. `follows` is the policy's way: see `slurmkit.recovery.policy`."""

    meaning: str
    known_by: str
    follows: Follows
    counts: Counts = "never"
    """Towards a stop without progress: `same`, soon where the same error comes back; `any`, later, for what comes
    from outside and says nothing of the program; `idle`, only where a whole allocation made no checkpoint."""
    blames_node: bool = False
    waits: bool = False
    """Whether time may heal it: the next start is put off a little, and each time for longer."""

    @property
    def transient(self) -> bool:
        """Whether another try can end otherwise."""
        return self.follows in {"again", "next allocation"}


KINDS: Mapping[str, Kind] = {
    "finished": Kind(
        "the work is done", "exit code 0, and the steps of `[progress] total` where that is given", "done"
    ),
    "cancelled": Kind(
        "somebody cancelled the job",
        "`slurmkit cancel`, or Slurm's `CANCELLED by`; the user is named",
        "stop",
    ),
    "requeued": Kind(
        "somebody, or Slurm itself, has put the job back into the queue",
        "Slurm's `REQUEUED`; the job waits in the queue again",
        "leave",
    ),
    "held": Kind(
        "Slurm holds the job: it does not start before it is released",
        "the reason of a pending job: `JobHoldMaxRequeue`, `launch failed requeued held`, `JobHeldUser`",
        "leave",
    ),
    "never-starts": Kind(
        "the job can never start, as it was asked for",
        "`DependencyNeverSatisfied`, `DEADLINE`, or a limit that nothing will change",
        "stop",
    ),
    "preempted": Kind(
        "a job of higher priority took the nodes",
        "Slurm's `PREEMPTED`, or a SIGTERM to the ranks alone, inside GraceTime",
        "next allocation",
    ),
    "time-limit": Kind(
        "the time of the allocation is over",
        "the agent's own timer, or Slurm's `TIMEOUT`",
        "next allocation",
        counts="idle",
    ),
    "told-to-end": Kind(
        "Slurm told the job to end, and has not said why yet",
        "SIGTERM to the agent, with no state of the job's that explains it",
        "leave",
    ),
    "node-died": Kind(
        "a node died under the step",
        "the node's state, Slurm's `NODE_FAIL` or `BOOT_FAIL`, or srun's word",
        "again",
        counts="any",
        blames_node=True,
        waits=True,
    ),
    "node-unfit": Kind(
        "a node is not fit for the step",
        "the check of the nodes before the start, or a GPU that was lost",
        "again",
        counts="any",
        blames_node=True,
        waits=True,
    ),
    "host-out-of-memory": Kind(
        "a node's memory, or the job's share of it, was full",
        "the step's `OUT_OF_MEMORY` or `0:125`, whatever the job says; the kernel's count of memory kills",
        "more memory",
        counts="any",
    ),
    "hung": Kind("no rank made progress for too long", "the silence of the ranks", "again", counts="same"),
    "do-not-requeue": Kind(
        "the program asks not to be started again", "exit code 93, or one of `[retry] stop_on`", "stop"
    ),
    "setup-failed": Kind(
        "what the program needs is not there: it cannot run at all",
        "a missing module or file, a refused permission, a command that is not found, before any step is done",
        "stop",
    ),
    "launch-failed": Kind(
        "Slurm could not start the ranks",
        "srun's word, before any rank ran",
        "again",
        counts="any",
        waits=True,
    ),
    "gpu-out-of-memory": Kind("the GPU's memory was full", "the rank's last words", "again", counts="same"),
    "communication-timeout": Kind(
        "the ranks lost one another",
        "the rank's last words: NCCL, the rendezvous, a lost connection",
        "again",
        counts="same",
        waits=True,
    ),
    "port-in-use": Kind("a port was taken", "the rank's last words", "again", counts="any", waits=True),
    "disk-full": Kind(
        "a disk was full, or a quota used up", "the rank's last words", "again", counts="any", waits=True
    ),
    "storage-failed": Kind(
        "the file system failed under the program", "the rank's last words", "again", counts="any", waits=True
    ),
    "killed": Kind(
        "a signal from outside ended a rank, or the step",
        "SIGKILL or SIGTERM that neither the kernel's memory kills nor Slurm's states explain",
        "again",
        counts="any",
    ),
    "crashed": Kind(
        "a rank failed by itself", "its exit code or signal, and its last words", "again", counts="same"
    ),
    "ended-early": Kind(
        "the program ended with 0 before its work was done",
        "exit code 0, with fewer steps than `[progress] total`",
        "again",
        counts="same",
    ),
    "agent-died": Kind(
        "the agent is gone without a last word",
        "an attempt without an end in the run's events, while Slurm knows of none of the above",
        "again",
        counts="any",
    ),
    "unknown": Kind("nobody knows", "none of the above; what was seen is said", "again", counts="same"),
}
"""Every kind of end, that which goes before others first."""
