"""Dependencies: what must have happened to other jobs, or runs, before this one may start.

>>> str(parse_dependency("afterok:12:13_4,afterany:ddp-tiny-20261201-a1b2"))
'afterok:12:13_4,afterany:ddp-tiny-20261201-a1b2'
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

KINDS: Final = ("after", "afterany", "afterok", "afternotok", "aftercorr", "afterburstbuffer")
SINGLETON: Final = "singleton"
_JOB: Final = re.compile(r"[1-9][0-9]*(?:_(?:[0-9]+|\*))?", re.ASCII)
_TARGET: Final = re.compile(r"(?P<id>[A-Za-z0-9][A-Za-z0-9._*-]*)(?:\+(?P<minutes>[0-9]+))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Target:
    """A job id, an array task, or a run id that is resolved to a job id at submit."""

    id: str
    minutes: int | None = None

    @property
    def is_run(self) -> bool:
        """Whether this names a run of slurmkit's and not a job of Slurm's."""
        return _JOB.fullmatch(self.id) is None

    def __str__(self) -> str:
        """Slurm's own form."""
        return self.id if self.minutes is None else f"{self.id}+{self.minutes}"


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition: its kind and the jobs that it is about; `singleton` is about none."""

    kind: str
    targets: tuple[Target, ...] = ()

    def __str__(self) -> str:
        """Slurm's own form."""
        return ":".join((self.kind, *map(str, self.targets)))


@dataclass(frozen=True, slots=True)
class Dependency:
    """All conditions of a job: all of them must hold, or with `any_of` one of them."""

    conditions: tuple[Condition, ...]
    any_of: bool = False

    def __str__(self) -> str:
        """Slurm's own form."""
        return ("?" if self.any_of else ",").join(map(str, self.conditions))

    @property
    def runs(self) -> tuple[str, ...]:
        """The run ids that are to be resolved, in order, each once."""
        return tuple(dict.fromkeys(t.id for c in self.conditions for t in c.targets if t.is_run))

    def resolved(self, job_of_run: Callable[[str], str]) -> Dependency:
        """The same on job ids only; `job_of_run` gives the job id of a run."""

        def target(one: Target) -> Target:
            return replace(one, id=job_of_run(one.id)) if one.is_run else one

        conditions = tuple(replace(c, targets=tuple(map(target, c.targets))) for c in self.conditions)
        return replace(self, conditions=conditions)


def parse_dependency(value: str | int) -> Dependency:
    """Read sbatch's text; a bare job id or run id means `afterany`, as it does for sbatch.

    Raises:
        ValueError: names the part that is wrong.
    """
    text = str(value).replace(" ", "")
    if "," in text and "?" in text:
        raise ValueError("`,` (all must hold) and `?` (one must hold) cannot stand in one dependency")
    separator = "?" if "?" in text else ","
    return Dependency(tuple(map(_condition, text.split(separator))), any_of=separator == "?")


def _condition(text: str) -> Condition:
    kind, colon, targets = text.partition(":")
    if kind.lower() == SINGLETON and not colon:
        return Condition(SINGLETON)
    if kind.lower() in KINDS:
        if not targets:
            raise ValueError(f"`{text}` names no job; write `{kind.lower()}:<job id or run id>`")
        return Condition(kind.lower(), tuple(_target(t, kind.lower()) for t in targets.split(":")))
    if not colon and _TARGET.fullmatch(text) and "+" not in text:
        return Condition("afterany", (_target(text, "afterany"),))
    raise ValueError(f"`{text}` is not a dependency; its kind is one of {', '.join(KINDS)}, {SINGLETON}")


def _target(text: str, kind: str) -> Target:
    match = _TARGET.fullmatch(text)
    if match is None:
        raise ValueError(f"`{text}` is neither a job id nor a run id")
    minutes = match["minutes"]
    if minutes is not None and (kind != "after" or int(minutes) == 0):
        raise ValueError(f"`+{minutes}` is minutes after a start: only with `after:`, and more than 0")
    return Target(match["id"], None if minutes is None else int(minutes))
