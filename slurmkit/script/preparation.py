"""The lines of bash that prepare the program's environment: modules, venv, conda, variables, setup lines."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from slurmkit.script.filling import fill

if TYPE_CHECKING:
    from collections.abc import Collection

    from slurmkit.spec.model import Environment


def preparation(environment: Environment, *, directory: Path, secrets: Collection[str]) -> str:
    """Bash that prepares the environment or fails with one clear line; `secrets` are left out."""
    parts = []
    if environment.modules:
        loads = "\n".join(f"load {quote(module)}" for module in environment.modules)
        parts.append(fill("modules", {"loads": loads}))
    if environment.venv:
        venv = directory / Path(environment.venv).expanduser()
        parts.append(fill("venv", {"venv": quote(str(venv))}))
    if environment.conda:
        parts.append(fill("conda", {"conda": quote(environment.conda)}))
    exports = [
        f"export {name}={quote(value)}\n"
        for name, value in environment.variables.items()
        if name not in secrets
    ]
    if exports:
        parts.append("\n" + "".join(exports))
    if environment.setup:
        parts.append("\n" + "".join(f"{line}\n" for line in environment.setup))
    return "".join(parts)
