"""`slurmkit watch`: a run as it goes, live on a terminal, line by line in a pipe."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from slurmkit.cli.context import find_run, run_argument, system_clock, watch_runs
from slurmkit.cli.failure import say_failure
from slurmkit.cli.output import as_plain, cell, note, output
from slurmkit.cli.waiting import describe, leaving_jobs_alone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from slurmkit.cli.frame import View
    from slurmkit.run.paths import RunPaths
    from slurmkit.run.state import RunState

    Look = Callable[[], View]

LOG_LINES = 200
"""As many as the highest terminal has room for."""

LOG_LINES_IN_A_PIPE = 10
WIDTH_IN_A_PIPE = 100


@click.command()
@run_argument
@click.option(
    "--interval",
    type=click.FloatRange(min=0.2),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Seconds between two looks.",
)
@click.option("--once", is_flag=True, help="Print one picture and leave.")
@output
def command(run: str, interval: float, once: bool) -> int:
    """Watch a run: how far it is, how fast, which ranks hold it up, what it prints.

    On a terminal the picture is live; q or Ctrl-C leaves it, and never ends the job. In a pipe each change is
    one line. Either ends with the run: exit code 0 if it completed, else 1, with the failure on stderr;
    Ctrl-C is 130, and q and --once are 0. However often it looks, Slurm is asked no more than by `wait`.

    --json prints one object a line, at each change: time (ISO 8601), what `status` gives, attempt, notices
    (sentences on unfit nodes, a hang, stragglers), first_failure (as `show` has it), progress (as `show` has
    it).
    """
    paths = find_run(run)
    look = looks(paths)
    if click.get_current_context().params["as_json"]:
        return _in_lines(paths, look, interval, _json_of(paths), once=once)
    is_screen = sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in {"dumb", "unknown"}
    if once:
        print_frame(look(), is_screen=is_screen)
        return 0
    if not is_screen:
        return _in_lines(paths, look, interval, _Lines(), once=False)
    from slurmkit.cli.screen import live

    with leaving_jobs_alone([paths]):
        last = live(look, interval)
    if not last.state.is_end:
        note(f"{paths.run_id}: {describe(last.state)}; look again: slurmkit watch {paths.run_id}")
        return 0
    if not last.state.is_success:
        from slurmkit.run.findings import Findings

        last = last._replace(findings=Findings(), log=())  # say_failure has it all
    print_frame(last, is_screen=True)
    return _ended(paths, last.state)


def looks(paths: RunPaths) -> Look:
    """A function that looks at a run: its files every time, Slurm when that is due."""
    from slurmkit.cli.frame import View
    from slurmkit.run.events import read
    from slurmkit.run.findings import findings
    from slurmkit.run.progress import read_current

    watch = watch_runs([paths])

    def look() -> View:
        state = watch.look()[0]
        now = system_clock().now()
        found = findings(read(paths), state.attempt)
        title, lines = log_tail(paths, state, (found.first_failure or {}).get("rank"))
        progress = read_current(paths, state, now)
        return View(state, now, progress, found, log=lines, log_title=title, silent=watch.silent)

    return look


def log_tail(paths: RunPaths, state: RunState, failed: object) -> tuple[str, list[str]]:
    """What the rank that failed, or rank 0, printed last, and its name; else what the batch script said."""
    from slurmkit.run.tail import tail

    rank = failed if isinstance(failed, int) else 0
    if state.attempt and (lines := tail(paths.rank_log(state.attempt, rank), LOG_LINES)):
        return f"rank {rank}", lines
    from slurmkit.run.logs import batch_logs
    from slurmkit.run.survey import open_dossier

    logs = batch_logs(open_dossier(paths))
    return ("the batch script", tail(logs[-1], LOG_LINES)) if logs else ("", [])


def print_frame(view: View, *, is_screen: bool) -> None:
    """One picture on stdout; in a pipe as plain text, and nothing is cut off but the log."""
    from slurmkit.cli.frame import frame
    from slurmkit.cli.glyphs import glyphs_for

    view = view._replace(log=view.log[-LOG_LINES_IN_A_PIPE:])
    glyphs = glyphs_for(sys.stdout.encoding)
    if is_screen:
        from slurmkit.cli.screen import print_lines

        print_lines(lambda width: frame(view, width, glyphs=glyphs))
        return
    for line in frame(view, WIDTH_IN_A_PIPE, glyphs=glyphs):
        click.echo("".join(span.text for span in line).rstrip())


def _ended(paths: RunPaths, state: RunState) -> int:
    say_failure(paths, state)
    return 0 if state.is_success else 1


def _in_lines(
    paths: RunPaths, look: Look, interval: float, tell: Callable[[View], Iterator[str]], *, once: bool
) -> int:
    """Print what `tell` has to say of each look that differs from the one before, until the run has ended."""
    before: object = None
    with leaving_jobs_alone([paths]):
        while True:
            view = look()
            if before != (before := _essence(view)):
                for line in tell(view):
                    click.echo(line)
                sys.stdout.flush()
            if once:
                return 0
            if view.state.is_end:
                return _ended(paths, view.state)
            system_clock().sleep(interval)


def _essence(view: View) -> object:
    """What makes a look differ from another: neither the clock nor the log does."""
    progress = view.progress
    told = progress and (progress.step, progress.hung, progress.last_checkpoint, progress.attempt)
    return view.state.state, view.state.reason, view.state.attempt, view.findings, told, view.silent


class _Lines:
    """Tells changes as lines of time and text; each notice once for as long as it stands."""

    def __init__(self) -> None:
        self._last = ""
        self._notices: set[str] = set()

    def __call__(self, view: View) -> Iterator[str]:
        from slurmkit.run.sentences import how_far

        far = how_far(view.progress) if view.progress else None
        text = describe(view.state) + (f", {far}" if far else "")
        text += f"; {view.silent} does not answer" if view.silent else ""
        time = cell(view.now)
        if text != self._last:
            self._last = text
            yield f"{time}  {cell(text)}"
        notices = list(view.findings.sentences())
        yield from (f"{time}  {cell(notice)}" for notice in notices if notice not in self._notices)
        self._notices = set(notices)


def _json_of(paths: RunPaths) -> Callable[[View], Iterator[str]]:
    from slurmkit.cli.status import row
    from slurmkit.run.progress import as_fields

    def tell(view: View) -> Iterator[str]:
        data: dict[str, Any] = {
            "time": view.now,
            **row(paths, view.state, view.now),
            "attempt": view.state.attempt,
            "notices": list(view.findings.sentences()),
            "first_failure": view.findings.first_failure,
            "progress": as_fields(view.progress) if view.progress else None,
        }
        yield json.dumps(data, default=as_plain)

    return tell
