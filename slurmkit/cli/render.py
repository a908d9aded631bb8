"""`slurmkit render`: the script that a job file makes. Asks nothing of Slurm."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slurmkit.cli.files import write_file
from slurmkit.cli.output import Answer, note, output

if TYPE_CHECKING:
    from slurmkit.spec import Loaded


@click.command()
@click.argument("job", metavar="JOB.toml", type=click.Path())
@click.option(
    "-o", "--output", "target", metavar="FILE", help="Write the script there instead of printing it."
)
@click.option("--template", default="managed", show_default=True, help="managed, plain, or a file.")
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a key: resources.time=2h."
)
@click.option("--explain", is_flag=True, help="Print every value and where it came from instead.")
@output
def command(
    *, job: str, target: str | None, template: str, overrides: tuple[str, ...], explain: bool
) -> Answer:
    """Print the sbatch script that a job file makes.

    The same job file makes the same bytes: where a submit would make a run id, `NAME-preview` stands. What
    cannot stand in the script, such as sbatch's own command line, is said on stderr.
    """
    from slurmkit.spec import load

    loaded = load(job, overrides)
    for warning in loaded.warnings:
        note(f"warning: {warning}")
    return _explained(loaded) if explain else _rendered(loaded, target, template)


def _explained(loaded: Loaded) -> Answer:
    from slurmkit.spec import explain

    rows = [{"key": key, "value": value, "origin": origin} for key, value, origin in explain(loaded)]
    return Answer(data=rows, columns=("key", "value", "origin"))


def _rendered(loaded: Loaded, target: str | None, template: str) -> Answer:
    from slurmkit.run.identity import slug
    from slurmkit.run.paths import RunPaths
    from slurmkit.script import render

    run_id = f"{slug(loaded.spec.name)}-preview"
    paths = RunPaths(Path(os.path.abspath(Path(loaded.spec.run.directory) / run_id)))  # noqa: PTH100
    made = render(
        loaded.spec,
        run_directory=paths.root,
        run_id=run_id,
        template=template,
        directory=loaded.directory,
    )
    for text in made.notes:
        note(text)
    argv = ["sbatch", *made.arguments, target or str(paths.job_sbatch)]
    lines = [shlex.join(argv)]
    if "output" not in loaded.spec.resources:
        # Without its folder a job ends in the second it starts, and there is no log to say why.
        lines.insert(0, shlex.join(["mkdir", "-p", str(paths.all_logs)]))
    note(
        "\n  ".join([f"`slurmkit submit` does this in {loaded.directory}, with a run id of its own:", *lines])
    )
    data = {
        "id": run_id,
        "directory": str(paths.root),
        "script": made.text,
        "command": argv,
        "notes": list(made.notes),
        "warnings": list(loaded.warnings),
    }
    if target is not None:
        write_file(target, made.text)
    return Answer(data=data, text="" if target is not None else made.text.rstrip("\n"))
