"""The seam between slurmkit and Slurm: our records in, our records out, nothing of the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from slurmkit.slurm.ids import JobId
    from slurmkit.slurm.records import Job, Node, Partition
    from slurmkit.slurm.request import Submission, Submitted


class Slurm(Protocol):
    """What slurmkit asks of Slurm. Every method raises `slurmkit.errors.SlurmError` and nothing else.

    The one exception: `MissingRequirement`, where this machine has no way to Slurm at all.
    An id that Slurm does not know is absent from a listing: absent is not finished.
    """

    def submit(self, submission: Submission) -> Submitted:
        """Submit a batch job once.

        Raises:
            Refused: Slurm said no; `passing` tells whether it may say yes later.
            AnswerLost: the job may or may not be in the queue.
            Unreachable: the request surely did not arrive.
        """
        ...

    def find(self, tag: str, *, since: datetime) -> Job | None:
        """The job whose comment or submit line carries `tag`, live or in accounting."""
        ...

    def jobs(
        self, ids: Collection[JobId] | None = None, *, user: str | None = None, max_age: float = 0.0
    ) -> list[Job]:
        """Jobs that the controller still holds: pending, running, and ended ones within MinJobAge.

        An answer that this machine got for the same question up to `max_age` seconds ago will do.
        """
        ...

    def accounting(
        self,
        ids: Collection[JobId] | None = None,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        user: str | None = None,
        duplicates: bool = False,
        steps: bool = True,
        max_age: float = 0.0,
    ) -> list[Job]:
        """Job records of slurmdbd with their steps; with `duplicates`, one record per attempt.

        `max_age` as in `jobs`; without `since`, all time where there are ids, else the last day. A record may
        know the end of a job some seconds before its name, partition and submit line.

        Raises:
            Unreachable: slurmdbd does not answer, or accounting is switched off (`reference` differs).
        """
        ...

    def nodes(self, names: Collection[str] | None = None) -> list[Node]:
        """All nodes, or those named."""
        ...

    def partitions(self) -> list[Partition]:
        """All partitions that the user may see."""
        ...

    def cancel(self, ids: Sequence[JobId]) -> None:
        """Cancel jobs; one that has already ended is not an error."""
        ...

    def signal(self, job: JobId, name: str, *, batch: bool = False) -> None:
        """Send a signal to the steps of a job, or with `batch` to its batch shell alone."""
        ...

    def requeue(self, job: JobId, *, hold: bool = False) -> None:
        """Requeue a batch job: same id, new allocation."""
        ...

    def hold(self, job: JobId) -> None:
        """Hold a pending job."""
        ...

    def release(self, job: JobId) -> None:
        """Release a held job."""
        ...

    def update(self, job: JobId, changes: Mapping[str, str]) -> None:
        """Change fields of a job; names as `scontrol update` has them, e.g. `ExcNodeList`."""
        ...

    def end_steps(self, job: JobId) -> tuple[str, ...]:
        """End the steps of a running job that its script has started; their ids."""
        ...

    def exclude(self, job: JobId, nodes: Sequence[str]) -> None:
        """Exclude further nodes from a pending job."""
        ...

    def topology(self) -> Mapping[str, str]:
        """Where each node is in the network, as SLURM_TOPOLOGY_ADDR: `spine.leaf1.n3`; empty where flat."""
        ...

    def config(self) -> Mapping[str, str]:
        """The controller's configuration, as `scontrol show config` names it."""
        ...

    def version(self) -> tuple[int, int, int]:
        """Slurm's version, e.g. (22, 5, 8)."""
        ...
