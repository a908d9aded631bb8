"""`slurmkit report NAME`: what Slurm's accounting says, as a table, a file for the next tool, or a page."""

from __future__ import annotations

import shutil
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slurmkit.accounting.asking import SUMMARIES
from slurmkit.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from slurmkit.accounting.asking import Answered
    from slurmkit.accounting.question import Question

FORMATS = ("table", "csv", "json", "parquet", "markdown", "html")
SUFFIXES = {
    ".csv": "csv", ".json": "json", ".parquet": "parquet", ".md": "markdown", ".html": "html", ".txt": "table"
}  # fmt: skip
OF_ONE_TABLE = frozenset({"csv", "parquet"})
BY_DEFAULT = "30d"
"""How far back a report of the store goes; one of a dump takes all of it."""

LISTS = ("user", "account", "partition", "qos", "state", "cluster", "name")
TAKE_JOBS = frozenset({"job", "jobs"})


def _options(function: Callable[..., None]) -> Callable[..., None]:
    """The options of every report, in the order of the help."""
    given = [
        click.option("--since", metavar="TIME", help="From: 2026-11-01, 2026-11, 7d, 'last month'."),
        click.option("--until", metavar="TIME", help="To; a date is its midnight, as for sacct."),
        *(
            click.option(f"--{name}", f"{name}s", multiple=True, metavar="LIST", help=f"Only of {what}.")
            for name, what in zip(
                LISTS,
                (
                    "these users",
                    "these accounts",
                    "these partitions",
                    "these QOS",
                    "jobs in these states",
                    "these clusters",
                    "jobs of these names (* stands for anything)",
                ),
                strict=True,
            )
        ),
        click.option(
            "--by",
            multiple=True,
            metavar="GROUP",
            help="One or two of account, user, partition, qos, state, cluster, gpu_type, day, week, month; "
            "`none` for the sum.",
        ),
        click.option("--source", type=click.Path(path_type=Path), help="A dump of sacct, or a store."),
        click.option("--time-zone", metavar="ZONE", help="Whose days they are; this machine's by default."),
        click.option("--limit", type=click.IntRange(min=1), help="Rows of tables that list single things."),
        click.option("--table", metavar="NAME", help="Only this table of the report."),
        click.option("--format", "form", type=click.Choice(FORMATS), help="By default a table."),
        click.option("--json", "form", flag_value="json", help="The same as --format json."),
        click.option("--html", "form", flag_value="html", help="The same as --format html."),
        click.option("--output", "-o", type=click.Path(path_type=Path), help="A file; its suffix may tell."),
    ]
    for option in reversed(given):
        function = option(function)
    return function


@click.group()
def command() -> None:
    """Say where the hours of a cluster went, from Slurm's own accounting.

    Reads the store that `slurmkit accounting sync` fills, or a dump: `sacct -P` in any order of fields. In
    tables and pages time is hours; in CSV, JSON and Parquet whole seconds, so that sums are exact. A job that
    spans an end of the window counts with the part inside it.
    """


def _make(name: str) -> click.Command:
    def callback(jobs: tuple[str, ...] = (), **given: Any) -> None:  # noqa: ANN401 - options as click gives
        _report(name, jobs, **given)

    made = _options(callback)
    if name in TAKE_JOBS:
        made = click.argument("jobs", nargs=-1, required=name == "job")(made)
    return click.command(name, help=SUMMARIES[name], short_help=SUMMARIES[name])(made)


for _name in SUMMARIES:
    command.add_command(_make(_name))


def _report(name: str, jobs: tuple[str, ...], *, form: str | None, output: Path | None, **given: Any) -> None:  # noqa: ANN401
    from slurmkit.accounting.asking import ask, columns_read, report_named, with_default
    from slurmkit.accounting.source import open_source

    form = form or (SUFFIXES.get(output.suffix.lower(), "table") if output else "table")
    report = report_named(name)
    source = given["source"]
    question = with_default(report, _question(jobs, given), by_default=not given["by"])
    table = given["table"] or (report.tables[0].name if form in OF_ONE_TABLE else None)
    with closing(open_source(source, columns=columns_read(report, question))) as ledger:
        answered = ask(report, ledger, question, table=table)
    write(answered, form, output)


def _question(jobs: tuple[str, ...], given: dict[str, Any]) -> Question:
    from slurmkit.accounting.periods import local_zone, window, zone_named
    from slurmkit.accounting.question import question, words

    zone = zone_named(given["time_zone"]) if given["time_zone"] else local_zone()
    is_open = given["source"] is not None or jobs
    since = given["since"] or (None if is_open else BY_DEFAULT)
    begin, end = window(since, given["until"], now=datetime.now(UTC), zone=zone)
    groups = [word for word in words(given["by"]) if word.lower() != "none"]
    return question(
        since=begin,
        until=end,
        zone=zone,
        by=groups,
        states=given["states"],
        limit=given["limit"],
        users=given["users"],
        accounts=given["accounts"],
        partitions=given["partitions"],
        qos=given["qoss"],
        clusters=given["clusters"],
        names=given["names"],
        jobs=jobs,
    )


def write(answered: Answered, form: str, output: Path | None) -> None:
    """Print a report, or put it into a file.

    Raises:
        UsageError: the file cannot be written.
    """
    from slurmkit.accounting import formats

    match form:
        case "table":
            on_terminal = output is None and sys.stdout.isatty()
            width = shutil.get_terminal_size().columns if on_terminal else None
            bold: Any = (lambda text: click.style(text, bold=True)) if on_terminal else str
            text = formats.as_text(answered, width=width, header=bold)
        case "csv":
            text = formats.as_csv(answered)
        case "json":
            text = formats.as_json(answered)
        case "markdown":
            text = formats.as_markdown(answered)
        case "html":
            from slurmkit.accounting.page import as_html

            text = as_html(answered)
        case _ if output is not None:
            formats.write_parquet(answered, output)
            return
        case _:
            raise UsageError("Parquet is not for a terminal", hint="--output usage.parquet")
    if output is None:
        click.echo(text, nl=False)
        return
    from slurmkit.launch.files import write_atomically

    try:
        write_atomically(output, text.encode("utf-8", "surrogateescape"))
    except OSError as error:
        raise UsageError(f"the report cannot be written: {error.strerror}", where=str(output)) from error
