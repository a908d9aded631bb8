"""From an sbatch script to a job file, and what could not be carried over."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from slurmkit.script.body import Note, read_body
from slurmkit.script.sbatch_file import Faulty, SbatchFile, ignored_directives, parse
from slurmkit.spec.checks import job_name
from slurmkit.spec.conflicts import conflicts, pair_conflicts
from slurmkit.spec.convert import convert
from slurmkit.spec.names import nearest
from slurmkit.spec.options import BY_NAME
from slurmkit.spec.values import normalise

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slurmkit.spec.options import Option
    from slurmkit.spec.problems import Problem

_STAND_INS: Final = {"name": "job", "command": "true"}
"""What a job file must have, where the script's own cannot be used."""
_FAULTS: Final = {
    "unknown": "is not an option of sbatch's",
    "ambiguous": "is the start of more than one option",
    "no value": "has no value",
    "unwanted value": "takes no value",
    "stray word": "belongs to no option",
    "open quote": "has a quote that does not end",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A job file's tables. `problems`: directives that are wrong; `notes`: what else was left behind."""

    tables: dict[str, Any]
    problems: tuple[Note, ...]
    notes: tuple[Note, ...]


def import_script(text: str, *, file_name: str) -> Imported:
    """The job file of a script, which loads; sbatch names the job after the file where nothing else does."""
    script = parse(text.replace("\0", ""))
    resources, name, problems, notes = _resources(script)
    variables = dict(_exported(script))
    body = read_body(script, resources, file_name, notes)
    environment = {**body.pop("environment", {})}
    if variables or "variables" in environment:
        environment["variables"] = variables | environment.get("variables", {})
    tables: dict[str, Any] = {
        "name": name or _named_after(file_name),
        "command": body.pop("command"),
        "resources": resources,
    }
    tables |= {key: value for key, value in {"environment": environment, **body}.items() if value}
    problems += _made_sound(tables, {one.option.name: one.line for one in script.directives})
    notes += [Note(line.number, f"`{line.text.strip()}` {why}") for line, why in ignored_directives(script)]
    return Imported(
        tables=tables,
        problems=tuple(sorted(problems, key=lambda note: note.line)),
        notes=tuple(sorted(notes, key=lambda note: note.line)),
    )


def _named_after(file_name: str) -> str:
    try:
        return job_name(file_name)
    except ValueError:
        return _STAND_INS["name"]


def to_toml(imported: Imported, *, file_name: str) -> str:
    """The job file's text, with what was left behind as comments at its head."""
    import tomli_w

    lines = [f"Made from {file_name}."]
    left = [*imported.problems, *imported.notes]
    if left:
        lines += ["", "Not carried over:", *(f"- {note}" for note in left)]
    comments = "".join(
        "#" + (f" {part}" if part else "") + "\n" for line in lines for part in _printable(line).split("\n")
    )
    return comments + "\n" + tomli_w.dumps(imported.tables, multiline_strings=True)


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() or letter == "\n" else " " for letter in text)


def fault_note(fault: Faulty) -> Note:
    """A fault of a directive in words, with the nearest name for an unknown one."""
    near = nearest(fault.word, BY_NAME) if fault.fault == "unknown" else None
    right = f"; did you mean `{BY_NAME[near].flag_text}`?" if near else ""
    return Note(fault.line, f"`{fault.word}` {_FAULTS[fault.fault]}{right}")


def _resources(script: SbatchFile) -> tuple[dict[str, Any], str | None, list[Note], list[Note]]:
    """[resources], the job's name, what is wrong, and what does not belong into a job file."""
    resources: dict[str, Any] = {}
    name = None
    problems = list(map(fault_note, script.faults))
    notes = []
    for one in {one.option.name: one for one in script.directives}.values():
        option, value = one.option, True if one.value is None else one.value
        try:
            if option.name == "job_name":
                name = job_name(str(value))
            elif option.refused is not None:
                notes.append(Note(one.line, f"`{option.flag_text}`: {option.refused}"))
            elif option.name == "export" and "=" in str(value):
                names = [part for part in str(value).split(",") if "=" not in part]
                if names != ["ALL"]:
                    resources["export"] = normalise(option, ",".join(names) or "NIL")
            else:
                resources[option.name] = _readable(option, value, normalise(option, value))
        except ValueError as error:
            problems.append(Note(one.line, f"`{option.flag_text}={value}`: {error}"))
    return resources, name, problems, notes


def _readable(option: Option, written: object, normal: object) -> object:
    """What was written where that is as good as Slurm's own form: `64G` rather than `65536M`."""
    if option.kind == "memory" and isinstance(written, str) and re.fullmatch(r"\d+[KMGT]?", written):
        return int(written) if written.isdigit() else written
    return normal


def _exported(script: SbatchFile) -> Iterator[tuple[str, str]]:
    for part in (script.values.get("export") or "").split(","):
        name, equals, value = part.partition("=")
        if equals and re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
            yield name, value


def _made_sound(tables: dict[str, Any], lines: dict[str, int]) -> list[Note]:
    """Take out what no job file may have, until the tables load; what it was."""
    removed: list[Note] = []
    while True:
        spec, problems = convert(tables)
        problems += pair_conflicts(tables["resources"])
        if spec is not None and not problems:
            problems = conflicts(spec)
        if not problems:
            return removed
        removed.append(_take_out(tables, problems[0], lines))


def _take_out(tables: dict[str, Any], problem: Problem, lines: dict[str, int]) -> Note:
    *outer, key = problem.path
    table: Any = tables
    for name in outer:
        table = table[name]
    del table[key]
    for required, stand_in in _STAND_INS.items():
        tables.setdefault(required, stand_in)
    right = f"; {problem.right}" if problem.right else ""
    return Note(lines.get(str(key), 0) if outer == ["resources"] else 0, f"{problem.what}{right}")
