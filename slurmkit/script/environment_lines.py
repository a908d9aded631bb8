"""Lines of a script that prepare the environment, into the keys of [environment]; all else is setup.

A job file's order is fixed: modules, venv, conda, variables, setup. A line leaves its place only where no
line before it that stays in setup could matter to it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from slurmkit.script.shell import Command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slurmkit.script.shell import Word

HARMLESS: Final = frozenset({
    "echo", "printf", "date", "hostname", "pwd", "env", "printenv", "which", "free", "df", "nvidia-smi",
    "set", "ulimit", "umask", "uptime", "id", "whoami", "lscpu", "mkdir", "sleep", "trap",
})  # fmt: skip
"""Commands that change nothing that modules, a venv or conda could depend on."""

CHOSEN_BY_SLURMKIT: Final = frozenset({"MASTER_ADDR", "MASTER_PORT"})
_ML_COMMANDS: Final = frozenset(
    {"list", "avail", "av", "spider", "show", "swap", "unload", "use", "unuse", "reset", "restore", "purge"}
)
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)=", re.ASCII)
_MATTERS: Final = re.compile(r".*PATH|CONDA.*|MAMBA.*|MODULE.*|LMOD.*|VIRTUAL.*|HOME")
_MODULE_INIT: Final = re.compile(r"/etc/profile|.*/(?:modules|lmod|z00_lmod)\.sh|.*/init/(?:bash|sh|profile)")
_ACTIVATE: Final = re.compile(r"(.+)/bin/activate")
_CONDA_HOOK: Final = re.compile(
    r"""eval\s+"?\$\(\s*(?:"?\$CONDA_EXE"?|conda)\s+["']?shell\.(?:bash|posix)["']?\s+["']?hook"""
)


@dataclass(slots=True)
class Prepared:
    """The keys of [environment] so far; `notes` is what was left out, by line."""

    tables: dict[str, Any] = field(default_factory=dict)
    setup: list[str] = field(default_factory=list)
    notes: list[tuple[int, str]] = field(default_factory=list)
    is_blocked: bool = False
    """Whether a line of setup could matter to what is loaded after it."""

    def result(self, *, stops_at_errors: bool) -> dict[str, Any]:
        """[environment]; the script's own lines go on after an error unless it said otherwise."""
        setup = self.setup
        names = (words[0].raw for text in setup if (words := Command(0, text).words))
        if not stops_at_errors and any(name not in HARMLESS for name in names):
            setup = ["set +eu", *setup]
        return self.tables | ({"setup": setup} if setup else {})


def prepare(commands: Sequence[Command]) -> Prepared:
    """Sort the commands that stand before the program."""
    made = Prepared()
    comments: list[str] = []
    for command in commands:
        if command.is_comment:
            comments += [command.text] if command.text.strip() else []
            continue
        if not all(
            [_take(part, made) for part in command.parts] if _is_all_known(command, made) else [False]
        ):
            made.setup += [*comments, _kept(command)]
            made.is_blocked = made.is_blocked or not all(map(is_harmless, command.parts))
        comments = []
    return made


def is_harmless(command: Command) -> bool:
    """Whether a command could matter to no other line of the environment."""
    words = command.words
    if not words or words[0].raw in HARMLESS:
        return True
    names = _assigned(words)
    return bool(names) and not any(map(_MATTERS.fullmatch, names))


def _assigned(words: Sequence[Word]) -> list[str]:
    """Names that a command assigns, where it does nothing else."""
    if words and words[0].raw == "export":
        words = words[1:]
    matches = [_ASSIGNMENT.match(word.raw) for word in words]
    return [match[1] for match in matches if match] if all(matches) else []


def _kept(command: Command) -> str:
    """A command as a line of setup: what it assigns must reach the tasks."""
    words = command.words
    text = command.text.strip()
    if _assigned(words) and words[0].raw != "export" and not any("=(" in word.raw for word in words):
        return f"export {text}"
    return text


def _is_all_known(command: Command, made: Prepared) -> bool:
    """Whether every part of a list would be taken, so that none of it is torn out of the list."""
    if len(command.parts) == 1:
        return True
    trial = Prepared(tables=dict(made.tables), setup=made.setup, is_blocked=made.is_blocked)
    return all(_take(part, trial) for part in command.parts)


def _take(command: Command, made: Prepared) -> bool:
    """Move a command into the tables; False where it must stay as it is."""
    words = command.words
    if _assigned(words):
        return _take_variables(command, made)
    if made.is_blocked or any(word.is_operator for word in words):
        return False
    if words[0].raw in {"source", "."} and len(words) == 2:
        return _MODULE_INIT.match(words[1].raw) is not None or _take_venv(words[1], made)
    values = [word.value for word in words]
    match values:
        case ["conda", "activate", str(name)] if not {"venv", "conda"} & made.tables.keys():
            made.tables["conda"] = name
            return True
        case ["module" | "ml", *rest]:
            return _take_modules(command, rest, made)
    return _CONDA_HOOK.match(command.text) is not None


def _take_modules(command: Command, rest: Sequence[str | None], made: Prepared) -> bool:
    """`module load NAME...`, and `ml NAME...`; `module purge` is left out."""
    is_short = command.words[0].raw == "ml"
    if rest == ["purge"] and "modules" not in made.tables:
        made.notes.append(
            (command.line, "`module purge`: modules are loaded over those of the submitting shell")
        )
        return True
    if rest[:1] in (["load"], ["add"]):
        rest = rest[1:]
    elif not is_short or _ML_COMMANDS.intersection(rest):
        return False
    names = [name for name in rest if name is not None and not name.startswith("-")]
    if not names or len(names) != len(rest) or {"venv", "conda"} & made.tables.keys():
        return False
    made.tables.setdefault("modules", []).extend(names)
    return True


def _take_venv(word: Word, made: Prepared) -> bool:
    # These all lead to where the job file is, or are understood in it.
    text = re.sub(r"\$\{?SLURM_SUBMIT_DIR\}?/", "", word.raw.replace('"', ""))
    text = re.sub(r"^\$(?:HOME|\{HOME\})/", "~/", text)
    match = _ACTIVATE.fullmatch(word.value or text)
    if not match or "$" in match[1] or {"venv", "conda"} & made.tables.keys():
        return False
    made.tables["venv"] = match[1]
    return True


def _take_variables(command: Command, made: Prepared) -> bool:
    words = [word for word in command.words if word.raw != "export"]
    before = "\n".join(made.setup)
    for name in _assigned(words):
        if name in CHOSEN_BY_SLURMKIT:
            made.notes.append((command.line, f"`{name}`: slurmkit chooses it, so that jobs do not collide"))
            return len(words) == 1
        if _MATTERS.fullmatch(name) or re.search(rf"\b{name}\b", before):
            return False
    if any(word.value is None for word in words):
        return False
    pairs = (str(word.value).partition("=") for word in words)
    made.tables.setdefault("variables", {}).update({name: value for name, _, value in pairs})
    return True
