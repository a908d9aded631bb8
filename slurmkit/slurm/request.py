"""What a submit asks of Slurm, and the receipt: apart from the other records, as a submit loads no others."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from slurmkit.slurm.ids import JobId


class Submission(NamedTuple):
    """One call of sbatch: nothing of the caller's shell decides, only what stands here.

    `tag` is found again in the job's comment and in its submit line; it must be unique.
    """

    script: Path
    tag: str
    directory: Path
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = MappingProxyType({})
    cluster: str | None = None


class Submitted(NamedTuple):
    """Slurm's receipt: the job id, the cluster where it is not the local one, and what sbatch said aside."""

    id: JobId
    cluster: str | None = None
    message: str = ""
