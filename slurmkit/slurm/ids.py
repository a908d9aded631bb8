"""Names of jobs, array tasks, het components and steps, as Slurm writes them.

>>> str(JobId.parse("12_[1-4,7%2]").tasks)
'1-4,7%2'
>>> StepId.parse("159+1.0").job
JobId(job=159, task=None, het=1, tasks=None)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LARGEST_TASK = 4_000_000
"""The highest array index that any Slurm accepts (`MaxArraySize` is at most 4000001)."""

_PIECE = r"(\d+)(?:-(\d+)(?::(\d+))?)?"
_JOB = re.compile(r"(\d+)(?:_(\d+)|_\[([^\]]+)\]|\+(\d+))?", re.ASCII)
_STEP = r"\d+(?:\+\d+)?|[A-Za-z][A-Za-z_]*"


@dataclass(frozen=True, slots=True)
class TaskSet:
    """Tasks of a job array: distinct indices in rising order, and how many may run at once (`%2`)."""

    indices: tuple[int, ...]
    throttle: int | None = None

    def __post_init__(self) -> None:
        """Put the indices into the one order that makes equal sets equal."""
        object.__setattr__(self, "indices", tuple(sorted(set(self.indices))))

    @classmethod
    def parse(cls, text: str) -> TaskSet:
        """Read `0-9`, `1-99:2`, `1-4,7%2`.

        Raises:
            ValueError: names the part that is no array index.
        """
        body, percent, limit = text.partition("%")
        if percent and not (limit.isascii() and limit.isdigit()):
            raise ValueError(f"not an array throttle: {'%' + limit!r} in {text!r}")
        indices: list[int] = []
        for piece in body.split(","):
            indices += _span(piece, text)
        return cls(tuple(indices), int(limit) if percent else None)

    def __str__(self) -> str:
        """Slurm's own form, ranges folded."""
        folded = ",".join(_fold(self.indices))
        return folded if self.throttle is None else f"{folded}%{self.throttle}"

    def __len__(self) -> int:
        return len(self.indices)

    def __iter__(self) -> Iterator[int]:
        return iter(self.indices)


@dataclass(frozen=True, slots=True)
class JobId:
    """A job (`12`), one task of an array (`12_3`), several (`12_[1-4]`), or a het component (`12+1`)."""

    job: int
    task: int | None = None
    het: int | None = None
    tasks: TaskSet | None = None

    @classmethod
    def parse(cls, text: str) -> JobId:
        """Read an id as any Slurm command prints it.

        Raises:
            ValueError: names the text.
        """
        found = _JOB.fullmatch(text.strip())
        if found is None:
            raise ValueError(f"not a job id: {text!r}")
        job, task, tasks, het = found.groups()
        return cls(
            int(job),
            task=None if task is None else int(task),
            het=None if het is None else int(het),
            tasks=None if tasks is None else TaskSet.parse(tasks),
        )

    @property
    def base(self) -> JobId:
        """The id that the whole array or het job goes by."""
        return JobId(self.job)

    def covers(self, other: JobId) -> bool:
        """Whether `other` is this job or a part of it: `12` covers `12_3` and `12+1`."""
        if self.job != other.job:
            return False
        if self.tasks is not None:
            inner = other.tasks.indices if other.tasks else () if other.task is None else (other.task,)
            return bool(inner) and set(inner) <= set(self.tasks.indices)
        return self in (other, other.base)

    def __str__(self) -> str:
        """Slurm's own form."""
        if self.tasks is not None:
            return f"{self.job}_[{self.tasks}]"
        if self.task is not None:
            return f"{self.job}_{self.task}"
        return f"{self.job}" if self.het is None else f"{self.job}+{self.het}"


@dataclass(frozen=True, slots=True)
class StepId:
    """A step of a job: `12.0`, `12_4.batch`, `159+1.0`; `step` keeps Slurm's own word."""

    job: JobId
    step: str

    @classmethod
    def parse(cls, text: str) -> StepId:
        """Read a step id as any Slurm command prints it.

        Raises:
            ValueError: names the text.
        """
        job, dot, step = text.strip().partition(".")
        if not dot or re.fullmatch(_STEP, step, re.ASCII) is None:
            raise ValueError(f"not a step id: {text!r}")
        return cls(JobId.parse(job), step)

    def __str__(self) -> str:
        """Slurm's own form."""
        return f"{self.job}.{self.step}"


def _span(piece: str, text: str) -> Iterable[int]:
    found = re.fullmatch(_PIECE, piece, re.ASCII)
    if found is None:
        raise ValueError(f"not an array index or range: {piece!r} in {text!r}")
    first, last, step = (int(part) if part else None for part in found.groups())
    if first is None or last is None:
        last = first = first or 0
    if last < first or step == 0:
        raise ValueError(f"an empty range of array indices: {piece!r} in {text!r}")
    if last > LARGEST_TASK:
        raise ValueError(f"array index {last} is over {LARGEST_TASK}, the largest that Slurm knows")
    return range(first, last + 1, step or 1)


def _fold(indices: tuple[int, ...]) -> Iterator[str]:
    """Ranges of neighbours; where three or more stand at equal distance, a range with a step."""
    at = 0
    while at < len(indices):
        first = indices[at]
        step = indices[at + 1] - first if at + 1 < len(indices) else 0
        end = at
        while step and end + 1 < len(indices) and indices[end + 1] - indices[end] == step:
            end += 1
        if end - at < 2 and step != 1:
            end = at
        last = indices[end]
        yield f"{first}" if end == at else f"{first}-{last}" + (f":{step}" if step > 1 else "")
        at = end + 1
