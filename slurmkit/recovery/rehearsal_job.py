"""The job that is rehearsed: the user's own, but short, and with its checkpoints in a place of their own."""

from __future__ import annotations

import re
import secrets
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from slurmkit.errors import UsageError
from slurmkit.recovery.policy import retry_of
from slurmkit.spec.units import format_time, parse_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slurmkit.spec import Loaded
    from slurmkit.spec.model import Checkpoint, JobSpec

SUFFIX = "-rehearsal"
TELLS = "SLURMKIT_CHECKPOINTS"
"""The variable by which every rank is told the folder of the checkpoints."""
LARGEST = 1 << 20
"""Bytes of a program that are searched for it."""

OF_THE_RUN = frozenset({"begin", "deadline", "dependency", "error", "hold", "output", "time_min"})
"""Options of sbatch that are about when the run starts and where it writes: not about the rehearsal."""


class Rehearsed(NamedTuple):
    """The job to be submitted, where its checkpoints go, and what there is to say about it."""

    loaded: Loaded
    folder: Path
    is_own: bool
    """Whether the folder is the rehearsal's own, and not that of the run."""
    real: Path
    """The run's folder of checkpoints."""
    seconds: int
    """The time limit."""
    notes: tuple[str, ...] = ()


def rehearsed(loaded: Loaded, *, seconds: int, in_place: bool = False) -> Rehearsed:
    """The job that a rehearsal of this one submits; `seconds` is the longest that it may take.

    Raises:
        UsageError: it saves no checkpoints, or they cannot be kept apart from those of the run.
    """
    spec = loaded.spec
    section = spec.checkpoint
    if section is None:
        raise UsageError(
            "the job file has no [checkpoint]: there is nothing to resume from, and nothing to rehearse",
            where=str(loaded.path),
            hint='[checkpoint] path = "checkpoints", resume = ["--resume", "{checkpoint}"]',
        )
    if spec.resources.get("array") is not None:
        raise UsageError(
            "a job array is not rehearsed: one of its tasks is",
            where=str(loaded.path),
            hint="--set resources.array=false, where the program can do without SLURM_ARRAY_TASK_ID",
        )
    real = loaded.directory / section.path
    moved, how = (None, None) if in_place else _moved(spec, section, loaded.directory)
    if moved is None and not in_place and is_filled(real):
        raise UsageError(
            f"the rehearsal would save among the run's own checkpoints: nothing shows that the program takes "
            f"its folder from {TELLS} or from its command line",
            where=str(real),
            hint=f"let the program save where {TELLS} says; or --in-place, which goes on from what is there",
        )
    limit = _limit(spec, seconds)
    short = _short(moved or spec, limit)
    path = short.checkpoint.path if short.checkpoint else section.path
    notes = [how] if how else []
    if moved is None:
        notes.append(f"it saves into the run's own folder, {section.path}: what it saves there stays")
    return Rehearsed(
        loaded=replace(loaded, spec=short),
        folder=loaded.directory / path,
        is_own=moved is not None,
        real=real,
        seconds=limit,
        notes=tuple(notes),
    )


def is_filled(folder: Path) -> bool:
    """Whether there is anything in a folder; what cannot be looked into counts as filled.

    No folder is an empty one.
    """
    try:
        return any(folder.iterdir())
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _short(spec: JobSpec, seconds: int) -> JobSpec:
    """The job under another name, with a short limit, and never in the queue again by itself."""
    kept = {name: value for name, value in spec.resources.items() if name not in OF_THE_RUN}
    retry = retry_of(spec)
    section = spec.checkpoint
    return replace(
        spec,
        name=spec.name + SUFFIX,
        resources={**kept, "time": format_time(seconds)},
        # One that nobody attends to any more ends with its time limit.
        retry=replace(
            retry,
            without_progress=max(retry.without_progress, 2),
            restarts=max(retry.restarts, 1),
            requeues=0,
        ),
        # Nothing of the run's is pruned.
        checkpoint=replace(section, keep=None) if section else None,
    )


def _limit(spec: JobSpec, seconds: int) -> int:
    own = parse_time(spec.resources["time"]) if "time" in spec.resources else None
    return seconds if own is None else min(own, seconds)


def _moved(spec: JobSpec, section: Checkpoint, directory: Path) -> tuple[JobSpec | None, str | None]:
    """The job with another folder of checkpoints, and how the program learns of it; None where it may not."""
    old = section.path.rstrip("/") or section.path
    added = f"{SUFFIX}-{secrets.token_hex(3)}"
    new = old + added
    # The job file may say it relative to itself, and the command from the root; or the other way round.
    whole = directory / old
    forms = [str(whole), *([str(whole.relative_to(directory))] if whole.is_relative_to(directory) else [])]
    patterns = [_whole(one) for one in dict.fromkeys([*forms, old])]

    def other(text: str) -> str:
        for pattern in patterns:
            text = pattern.sub(lambda found: found[0] + added, text)
        return text

    command = spec.command
    moved = replace(
        spec,
        command=other(command) if isinstance(command, str) else tuple(map(other, command)),
        environment=replace(
            spec.environment,
            variables={name: other(value) for name, value in spec.environment.variables.items()},
            setup=tuple(map(other, spec.environment.setup)),
        ),
        container=spec.container and replace(spec.container, mounts=tuple(map(other, spec.container.mounts))),
        checkpoint=replace(section, path=new, resume=tuple(map(other, section.resume))),
    )
    told = (moved.command, moved.environment, moved.container)
    if told != (spec.command, spec.environment, spec.container):
        return moved, f"its checkpoints go to {new}, which the job names in the place of {old}"
    if any(TELLS in text for text in _texts(spec, directory)):
        return moved, f"its checkpoints go to {new}, as {TELLS} tells the program"
    return None, None


def _whole(path: str) -> re.Pattern[str]:
    """Finds a path where it is not a part of another one."""
    before = r"(?<![\w./~$}-])|(?<=(?<!\.)\./)"
    return re.compile(rf"(?:{before}){re.escape(path)}(?![\w.-])")


def _texts(spec: JobSpec, directory: Path) -> Iterator[str]:
    """All in which the program may name the variable: its command line, and the files that this names."""
    line = spec.command if isinstance(spec.command, str) else shlex.join(spec.command)
    yield from (line, *spec.environment.setup, *spec.environment.variables.values())
    words = _split(spec.command) if isinstance(spec.command, str) else spec.command
    # Of `bash -c '...'`, too, the program is one word of a word.
    for word in dict.fromkeys(piece for one in words for piece in (one, *_split(one))):
        path = directory / word
        try:
            if path.is_file():
                with path.open("rb") as file:
                    yield file.read(LARGEST).decode("utf-8", "replace")
        except (OSError, ValueError):
            continue


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()
