"""`slurmkit checkpoints`: which checkpoints there are, which are complete, which would be resumed from."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from slurmkit.cli.context import complete_run, find_run, runs_index, system_clock
from slurmkit.cli.output import Answer, note, output
from slurmkit.errors import UsageError

if TYPE_CHECKING:
    from slurmkit.checkpoint.choice import Checkpoint
    from slurmkit.run.paths import RunPaths

COLUMNS = ("", "step", "age", "size", "layout", "verdict", "reason")
LAYOUT_COLUMNS = ("layout", "reshards", "resume", "summary")
SHOWN = 20
"""Checkpoints that are shown, and verified, without --all."""
CHOSEN = "*"


class Place(NamedTuple):
    """Where to look, for what, and where verdicts are kept."""

    folder: Path
    layout: str
    kept: Path | None = None


@click.command()
@click.argument("path", metavar="[PATH|RUN]", required=False, shell_complete=complete_run)
@click.option("--layout", metavar="NAME", help="Only this layout.  [default: the run's, or auto]")
@click.option("--deep", is_flag=True, help="Read every byte and compare checksums.")
@click.option("--all", "every", is_flag=True, help=f"All of them, not the newest {SHOWN}.")
@click.option("--limit", type=click.IntRange(min=1), help=f"So many of the newest.  [default: {SHOWN}]")
@click.option("--layouts", "lists_layouts", is_flag=True, help="List the layouts that are known.")
@output
def command(
    path: str | None,
    *,
    layout: str | None,
    deep: bool,
    every: bool,
    limit: int | None,
    lists_layouts: bool,
) -> Answer:
    """List the checkpoints of a folder or a run, newest first, and say which are complete.

    Nothing is loaded, and no code in a checkpoint runs. The one marked * is the one to resume from. PATH may
    be a single checkpoint; what is there under that name comes before a run of that name.

    Exit code 1 where there are some and none is complete.

    --json gives for each: path, name, step, saved (ISO 8601 with offset), age (seconds since it was
    saved, or else last changed), size (bytes, of a complete one), layout, verdict (complete, incomplete,
    damaged, unverified or foreign), reason, world_size, chosen. With --layouts: name, summary, resume,
    reshards, trackers.
    """
    if lists_layouts:
        return _layouts()
    if path is None:
        raise UsageError("a folder or a run is needed", hint="slurmkit checkpoints last")
    if every and limit:
        raise UsageError("--all and --limit contradict each other")
    place = _find(path)
    if layout:
        place = place._replace(layout=layout)
    return _listing(place, deep=deep, limit=None if every else limit or SHOWN)


def _listing(place: Place, *, deep: bool, limit: int | None) -> Answer:
    from slurmkit.checkpoint.choice import choose, is_complete, survey, warnings_of

    found = survey(
        place.folder, place.layout, kept=place.kept, deep=deep, limit=None if limit is None else limit + 1
    )
    shown = found[:limit]
    chosen = next(filter(is_complete, shown), None)
    if chosen is None and len(found) > len(shown):
        chosen = choose(place.folder, place.layout, kept=place.kept, deep=deep).chosen
    now = system_clock().now()
    data = [row(one, now, is_chosen=one == chosen) for one in shown]
    for warning in warnings_of(shown):
        note(f"warning: {warning}")
    if len(found) > len(shown):
        note(f"these are the newest {len(shown)}; --all shows all")
    text = ""
    if chosen is not None:
        step = "" if chosen.step is None else f", step {chosen.step}"
        text = f"\n{CHOSEN} to resume from: {chosen.path}{step}"
    elif found:
        text = "\nnone of them is complete: there is nothing to resume from"
    return Answer(
        data=data,
        columns=COLUMNS,
        rows=[_shown(one) for one in data],
        text=text,
        empty=f"there is no checkpoint in {place.folder} yet",
        exit_code=1 if found and chosen is None else 0,
    )


def row(one: Checkpoint, now: datetime, *, is_chosen: bool) -> dict[str, Any]:
    """A checkpoint as JSON has it."""
    saved = one.verdict.saved
    at = _changed(one.path) if saved is None else saved
    return {
        "path": str(one.path),
        "name": one.path.name,
        "step": one.step,
        "saved": None if saved is None else datetime.fromtimestamp(saved, UTC),
        "age": None if at is None else now - datetime.fromtimestamp(at, UTC),
        "size": one.size,
        "layout": one.layout,
        "verdict": one.verdict.state,
        "reason": one.verdict.reason,
        "world_size": one.verdict.world_size,
        "chosen": is_chosen,
    }


def _changed(path: Path) -> float | None:
    try:
        return path.lstat().st_mtime
    except OSError:
        return None


def _shown(fields: dict[str, Any]) -> dict[str, object]:
    """The same as the table has it; where nothing tells the step, the name stands before the reason."""
    from slurmkit.launch.fitness_found import amount
    from slurmkit.run.sentences import duration

    age: timedelta | None = fields["age"]
    name, reason = fields["name"], fields["reason"]
    is_told = fields["step"] is not None or reason.startswith(name)
    return fields | {
        "": CHOSEN if fields["chosen"] else "",
        "age": None if age is None else duration(age.total_seconds()),
        "size": None if fields["size"] is None else amount(fields["size"]),
        "reason": reason if is_told else f"{name}: {reason}",
    }


def _find(name: str) -> Place:
    """What PATH|RUN stands for.

    Raises:
        UsageError: nothing of that name, or a run that keeps no checkpoints.
    """
    from slurmkit.errors import RunNotFound
    from slurmkit.run.paths import RunPaths

    path = Path(name).absolute()
    is_there = path.exists() or path.is_symlink()
    if is_there and not RunPaths(path).run_json.is_file():
        return Place(path, "auto")
    try:
        return _of_run(find_run(name))
    except RunNotFound as error:
        if "/" in name:
            raise UsageError("there is no such file or folder", where=str(path)) from None
        raise RunNotFound(
            f"neither a file, a folder nor a run is called {name!r}", where=str(runs_index()), hint=error.hint
        ) from None


def _of_run(paths: RunPaths) -> Place:
    from slurmkit.run.record import load, start_directory
    from slurmkit.spec.loading import load_resolved

    wanted = load_resolved(paths.job_toml).checkpoint
    if wanted is None:
        raise UsageError(
            f"run {paths.run_id} has no [checkpoint] in its job file",
            where=str(paths.job_toml),
            hint="name the folder instead: slurmkit checkpoints PATH",
        )
    record = load(paths)
    directory = start_directory(paths, record) if record else paths.root
    return Place(directory / wanted.path, wanted.layout, paths.verdicts)


def _layouts() -> Answer:
    from slurmkit.checkpoint.layouts import LAYOUTS

    data = [
        {
            "name": one.name,
            "summary": one.summary,
            "resume": list(one.resume),
            "reshards": one.reshards,
            "trackers": list(one.trackers),
        }
        for one in LAYOUTS
    ]
    rows = [
        {
            "layout": one.name,
            "reshards": "yes" if one.reshards else "no",
            "resume": " ".join(one.resume) or None,
            "summary": one.summary,
        }
        for one in LAYOUTS
    ]
    return Answer(data=data, columns=LAYOUT_COLUMNS, rows=rows)
