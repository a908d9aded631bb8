"""`slurmkit resume`: submit a run again, from where it is."""

from __future__ import annotations

import click

from slurmkit.cli.context import connect, find_run, run_argument, system_clock
from slurmkit.cli.output import Answer, note, output


@click.command()
@run_argument
@click.option("--from", "wanted", metavar="STEP|PATH", help="This checkpoint, not the newest complete one.")
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a key: resources.time=2h."
)
@output
def command(run: str, *, wanted: str | None, overrides: tuple[str, ...]) -> Answer:
    """Submit a run again under its own id and directory, also one that has failed or was cancelled.

    Refused while a job of the run is pending or running, with exit code 3 where Slurm does not tell. A
    checkpoint named by --from must be complete; else the exit code is 1. --set changes the run's job file;
    the one before stays as job.N.toml in the run directory.

    --json gives: id, job_id, cluster, resume_from, directory.
    """
    from slurmkit.run.resume import resume
    from slurmkit.run.survey import open_dossier

    paths = find_run(run)
    slurm = connect(open_dossier(paths).cluster)
    made = resume(paths, slurm=slurm, clock=system_clock(), wanted=wanted, overrides=overrides)
    submitted = made.submitted
    note(f"submitted as job {submitted.id}" + (f"; {submitted.message}" if submitted.message else ""))
    data = {
        "id": paths.run_id,
        "job_id": str(submitted.id),
        "cluster": submitted.cluster,
        "resume_from": None if made.resume_from is None else str(made.resume_from),
        "directory": str(paths.root),
    }
    return Answer(data=data, text=paths.run_id)
