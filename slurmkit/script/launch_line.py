"""The line of a script that starts its program: srun, mpirun, torchrun, python; into command and [launch]."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from slurmkit.script.step_options import (
    Launching,
    node_number,
    read_apptainer,
    read_mpirun,
    read_srun,
    stated_tasks,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from slurmkit.script.shell import Command, Word

_MPI: Final = frozenset({"mpirun", "mpiexec", "orterun", "mpiexec.hydra"})
_STARTERS: Final = _MPI | {"srun", "torchrun", "accelerate", "deepspeed", "apptainer", "singularity"}
_PYTHON: Final = re.compile(r"python[0-9.]*")
_PREFIXES: Final = frozenset({"time", "exec", "nohup", "command", "env"})
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=", re.ASCII)
_TORCHRUN: Final = re.compile(r"\btorchrun\b|\btorch\.distributed\.(?:run|launch)\b")
_ALL_ELEMENTS: Final = re.compile(r'"\$\{(\w+)\[@\]\}"')
_ONCE: Final = ("--nodes=1", "--ntasks=1", "--ntasks-per-node=1")


def starts_program(command: Command) -> bool:
    """Whether a command is of a kind that starts the job's program."""
    words = program_words(command)
    name = _name_of(words[0]) if words else ""
    return name in _STARTERS or _PYTHON.fullmatch(name) is not None


def program_words(command: Command) -> Sequence[Word]:
    """The words of a command's program, up to the first operator; none where it only assigns."""
    return _without_prefixes(list(takewhile(lambda word: not word.is_operator, command.words)))


def _name_of(word: Word) -> str:
    return (word.value or "").rpartition("/")[2]


def read_launch(
    command: Command, resources: Mapping[str, Any], arrays: Mapping[str, Sequence[Word]] | None = None
) -> Launching:
    """Take the line apart; `resources` are the script's directives, which srun need not repeat.

    `arrays` are those of bash whose elements are fixed: no variable of the environment can carry one.
    """
    own = list(takewhile(lambda word: not word.is_operator, command.words))
    has_document = "<<" in command.text
    words = own if has_document else _with_elements(own, arrays or {})
    made = Launching("")
    end = len(command.text) if has_document else own[-1].start + len(own[-1].raw)
    rest = command.text[end:].strip()
    if rest and not rest.startswith("#"):
        why = "slurmkit waits for it" if rest == "&" else "every rank has its own log (`slurmkit logs`)"
        made.notes.append(f"`{rest}` after the program: {why}")
    for word in words[: len(words) - len(_without_prefixes(words))]:
        if _ASSIGNMENT.match(word.raw):
            _assign(word, made)
    words = list(_without_prefixes(words))
    name = _name_of(words[0])
    if name == "srun":
        words = words[1:]
        read_srun(words, made, resources)
    elif name in _MPI:
        words = words[1:]
        read_mpirun(words, made, resources)
    else:
        _once(made, resources)
    words = read_apptainer(words, made)
    text = " ".join(word.raw for word in words)
    if words and len(words) <= len(own) and words == own[-len(words) :]:
        text = command.text[words[0].start : end]
    _set_command(words, text, made)
    _torchrun(command, made, resources, is_step=name == "srun")
    return made


def _with_elements(words: Iterable[Word], arrays: Mapping[str, Sequence[Word]]) -> list[Word]:
    made: list[Word] = []
    for word in words:
        match = _ALL_ELEMENTS.fullmatch(word.raw)
        made += arrays[match[1]] if match and match[1] in arrays else [word]
    return made


def _without_prefixes(words: Sequence[Word]) -> Sequence[Word]:
    count = 0
    for word in words:
        if word.raw not in _PREFIXES and not _ASSIGNMENT.match(word.raw):
            break
        count += 1
    return words[count:]


def _assign(word: Word, made: Launching) -> None:
    name, _, value = (word.value or word.raw).partition("=")
    if word.value is None:
        made.notes.append(f"`{word.raw}` before the program: write it as a line of [environment] setup")
    else:
        made.variables[name] = value


def _set_command(words: list[Word], text: str, made: Launching) -> None:
    values = [word.value for word in words] or ["true"]
    if "<<" not in text and all(value is not None for value in values):
        made.command = [str(value) for value in values]
        return
    made.command = text
    if "$(" in text or "`" in text:
        made.notes.append("`$(...)` in the command is now evaluated by every task, on its own node")
    if re.search(r"\$\{?[A-Za-z_]\w*\[", text):
        made.notes.append(
            "an array of bash in the command does not reach the tasks: write its elements there"
        )
    if re.search(r"\$[{]?[1-9@*]", text):
        made.notes.append(
            "arguments of the script ($1 ...) do not exist: write their values into the command"
        )


def _once(made: Launching, resources: Mapping[str, Any]) -> None:
    """The program without srun ran once, on the first node."""
    tasks = {str(resources.get(name, 1)) for name in ("ntasks", "ntasks_per_node")}
    if tasks != {"1"} or "ntasks_per_gpu" in resources or node_number(resources) != 1:
        made.launch["srun"] = list(_ONCE)
        made.notes.append(
            "the program was started without srun: once, on the first node. [launch] srun keeps that; "
            "take it out to start one for each task"
        )
    elif not stated_tasks(resources):
        made.launch["ntasks_per_node"] = 1


def _torchrun(command: Command, made: Launching, resources: Mapping[str, Any], *, is_step: bool) -> None:
    if not _TORCHRUN.search(command.text):
        return
    per_node = str(resources.get("ntasks_per_node", 1))
    ntasks = str(resources.get("ntasks", node_number(resources)))
    if per_node == "1" and ntasks == str(node_number(resources)) and "ntasks_per_gpu" not in resources:
        made.launch.pop("ntasks_per_node", None)
        made.launch["launcher"] = "torchrun"
    elif is_step:
        made.notes.append(
            "srun starts torchrun once for each task, and each starts ranks of its own: "
            'ask for one task on each node and set `launcher = "torchrun"`'
        )
