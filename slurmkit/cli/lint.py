"""`slurmkit lint`: what is wrong or unwise in job files and scripts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slurmkit.cli.files import read_text
from slurmkit.cli.output import Answer, note, output
from slurmkit.errors import UsageError

if TYPE_CHECKING:
    from slurmkit.script.lint import Finding


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@click.option("--strict", is_flag=True, help="Warnings count as errors.")
@click.option("--slurm", "version", metavar="VERSION", help="Slurm that it is for: 24.11. Else not checked.")
@output
def command(files: tuple[str, ...], strict: bool, version: str | None) -> Answer:
    """Say what is wrong or unwise in job files (*.toml) and sbatch scripts.

    Exit code 1: an error was found, or with --strict a warning.
    """
    release = _release(version)
    rows = []
    lines = []
    for file in files:
        for one in _findings(file, release):
            rows.append({"file": file, **one._asdict()})
            where = f"{file}:{one.line}" if one.line else file
            first, *more = one.what.split("\n")
            lines += [f"{where}: {one.severity}: {first} [{one.reference}]", *more]
            lines += [f"  try: {one.fix}"] if one.fix else []
    bad = [row for row in rows if strict or row["severity"] == "error"]
    if not rows:
        note("nothing found")
    return Answer(data=rows, text="\n".join(lines), exit_code=1 if bad else 0)


def _findings(file: str, release: tuple[int, ...] | None) -> tuple[Finding, ...]:
    path = Path(file)
    if path.suffix == ".toml":
        from slurmkit.script.lint_job import lint_job

        return lint_job(path, version=release)
    from slurmkit.script.lint import lint_script

    return lint_script(read_text(file), path, version=release)


def _release(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    if not re.fullmatch(r"\d+\.\d+(?:\.\d+)?", text, re.ASCII):
        raise UsageError(f"`{text}` is not a version of Slurm", hint="--slurm 24.11")
    return tuple(map(int, text.split(".")))
