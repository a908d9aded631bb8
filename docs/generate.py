"""Write the reference pages that can be made from the code; `--check` only says whether they are current.

Run by `make docs` and by a test, so that a page cannot drift from the tables that it shows.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import click
import msgspec

from slurmkit import errors
from slurmkit.cli.table import COMMANDS, GROUPS
from slurmkit.run.events import KINDS
from slurmkit.spec.convert import section_of
from slurmkit.spec.json_schema import keys
from slurmkit.spec.model import JobSpec
from slurmkit.spec.options import OPTIONS

REFERENCE = Path(__file__).parent / "reference"


def commands() -> str:
    """Every command with its help, in the order of the life cycle."""
    parts = ["# Commands\n\nExit codes: 0 fine, 1 the job or the check failed, 2 usage or job file, "
             "3 Slurm unreachable or refused, 130 interrupted.\n"]  # fmt: skip
    for heading in GROUPS:
        parts.append(f"## {heading}\n")
        for entry in (entry for entry in COMMANDS if entry.group == heading):
            command = import_module(entry.module).command
            parts.append(_help(command, f"slurmkit {entry.name}", level=3))
    return "\n".join(parts)


def _help(command: click.Command, name: str, *, level: int) -> str:
    context = click.Context(command, info_name=name, max_content_width=100, terminal_width=100)
    text = f"{'#' * level} {name}\n\n```text\n{command.get_help(context)}\n```\n"
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            text += "\n" + _help(command.commands[child], f"{name} {child}", level=level + 1)
    return text


def job_file() -> str:
    """The keys of the job file, section by section, from the model."""
    parts = [
        "# The job file",
        "",
        "TOML. Every mistake in it is reported at once, with file, line and column. Values come from,",
        "weakest first: built-in defaults, `/etc/slurmkit/site.toml` and",
        "`$XDG_CONFIG_HOME/slurmkit/config.toml` (both under `[defaults]`), the file named by `extends`,",
        "the job file, and `--set key.path=value`.",
        "`slurmkit render --explain` says where each came from; `slurmkit schema` prints the JSON Schema.",
        "",
        "The keys of `[resources]` are [sbatch's options](resources.md), and `spare_nodes`.",
        "",
        "## Top level",
        "",
        *_keys(""),
    ]
    for info in msgspec.structs.fields(JobSpec):
        section = section_of(info.type)
        if section is not None:
            parts += ["", f"## `[{info.name}]`", "", (section.__doc__ or "").strip(), "", *_keys(info.name)]
    return "\n".join(parts) + "\n"


def _keys(table: str) -> list[str]:
    lines = ["| key | default | what it does |", "|---|---|---|"]
    for key in (key for key in keys() if key.table == table):
        default = "required" if key.required else f"`{_default(key.default)}`"
        about = key.about.replace("|", "\\|")
        lines.append(f"| `{key.name}` | {default} | {about} |")
    return lines


def _default(value: object) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return str(value).lower()
        case tuple():
            return "[]"
        case str():
            return f'"{value}"'
    return str(value)


def sbatch_options() -> str:
    """The keys of `[resources]`, from the one table."""
    lines = [
        "# Keys of `[resources]`",
        "",
        "Every long option of sbatch from Slurm 22.05 to 26.05, with underscores.",
        "",
        "| key | sbatch | kind | since | what it does |",
        "|---|---|---|---|---|",
    ]
    for option in OPTIONS:
        if option.refused is not None:
            continue
        since = ".".join(f"{part:02d}" for part in option.since) if option.since else ""
        short = f"`-{option.short}` " if option.short else ""
        about = option.about.replace("|", "\\|")
        lines.append(f"| `{option.name}` | {short}`{option.flag_text}` | {option.kind} | {since} | {about} |")
    lines += ["", "## Not in a job file", "", "| option | why |", "|---|---|"]
    lines += [
        f"| `{option.flag_text}` | {option.refused} |" for option in OPTIONS if option.refused is not None
    ]
    return "\n".join(lines) + "\n"


def error_tree() -> str:
    """Every error with its reference name and exit code."""
    lines = ["# Errors", "", "| reference | exit code | what it means |", "|---|---|---|"]
    for kind in _tree(errors.SlurmkitError):
        about = (kind.__doc__ or "").strip().splitlines()[0]
        lines.append(f"| `{kind.reference}` | {kind.exit_code} | {about} |")
    lines += ["", "Exit code 70 and a file with a traceback mean a bug in slurmkit: please report it."]
    return "\n".join(lines) + "\n"


def _tree(kind: type[errors.SlurmkitError]) -> list[type[errors.SlurmkitError]]:
    return [kind, *(found for child in kind.__subclasses__() for found in _tree(child))]


def events() -> str:
    """The kinds of event in `events.jsonl`."""
    lines = [
        "# Events",
        "",
        "The lines of a run's `events.jsonl`.",
        "",
        "| event | what it says |",
        "|---|---|",
    ]
    return "\n".join([*lines, *(f"| `{kind}` | {about} |" for kind, about in KINDS.items())]) + "\n"


PAGES = {
    "job-file.md": job_file,
    "commands.md": commands,
    "resources.md": sbatch_options,
    "errors.md": error_tree,
    "events.md": events,
}


def main(arguments: list[str]) -> int:
    """Write the pages, or with `--check` name those that are not up to date."""
    stale = [name for name, make in PAGES.items() if not _is_current(REFERENCE / name, make())]
    if "--check" in arguments:
        for name in stale:
            click.echo(
                f"docs/reference/{name} is not what the code says: run `python docs/generate.py`", err=True
            )
        return 1 if stale else 0
    for name in stale:
        (REFERENCE / name).write_text(PAGES[name](), encoding="utf-8")
        click.echo(f"wrote docs/reference/{name}")
    return 0


def _is_current(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
