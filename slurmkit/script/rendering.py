"""From a job file to the text of its script. Pure: the same job file makes the same bytes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from slurmkit.errors import UsageError
from slurmkit.script.directives import directives
from slurmkit.script.filling import fill
from slurmkit.script.preparation import is_secret, path_from, preparation
from slurmkit.script.quoting import shell_quoted
from slurmkit.script.step import program, srun_arguments

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from slurmkit.spec.model import JobSpec

TEMPLATES: Final = ("managed", "plain")
_WIDTH: Final = 90
_FAULTS_OF_TEMPLATES: Final = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What an expression in a user's template may end in, besides Jinja2's own."""


class Rendered(msgspec.Struct, frozen=True, kw_only=True):
    """A script and how it is handed to sbatch."""

    text: str
    arguments: tuple[str, ...] = ()
    """What cannot stand in a #SBATCH line."""
    environment: Mapping[str, str] = {}
    """Variables that reach the job through sbatch's environment, not through the script."""
    notes: tuple[str, ...] = ()


def render(
    spec: JobSpec,
    *,
    run_directory: Path,
    run_id: str,
    tag: str | None = None,
    python: str = sys.executable,
    template: str = "managed",
    directory: Path,
) -> Rendered:
    """Render a job; `template` is `managed`, `plain` or the path of a user's own, which runs in a sandbox.

    Relative paths of the job file count from `directory`. `tag` marks the job in its comment, in place of the
    run id.

    Raises:
        UsageError: the job cannot be written as a script, or the user's template fails; says where.
    """
    secrets = {name: value for name, value in spec.environment.variables.items() if is_secret(name)}
    spec = _exporting(spec, secrets)
    warns = {"managed": "batch", "plain": "steps"}.get(template)
    options = directives(spec, log=run_directory / "logs", run_id=tag or run_id, warns=warns)
    context = {
        "title": _one_line(f"{spec.name}, rendered by slurmkit"),
        "directives": "\n".join(f"#SBATCH {line}" for line in options.lines),
        "preparation": preparation(spec.environment, directory=directory),
        "run_directory": shell_quoted(str(run_directory)),
        "run_id": shell_quoted(run_id),
        "python": shell_quoted(python),
        "srun": _words(srun_arguments(spec)),
        "program": _words(program(spec)),
    }
    notes = tuple(
        f"{name} is passed through the environment, not written into the script" for name in secrets
    )
    text = fill(template, context) if template in TEMPLATES else _fill_users(template, context, spec)
    return Rendered(text=text, arguments=options.arguments, environment=secrets, notes=notes)


def _words(words: Sequence[str]) -> str:
    """Words of a command, continued on further lines where one would become too long to read."""
    made = ""
    column = 0
    for word in map(shell_quoted, words):
        if column and column + len(word) > _WIDTH:
            made += "\\\n  "
            column = 0
        made += word + " "
        column += len(word) + 1
    return made.removesuffix(" ")


def _exporting(spec: JobSpec, secrets: Mapping[str, str]) -> JobSpec:
    """The job with its secrets among what sbatch exports, where the job file limits that."""
    export = spec.resources.get("export")
    if not secrets or export is None or export == "ALL" or str(export).startswith("ALL,"):
        return spec
    from msgspec.structs import replace

    named = [] if export in {"NONE", "NIL"} else [str(export)]
    return replace(spec, resources={**spec.resources, "export": ",".join([*named, *secrets])})


def _fill_users(template: str, context: Mapping[str, str], spec: JobSpec) -> str:
    """A user's own template: all of Jinja2 in its sandbox, the same names, already quoted, and `spec`.

    What is wrong with it is an error with its file and line.
    """
    import jinja2

    from slurmkit.templating import sandboxed_environment

    path = path_from(Path(), template)
    sandbox = sandboxed_environment(path.parent)
    try:
        text = sandbox.get_template(path.name).render(context, spec=spec)
    except jinja2.TemplateNotFound as error:
        missing = path if error.name == path.name else path.parent / str(error.name)
        raise UsageError(
            f"there is no template {missing}", hint=f"`{'`, `'.join(TEMPLATES)}`, or the path of a file"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the template cannot be read: {error}", where=str(path)) from error
    except jinja2.TemplateSyntaxError as error:
        where = f"{error.filename or path}:{error.lineno}"
        raise UsageError(f"template: {error.message}", where=where) from error
    except (jinja2.TemplateError, *_FAULTS_OF_TEMPLATES) as error:
        raise UsageError(f"template: {error}", where=_place(error, path)) from error
    if not text.startswith("#!"):
        raise UsageError("the template makes no script: its first line must begin with #!", where=f"{path}:1")
    return text.replace("\r\n", "\n").rstrip("\n") + "\n"


def _place(error: Exception, path: Path) -> str:
    """The template and its line in which the error arose; Jinja2 puts them into the traceback."""
    from traceback import extract_tb

    frames = [frame for frame in extract_tb(error.__traceback__) if not frame.filename.endswith(".py")]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else str(path)


def _one_line(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)
