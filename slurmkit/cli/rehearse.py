"""`slurmkit rehearse`: a short real job that is ended in its midst, and has to go on."""

from __future__ import annotations

import gc
import json
import os
import signal
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slurmkit.cli.context import connect, runs_index, system_clock, watch_runs
from slurmkit.cli.output import Answer, note, output
from slurmkit.cli.waiting import describe
from slurmkit.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from slurmkit.recovery.rehearsal import Verdict
    from slurmkit.recovery.rehearsal_job import Rehearsed
    from slurmkit.recovery.rehearsing import Place as Stage
    from slurmkit.run.paths import RunPaths
    from slurmkit.run.state import RunState
    from slurmkit.run.submit import Receipt

ENDING = (signal.SIGTERM, signal.SIGHUP)


@click.command()
@click.argument("job", metavar="JOB.toml", type=click.Path())
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a key: resources.nodes=1."
)
@click.option("--partition", "-p", help="Partition to rehearse in, such as one for tests.")
@click.option("--time", "limit", default="15m", show_default=True, help="Time limit of the job, at most.")
@click.option(
    "--timeout",
    default="10m",
    show_default=True,
    help="For the first checkpoint, and for the first step after the resume.",
)
@click.option("--keep", is_flag=True, help="Leave the rehearsal's checkpoints where they are.")
@click.option("--in-place", is_flag=True, help="Go on from the run's own checkpoints, and save among them.")
@output
def command(
    *,
    job: str,
    overrides: tuple[str, ...],
    partition: str | None,
    limit: str,
    timeout: str,
    keep: bool,
    in_place: bool,
) -> Answer:
    """Try a job's resume before the long run: a short real job, ended in its midst, has to go on.

    It runs until its first complete checkpoint, is asked for another one, is ended as by a fault and started
    again; then its steps must go on from the checkpoint, and the loss with them. It is a run of its own, and
    its checkpoints are kept apart from those of the job. Waiting in the queue is not counted. Ctrl-C cancels
    it.

    Exit code 0 where it passed, 1 where it failed, with the reason.

    --json gives: id, job_id, passed, reason, checks (name, outcome, text), checkpoints (their folder; null
    where it has been removed), directory.
    """
    from slurmkit.recovery.rehearsal_job import rehearsed
    from slurmkit.spec import load

    seconds, patience = _seconds("--time", limit), _seconds("--timeout", timeout)
    chosen = (f"resources.partition={json.dumps(partition)}",) if partition else ()
    wanted = rehearsed(load(job, (*overrides, *chosen)), seconds=seconds, in_place=in_place)
    for text in (*wanted.loaded.warnings, *wanted.notes):
        note(text)
    with ended_as_by_control_c():
        receipt = _submit(wanted)
        verdict = _rehearse(receipt, wanted, patience, keep=keep)
    return _answer(receipt, wanted, verdict, is_kept=keep or not wanted.is_own)


def _seconds(option: str, text: str) -> int:
    from slurmkit.spec.units import parse_duration

    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error
    if not seconds:
        raise UsageError(f"{option} must be more than nothing")
    return seconds


@contextmanager
def ended_as_by_control_c() -> Iterator[None]:
    """Let whatever ends this command leave it time to clean up: `timeout`, a terminal that is closed."""
    gc.enable()  # `slurmkit.cli.start` turned it off for commands that are soon over
    # What is ignored from the start, as under nohup, stays so.
    taken = [number for number in ENDING if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, signal.default_int_handler) for number in taken}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _submit(wanted: Rehearsed) -> Receipt:
    from slurmkit.recovery.rehearsing import making_folder
    from slurmkit.run.submit import Place, submit

    place = Place(directory=Path.cwd(), environ=os.environ, runs=runs_index(), clock=system_clock())
    clusters = wanted.loaded.spec.resources.get("clusters")
    slurm = connect(None if clusters is None else str(clusters))
    try:
        with making_folder(wanted):
            receipt = submit(wanted.loaded, place, slurm=slurm)
    except KeyboardInterrupt:
        note("\ninterrupted; `slurmkit status` tells whether Slurm has taken the job")
        raise
    note(f"{receipt.prepared.paths.run_id}: submitted as job {receipt.submitted.id}")
    return receipt


def _rehearse(receipt: Receipt, wanted: Rehearsed, patience: int, *, keep: bool) -> Verdict:
    """The rehearsal itself; whatever becomes of it, its job is cancelled."""
    from slurmkit.recovery import rehearsing

    paths = receipt.prepared.paths
    stage: Stage = rehearsing.Place(
        paths, connect(receipt.submitted.cluster), system_clock(), os.environ, note
    )
    limits = rehearsing.limits_of(wanted.loaded.spec, timeout=patience, job=wanted.seconds)
    try:
        return rehearsing.rehearse(stage, wanted, limits, looking(paths))
    except KeyboardInterrupt:
        note("\ninterrupted; the job is cancelled")
        raise
    finally:
        rehearsing.clean_up(stage, wanted, keep=keep)


def looking(paths: RunPaths) -> Callable[[], RunState]:
    """Tells the state of a run; each new one is said once."""
    watch = watch_runs([paths])
    said: list[str] = []

    def look() -> RunState:
        state = watch.look()[0]
        text = describe(state)
        if said[-1:] != [text]:
            said.append(text)
            note(f"{state.id}: {text}")
        return state

    return look


def _answer(receipt: Receipt, wanted: Rehearsed, verdict: Verdict, *, is_kept: bool) -> Answer:
    paths = receipt.prepared.paths
    data = {
        "id": paths.run_id,
        "job_id": str(receipt.submitted.id),
        "passed": verdict.passed,
        "reason": verdict.reason,
        "checks": [one._asdict() for one in verdict.checks],
        "checkpoints": str(wanted.folder) if is_kept else None,
        "directory": str(paths.root),
    }
    lines = [
        f"{one.name:<10}  {one.outcome:<11}  {one.text}" for one in verdict.checks if one.outcome != "failed"
    ]
    lines.append(f"passed: {verdict.reason}" if verdict.passed else f"failed: {verdict.reason}")
    if not verdict.passed:
        note(f"what it did, and its logs: slurmkit show {paths.run_id}")
    return Answer(data=data, text="\n".join(lines), exit_code=0 if verdict.passed else 1)
