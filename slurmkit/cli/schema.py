"""`slurmkit schema`: the JSON Schema of the job file, for editors and for other programs."""

from __future__ import annotations

import json

import click


@click.command()
def command() -> None:
    """Print the JSON Schema of the job file.

    Editors that know TOML schemas complete and check job files with it.
    """
    from slurmkit.spec import schema

    click.echo(json.dumps(schema(), indent=2, ensure_ascii=False))
