"""The body of a script: which of its commands is the program, and what stands before and after it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from slurmkit.script.environment_lines import is_harmless, prepare
from slurmkit.script.launch_line import program_words, read_launch, starts_program
from slurmkit.script.shell import Command, commands, words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from slurmkit.script.sbatch_file import SbatchFile
    from slurmkit.script.shell import Word

_SHELLS: Final = re.compile(r"#!\s*(?:/usr/bin/env(?:\s+-S)?\s+)?(?:\S*/)?(?:ba|da|k|z)?sh\b(?P<options>.*)")
_OTHER_SCHEDULER: Final = re.compile(r"#(?:PBS|BSUB|\$|COBALT|OAR)\s+-")
STARTS_INSIDE: Final = re.compile(r"(?:^|[\s;&|(])(?:srun|mpirun|mpiexec|torchrun|python[0-9.]*)\s")
_STEP: Final = re.compile(r"\s*(?:\S+\s+)*?(?:srun|mpirun|mpiexec)\b")
_ARRAY: Final = re.compile(r"(?:declare -a )?(\w+)=\((.*)\)", re.DOTALL)
_BUILTINS: Final = frozenset({
    "cd", "export", "source", ".", "unset", "wait", "exit", "module", "ml", "conda", "eval", "shopt", "rm",
    "cp", "mv", "ln", "rsync", "mkdir", "if", "for", "while", "until", "case", "function", "{", "local",
    "declare", "read", "scontrol", "alias", "true", "cat", "touch", "tar", "test", "[", "[[",
})  # fmt: skip
"""Commands that are seldom what a job is for."""


@dataclass(frozen=True, slots=True)
class Note:
    """Something about one line of the script; line 0 is the script as a whole."""

    line: int
    text: str

    def __str__(self) -> str:
        """As it is printed."""
        return f"line {self.line}: {self.text}" if self.line else self.text


def read_body(
    script: SbatchFile, resources: dict[str, Any], file_name: str, notes: list[Note]
) -> dict[str, Any]:
    """Environment, command, launch and container of what stands below the directives."""
    shell = _SHELLS.match(script.shebang or "#!/bin/sh")
    if shell is None:
        interpreter = str(script.shebang)[2:].split()
        notes.append(Note(1, "the script is not one of bash: it is run as it is, and must stay where it is"))
        whole = Command(1, "true")
        return {**_once(whole, resources, notes), "command": [*interpreter, file_name]}
    if re.search(r"\s-\w*l", shell["options"]):
        notes.append(Note(1, f"`{script.shebang}`: slurmkit's scripts run in no login shell"))
    notes += [
        Note(line.number, f"`{line.text}`: directive of another scheduler")
        for line in script.body
        if _OTHER_SCHEDULER.match(line.text)
    ]
    found = [one for one in commands(script.body) if not _OTHER_SCHEDULER.match(one.text)]
    place = _program(found)
    if place is None:
        return _whole(found, resources, notes)
    *before, program = found[place].parts
    arrays = _fixed_arrays(found[:place])
    launching = read_launch(program, resources, arrays)
    ahead = [
        *_used_before(found[:place], arrays),
        *(Command(one.line, f"{one.text} || exit") for one in before),
    ]
    prepared = prepare(ahead)
    notes += (Note(line, text) for line, text in prepared.notes)
    notes += (Note(program.line, text) for text in launching.notes)
    notes += (
        Note(one.line, f"`{one.text.strip()}`: slurmkit's scripts end with the program")
        for one in found[place + 1 :]
        if not one.is_comment
    )
    environment = prepared.result(stops_at_errors=_stops_at_errors(found, script))
    if launching.variables:
        environment["variables"] = environment.get("variables", {}) | launching.variables
    return {
        "command": launching.command,
        "environment": environment,
        "launch": launching.launch,
        "container": launching.container,
    }


def _fixed_arrays(found: Sequence[Command]) -> dict[str, tuple[Word, ...]]:
    """Arrays that are assigned once, from fixed words."""
    arrays: dict[str, tuple[Word, ...]] = {}
    text = "\n".join(one.text for one in found)
    for one in found:
        match = _ARRAY.fullmatch(one.text.strip())
        if match and len(re.findall(rf"\b{match[1]}(?:\[\w+\])?\+?=", text)) == 1:
            elements = tuple(word for word in words(match[2]) if word.raw != "\n")
            if all(word.value is not None for word in elements):
                arrays[match[1]] = elements
    return arrays


def _used_before(found: Sequence[Command], arrays: Mapping[str, object]) -> list[Command]:
    """The commands without those that only make an array for the program."""
    text = "\n".join(one.text for one in found)
    idle = {name for name in arrays if not re.search(rf"\$\{{?[#!]?{name}\b", text)}
    return [one for one in found if not ((match := _ARRAY.fullmatch(one.text.strip())) and match[1] in idle)]


def _stops_at_errors(found: Sequence[Command], script: SbatchFile) -> bool:
    return any(re.match(r"\s*set\s+-\w*e", one.text) for one in found) or bool(
        re.search(r"\s-\w*e", script.shebang or "")
    )


def _program(found: Sequence[Command]) -> int | None:
    """Which command starts the program: the last step, else the last that looks like a program."""
    simple = [place for place, one in enumerate(found) if not one.is_comment and one.parts[-1].words]
    starters = [place for place in simple if starts_program(found[place].parts[-1])]
    steps = [p for p in starters if _STEP.match(found[p].parts[-1].text)]
    if steps or starters:
        return (steps or starters)[-1]
    if any(map(_has_program_inside, found)):
        return None
    programs = [place for place in simple if _looks_like_program(found[place].parts[-1])]
    return programs[-1] if programs else None


def _has_program_inside(command: Command) -> bool:
    text = command.text.partition("\n")[0] if "<<" in command.text else command.text
    return not command.is_comment and STARTS_INSIDE.search(text) is not None


def _looks_like_program(command: Command) -> bool:
    own = program_words(command)
    if not own or is_harmless(command) or own[0].raw in _BUILTINS:
        return False
    return "\n" not in command.text or "\\\n" in command.text


def _whole(found: Sequence[Command], resources: dict[str, Any], notes: list[Note]) -> dict[str, Any]:
    """The body as one line of bash, run once, where no single command of it is the program."""
    rest = list(found)
    ahead = []
    while rest and not _has_program_inside(rest[0]):
        ahead.append(rest.pop(0))
    if not any(not one.is_comment for one in rest):
        rest, ahead = [one for one in found if not one.is_comment] or [Command(0, "true")], []
    text = "\n".join(one.text for one in rest).strip()
    if re.search(r"\bsrun\b", text):
        notes.append(
            Note(rest[0].line, "steps inside the command are steps inside a step: they need `srun --overlap`")
        )
    prepared = prepare(ahead)
    notes += (Note(line, one) for line, one in prepared.notes)
    environment = prepared.result(stops_at_errors=any(re.match(r"\s*set\s+-\w*e", one.text) for one in found))
    return {**_once(rest[0], resources, notes), "command": text, "environment": environment}


def _once(command: Command, resources: dict[str, Any], notes: list[Note]) -> dict[str, Any]:
    made = read_launch(Command(command.line, "true"), resources)
    notes += (Note(command.line, text) for text in made.notes)
    return {"launch": made.launch}
