"""`slurmkit submit`: from a job file to a job, once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slurmkit.cli.context import connect, runs_index, system_clock, watch_runs
from slurmkit.cli.failure import say_failure
from slurmkit.cli.output import Answer, note, output
from slurmkit.cli.waiting import wait_for
from slurmkit.errors import UsageError

if TYPE_CHECKING:
    from slurmkit.run.paths import RunPaths
    from slurmkit.run.state import RunState
    from slurmkit.run.submit import Prepared, Receipt
    from slurmkit.spec import Loaded
    from slurmkit.spec.clusters import Cluster


@click.command()
@click.argument("job", metavar="JOB.toml", type=click.Path())
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a key: resources.time=2h."
)
@click.option("--template", default="managed", show_default=True, help="managed, plain, or a file.")
@click.option(
    "--cluster", metavar="NAME", help="Submit elsewhere, through slurmrestd: [clusters.NAME] of the profile."
)
@click.option("--dry-run", is_flag=True, help="Print the script and the sbatch line; touch nothing.")
@click.option("--wait", is_flag=True, help="Wait until the run has ended; pass the job's exit code on.")
@click.option("--follow", is_flag=True, help="Print the log of rank 0 as it grows; implies --wait.")
@output
def command(
    *,
    job: str,
    overrides: tuple[str, ...],
    template: str,
    cluster: str | None,
    dry_run: bool,
    wait: bool,
    follow: bool,
) -> Answer | int:
    """Submit a job file. The run id is printed on stdout, all else on stderr.

    The run directory is made under `runs` here; the job starts in the directory of the job file. With
    --cluster both must be on a file system that the cluster sees, and no variables of this shell reach it.

    --json gives: id, name, job_id, cluster, directory, stripped (variables that the job does not get), notes.
    With --dry-run: id, directory, script, command, stripped, notes; with --wait, what `status` gives.
    """
    from slurmkit.run.submit import Place, prepare, submit
    from slurmkit.spec import load

    as_json = click.get_current_context().params["as_json"]
    if dry_run and (wait or follow):
        raise UsageError("--dry-run submits nothing that --wait or --follow could wait for")
    if follow and as_json:
        raise UsageError("--follow prints the log, --json JSON: both on stdout is neither")
    loaded = load(job, overrides)
    clock = system_clock()
    remote = _remote(loaded, cluster)
    place = Place(directory=Path.cwd(), environ=os.environ, runs=runs_index(), clock=clock, remote=remote)
    for warning in loaded.warnings:
        note(f"warning: {warning}")
    if dry_run:
        return _dry(prepare(loaded, place, template=template), remote)
    try:
        receipt = submit(loaded, place, slurm=connect(_clusters(loaded, remote)), template=template)
    except KeyboardInterrupt:
        note("\ninterrupted; `slurmkit status` tells whether Slurm has taken the job")
        raise
    if not (wait or follow):
        return _answer(receipt)
    (note if as_json else click.echo)(receipt.prepared.paths.run_id)
    _say(receipt)
    state = _until_over(receipt.prepared.paths, follow=follow)
    say_failure(receipt.prepared.paths, state)
    exit_code = 1 if state.exit_code is None else state.exit_code
    if not as_json:
        return exit_code
    from slurmkit.cli.status import row

    return Answer(data=row(receipt.prepared.paths, state, clock.now()), exit_code=exit_code)


def _remote(loaded: Loaded, name: str | None) -> Cluster | None:
    """The cluster elsewhere that is meant, if one is."""
    if name is None and loaded.profile.client == "auto":
        return None
    from slurmkit.run.clients import find

    return find(loaded.profile, name)


def _clusters(loaded: Loaded, remote: Cluster | None) -> str | None:
    """Where the job is offered, and is looked for should the answer be lost."""
    if remote is not None:
        from slurmkit.run.clients import elsewhere

        return elsewhere(remote.name)
    clusters = loaded.spec.resources.get("clusters")
    return None if clusters is None else str(clusters)


def _answer(receipt: Receipt) -> Answer:
    """The run id, and in JSON what belongs to it."""
    _say(receipt)
    prepared = receipt.prepared
    data = {
        "id": prepared.paths.run_id,
        "name": prepared.record.name,
        "job_id": str(receipt.submitted.id),
        "cluster": receipt.submitted.cluster,
        "directory": str(prepared.paths.root),
        "stripped": list(prepared.stripped),
        "notes": [*prepared.rendered.notes, *receipt.notes],
    }
    return Answer(data=data, text=prepared.paths.run_id)


def _say(receipt: Receipt) -> None:
    prepared = receipt.prepared
    for text in (*_notes(prepared), *receipt.notes):
        note(text)
    note(f"submitted as job {receipt.submitted.id}")


def _notes(prepared: Prepared) -> list[str]:
    notes = list(prepared.rendered.notes)
    if prepared.stripped:
        names = ", ".join(prepared.stripped)
        notes.append(f"not passed to the job: {names} (to pass one on: [environment] keep)")
    return notes


def _until_over(paths: RunPaths, *, follow: bool) -> RunState:
    if follow:
        from slurmkit.cli.logs import follow_run

        return follow_run(paths)
    return wait_for(watch_runs([paths]), [paths])[0]


def _dry(prepared: Prepared, remote: Cluster | None) -> Answer:
    """The script on stdout; how it would be submitted on stderr, so that the script can be redirected."""
    import shlex

    from slurmkit.slurm.commands import sbatch_arguments

    argv = sbatch_arguments(prepared.submission)
    for text in _notes(prepared):
        note(text)
    if remote is None:
        note(f"would run in {prepared.submission.directory}:\n  {shlex.join(argv)}")
    else:
        note(f"would be sent to {remote.url}, to start in {prepared.submission.directory}")
    data = {
        "id": prepared.paths.run_id,
        "directory": str(prepared.paths.root),
        "script": prepared.rendered.text,
        "command": list(argv),
        "stripped": list(prepared.stripped),
        "notes": list(prepared.rendered.notes),
    }
    return Answer(data=data, text=prepared.rendered.text.rstrip("\n"))
