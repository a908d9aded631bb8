"""The versions of slurmrestd's API that this client speaks, and what each of them can do."""

from __future__ import annotations

from typing import NamedTuple


class Api(NamedTuple):
    """One version of the API: the first Slurm that has it, and what it can do beyond the others."""

    name: str
    since: tuple[int, int]
    is_plain: bool = False
    """Numbers, null and sentinels instead of objects; options as sbatch reads them."""
    signals: bool = False
    """A signal can be sent to the steps, or to the batch script alone; else only to all of the job."""
    requeues: bool = False

    @property
    def number(self) -> int:
        """Its last part: 42 of v0.0.42."""
        return int(self.name.rpartition(".")[2])

    @property
    def jobs(self) -> str:
        """The path under which slurmctld's things are."""
        return f"/slurm/{self.name}"

    @property
    def accounting(self) -> str:
        """The path under which slurmdbd's are."""
        return f"/slurmdb/{self.name}"


APIS = (
    Api("v0.0.45", (26, 5), signals=True, requeues=True),
    Api("v0.0.42", (24, 11), signals=True),
    Api("v0.0.38", (22, 5), is_plain=True),
)
"""Newest first: a server offers several, and the newest that both know is taken."""
