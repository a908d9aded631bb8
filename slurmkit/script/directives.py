"""`#SBATCH` lines: which options a job has, and how a value is written so that sbatch reads it back.

sbatch splits a directive at blanks, takes `#` after a blank for a comment, and knows quotes and backslashes
(seen on 22.05; read in src/sbatch/opt.c up to 26.05). It expands nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from slurmkit.spec.gres import node_count, tasks
from slurmkit.spec.options import OPTIONS

if TYPE_CHECKING:
    from pathlib import Path

    from slurmkit.spec.model import JobSpec, OptionValue

_PLAIN: Final = re.compile(r"[\w@%+=:,./\[\]*&|^~!()-]+", re.ASCII)
LONGEST: Final = 1000
"""Bytes; a longer value goes onto the command line, where the kernel is the only limit."""


class Directives(NamedTuple):
    """What stands in the script, and what can stand only on sbatch's command line."""

    lines: tuple[str, ...]
    arguments: tuple[str, ...]


def directives(spec: JobSpec, *, log: Path, run_id: str) -> Directives:
    """The options of a job in the order of the table; `log` is the folder of the batch log."""
    values = job_options(spec, log=log, run_id=run_id)
    lines = [f"--job-name={quoted(spec.name)}"]
    arguments = []
    for option in OPTIONS:
        value = values.get(option.name)
        if value is None:
            continue
        text = spelled(option.flag_text, value, takes=option.takes)
        if option.where == "script" and len(text.encode()) <= LONGEST:
            lines.append(written(option.flag_text, value, takes=option.takes))
        else:
            arguments.append(text)
    return Directives(tuple(lines), tuple(arguments))


def job_options(spec: JobSpec, *, log: Path, run_id: str) -> dict[str, OptionValue]:
    """Options of sbatch by name: the job file's, and those that slurmkit adds to them."""
    values = dict(spec.resources)
    wanted = tasks(spec)
    if wanted.per_node is not None:
        values.setdefault("ntasks_per_node", wanted.per_node)
    elif wanted.ntasks is not None:
        values.setdefault("ntasks", wanted.ntasks)
    nodes = node_count(spec.resources)
    if spec.spare_nodes and nodes is not None:
        values["nodes"] = nodes + spec.spare_nodes
        values.setdefault("no_kill", True)
    folder = str(log).replace("%", "%%")
    values.setdefault("output", f"{folder}/{'%A_%a' if 'array' in values else '%j'}.out")
    # A requeued job would otherwise overwrite the log of the attempt that failed.
    values.setdefault("open_mode", "append")
    comment = values.get("comment")
    values["comment"] = f"{comment} slurmkit:{run_id}" if comment else f"slurmkit:{run_id}"
    return values


def spelled(flag: str, value: OptionValue, *, takes: str) -> str:
    """One option as an argument of a command line."""
    if takes == "flag" or value is True:
        return flag
    return f"{flag}={value}"


def written(flag: str, value: OptionValue, *, takes: str) -> str:
    """One option as a `#SBATCH` line carries it, quoted where it must be."""
    if takes == "flag" or value is True:
        return flag
    return f"{flag}={quoted(str(value))}"


def quoted(text: str) -> str:
    """A value as sbatch's own parser of directives reads it back."""
    if _PLAIN.fullmatch(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
