"""`slurmkit logs`: what a run printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from slurmkit.cli.context import find_run, run_argument, system_clock, watch_runs
from slurmkit.cli.output import note
from slurmkit.cli.waiting import describe, leaving_jobs_alone
from slurmkit.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from slurmkit.run.logs import Rank
    from slurmkit.run.paths import RunPaths
    from slurmkit.run.state import RunState

ALL = "all"


@click.command()
@run_argument
@click.option("-f", "--follow", is_flag=True, help="Go on as the log grows, until the run has ended.")
@click.option("--rank", default="0", show_default=True, help="A rank, or `all`, each line with its rank.")
@click.option(
    "--attempt", help="An attempt's number, from 1 (-1: the last), or its name.  [default: the last]"
)
def command(run: str, follow: bool, rank: str, attempt: str | None) -> None:
    """Print what a run wrote, or follow it.

    While no rank has written anything, this is the log of the batch script. With --follow, new attempts come
    after those before.
    """
    from slurmkit.run import logs
    from slurmkit.run.survey import open_dossier

    chosen = _rank(rank)
    paths = find_run(run)
    dossier = open_dossier(paths)
    name = logs.choose_attempt(dossier, attempt) if attempt is not None else None
    if follow:
        follow_run(paths, rank=chosen, attempt=name)
        return
    found = logs.files(dossier, rank=chosen, attempt=name)
    if not found:
        note(f"run {paths.run_id} has written nothing so far; `slurmkit show {run}` tells why")
    for line in _lines(((path, data) for path in found for data in logs.chunks(path)), chosen):
        click.echo(line, nl=False)


def follow_run(paths: RunPaths, *, rank: Rank = 0, attempt: str | None = None) -> RunState:
    """Print a log as it grows until the run has ended, then say how it ended; the state at the end."""
    from slurmkit.run import logs
    from slurmkit.run.survey import open_dossier

    watch = watch_runs([paths])
    first = logs.attempts(open_dossier(paths))[-1:] if attempt is None else [attempt]
    states: list[RunState] = []

    def choose() -> list[Path]:
        dossier = open_dossier(paths)
        names = first
        if attempt is None:
            known = logs.attempts(dossier)
            names = known[known.index(first[0]) :] if first else known
        found = [path for name in names for path in logs.rank_logs(dossier, name, rank)]
        return found or logs.batch_logs(dossier)

    def is_over() -> bool:
        states[:] = watch.look()
        return states[0].is_end

    with leaving_jobs_alone([paths]):
        for line in _lines(logs.follow(choose, is_over, system_clock()), rank):
            click.echo(line, nl=False)
    note(f"{paths.run_id}: {describe(states[0])}")
    return states[0]


def _lines(pieces: Iterable[tuple[Path, bytes]], rank: Rank) -> Iterator[bytes]:
    """The pieces as they are; with all ranks, whole lines, each behind its rank."""
    from slurmkit.run.logs import rank_of

    unfinished: dict[Path, bytes] = {}
    for path, data in pieces:
        if rank is not None:
            yield data
            continue
        *lines, unfinished[path] = (unfinished.get(path, b"") + data).split(b"\n")
        label = _label(rank_of(path))
        yield b"".join(label + line + b"\n" for line in lines)
    for path, rest in unfinished.items():
        if rest:
            yield _label(rank_of(path)) + rest + b"\n"


def _label(rank: int | None) -> bytes:
    return b"" if rank is None else b"%d: " % rank


def _rank(text: str) -> Rank:
    if text == ALL:
        return None
    if not text.isascii() or not text.isdigit():
        raise UsageError(f"{text!r} is no rank", hint="a number from 0, or `all`")
    return int(text)
