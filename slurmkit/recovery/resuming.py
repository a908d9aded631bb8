"""Which checkpoint the step starts from, and how the program is told."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from slurmkit.errors import JobFailed
from slurmkit.recovery import report
from slurmkit.recovery.lookout import Look
from slurmkit.run import events

if TYPE_CHECKING:
    from slurmkit.checkpoint.choice import Checkpoint, Choice
    from slurmkit.recovery.setting import Setting
    from slurmkit.spec.model import JobSpec

FAR_BACK = 1000
"""Checkpoints that are looked at after somebody went back to an old one."""


class GoneBack(NamedTuple):
    """Somebody resumed from this checkpoint by hand: what was newer at that time does not count."""

    path: Path
    at: float


def folder(setting: Setting) -> Path | None:
    """The folder of the job's checkpoints; relative to where the job started."""
    checkpoint = setting.spec.checkpoint
    return Path(checkpoint.path).absolute() if checkpoint else None


def newest(setting: Setting, world_size: int | None) -> Choice | None:
    """The newest complete checkpoint, and the newer ones that are not; None without [checkpoint].

    Raises:
        JobFailed: somebody resumed the run from a checkpoint that is complete no more.
    """
    root, wanted = folder(setting), setting.spec.checkpoint
    if root is None or wanted is None:
        return None
    from slurmkit.checkpoint.choice import Choice, choose, survey

    kept = setting.paths.verdicts
    back = gone_back(setting)
    if back is None:
        return choose(root, wanted.layout, world_size=world_size, kept=kept)
    all_there = survey(root, wanted.layout, kept=kept, limit=FAR_BACK)
    for one in all_there:
        is_since = one.verdict.saved is not None and one.verdict.saved >= back.at
        if one.verdict.state == "complete" and (is_since or one.path == back.path):
            return Choice(one, ())
    raise JobFailed(f"the run was resumed from {back.path}, and that is no complete checkpoint any more")


def gone_back(setting: Setting) -> GoneBack | None:
    """The checkpoint that the last `slurmkit resume --from` named, if the last resume named one."""
    found = None
    for event in events.read(setting.paths):
        if event.kind == "submitting":
            path = event.text("resume_from")
            found = GoneBack(Path(path), event.time.timestamp()) if path else found
    return found


def note_choice(setting: Setting, number: int, choice: Choice) -> None:
    """Write down what the step starts from, and say it."""
    chosen = choice.chosen
    setting.note(
        "checkpoint-chosen",
        step=number,
        checkpoint=str(chosen.path) if chosen else None,
        at_step=chosen.step if chosen else None,
        layout=chosen.layout if chosen else None,
        saved=chosen.verdict.saved if chosen else None,
        refused=[
            {"checkpoint": str(one.path), "state": one.verdict.state, "reason": one.verdict.reason}
            for one in choice.refused
        ]
        or None,
    )
    for warning in choice.warnings:
        report.say(warning)
    for one in choice.refused:
        report.say(f"{one.path} is not resumed from: {one.verdict.state}, {one.verdict.reason}")
    if chosen:
        report.say(
            f"resumes from {chosen.path}" + (f", step {chosen.step}" if chosen.step is not None else "")
        )
    elif setting.attempt.restart or number:
        report.say("there is no complete checkpoint: the program starts from its beginning AGAIN")


def note_complete(setting: Setting, number: int, found: Checkpoint) -> None:
    """Write down that a new checkpoint is complete."""
    setting.note(
        "checkpoint-complete",
        step=number,
        checkpoint=str(found.path),
        at_step=found.step,
        layout=found.layout,
        saved=found.verdict.saved,
    )


def is_same(one: Checkpoint, other: Checkpoint | None) -> bool:
    """Whether two looks have seen the same save."""
    if other is None:
        return False
    return (one.path, one.step, one.verdict.saved) == (other.path, other.step, other.verdict.saved)


def resuming(spec: JobSpec, chosen: Checkpoint | None) -> JobSpec:
    """The job whose command resumes from a checkpoint: `[checkpoint] resume` stands behind it."""
    if chosen is None or spec.checkpoint is None or not spec.checkpoint.resume:
        return spec
    from slurmkit.checkpoint.choice import resume_arguments

    words = resume_arguments(spec.checkpoint.resume, chosen)
    if isinstance(spec.command, str):
        return replace(spec, command=f"{spec.command.rstrip()} {shlex.join(words)}")
    return replace(spec, command=(*spec.command, *words))


def look(setting: Setting, world_size: int | None) -> Look:
    """The newest complete checkpoint now; where the job file limits their number, old ones are removed."""
    wanted, root = setting.spec.checkpoint, folder(setting)
    try:
        choice = newest(setting, world_size)
    except JobFailed:
        choice = None
    found = choice.chosen if choice else None
    if wanted is None or root is None or wanted.keep is None or found is None:
        return Look(found)
    from slurmkit.checkpoint.keep import prune

    return Look(found, tuple(prune(root, wanted.layout, wanted.keep, kept=setting.paths.verdicts)))
