"""The lines of bash that prepare the program's environment: modules, venv, conda, variables, setup lines."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from slurmkit.errors import UsageError
from slurmkit.script.filling import fill
from slurmkit.script.quoting import shell_quoted

if TYPE_CHECKING:
    from slurmkit.spec.model import Environment

FAILED: Final = 78
"""Exit code of a script whose environment could not be prepared: nothing of the program has run."""

_SECRET: Final = re.compile(
    r"SECRET|(?:^|_)(?:[A-Z]*TOKEN|[A-Z]*KEY|[A-Z]*PASS(?:WORD|WD|PHRASE)|PASS|PWD|AUTH|CREDENTIALS?)$",
    re.IGNORECASE,
)
_BASHS_OWN: Final = frozenset(
    {"BASHOPTS", "BASHPID", "BASH_ARGC", "BASH_ARGV", "BASH_COMMAND", "BASH_LINENO", "BASH_SOURCE",
     "BASH_SUBSHELL", "BASH_VERSINFO", "BASH_VERSION", "DIRSTACK", "EPOCHREALTIME", "EPOCHSECONDS", "EUID",
     "FUNCNAME", "GROUPS", "HISTCMD", "IFS", "LINENO", "PPID", "RANDOM", "SECONDS", "SHELLOPTS", "SHLVL",
     "SRANDOM", "UID", "_"}
)  # fmt: skip


def preparation(environment: Environment, *, directory: Path) -> str:
    """Bash that prepares the environment, or ends the script with one clear line and `FAILED`.

    Relative paths count from `directory`. Secrets are expected in the environment already.

    Raises:
        UsageError: a variable is one that bash sets itself, or a home is nobody's.
    """
    parts = [fill("prologue", {"failed": str(FAILED)})]
    if environment.modules:
        loads = "\n".join(f"load {shell_quoted(module)}" for module in environment.modules)
        parts.append(fill("modules", {"loads": loads}))
    if environment.venv:
        venv = shell_quoted(str(path_from(directory, environment.venv)))
        parts.append(fill("venv", {"venv": venv}))
    if environment.conda:
        name = environment.conda
        conda = str(path_from(directory, name)) if "/" in name else name
        parts.append(fill("conda", {"conda": shell_quoted(conda)}))
    if environment.variables:
        parts.append("\n" + "".join(_variable(*one) for one in environment.variables.items()))
    if environment.setup:
        lines = "\n".join(environment.setup).replace("\r\n", "\n")
        parts.append(fill("setup", {"lines": lines}))
    return "".join(parts)


def path_from(directory: Path, text: str) -> Path:
    """A path as the job file has it: relative to `directory`, or to a home with `~`.

    Raises:
        UsageError: there is no such user.
    """
    try:
        return directory / Path(text).expanduser()
    except RuntimeError as error:
        raise UsageError(f"`{text}`: {error}", hint="write `./~...` for a name that begins so") from error


def is_secret(name: str) -> bool:
    """Whether a variable's name says that its value does not belong into a script.

    Slurm stores the script, and accounting may show it.
    """
    return _SECRET.search(name) is not None


def _variable(name: str, value: str) -> str:
    if name in _BASHS_OWN:
        raise UsageError(f"bash sets {name} itself: [environment] variables cannot", hint="leave it out")
    if is_secret(name):
        why = f"{name} is not in the environment: slurmkit submit passes it on, it is no part of this script"
        return f"[[ -v {name} ]] || fail {shell_quoted(why)}\n"
    return f"export {name}={shell_quoted(value)}\n"
