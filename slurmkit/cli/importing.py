"""`slurmkit import`: a job file of an sbatch script."""

from __future__ import annotations

from pathlib import Path

import click

from slurmkit.cli.files import read_text, write_file
from slurmkit.cli.output import Answer, note, output


@click.command("import")
@click.argument("script", metavar="SCRIPT", type=click.Path())
@click.option(
    "-o", "--output", "target", metavar="FILE", help="Write the job file there instead of printing it."
)
@output
def command(script: str, target: str | None) -> Answer:
    """Turn an sbatch script into a job file.

    What could not be carried over is said on stderr, and in comments at the head of the job file. The script
    itself is not touched. Relative paths count from where the job file is: put it beside the script.
    """
    from slurmkit.script.importing import import_script, to_toml

    name = Path(script).name
    made = import_script(read_text(script), file_name=name)
    for one in (*made.problems, *made.notes):
        note(f"{script}: {one}")
    text = to_toml(made, file_name=name)
    if target is not None:
        write_file(target, text)
    data = {
        "job_file": text,
        "problems": [{"line": one.line, "text": one.text} for one in made.problems],
        "notes": [{"line": one.line, "text": one.text} for one in made.notes],
    }
    return Answer(data=data, text="" if target is not None else text.rstrip("\n"))
