"""The Jinja2 environment of slurmkit's templates, found in a checkout and in an installed wheel alike."""

from __future__ import annotations

import shlex
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import jinja2


def template_root() -> Path:
    """The folder of slurmkit's own templates."""
    inside_wheel = Path(__file__).parent / "templates"
    return inside_wheel if inside_wheel.is_dir() else Path(__file__).parents[1] / "templates"


@cache
def environment() -> jinja2.Environment:
    """Jinja2 over slurmkit's own templates: undefined names are errors, `quote` is the shell's quoting."""
    import jinja2

    return _prepare(
        jinja2.Environment(
            loader=jinja2.FileSystemLoader(template_root()),
            undefined=jinja2.StrictUndefined,
            autoescape=_autoescape,  # noqa: S701 - decides by the file name
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
        )
    )


def sandboxed_environment(directory: Path) -> jinja2.Environment:
    """Jinja2 for a user's own template: the same filters, in a sandbox, includes from its own folder."""
    import jinja2
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    return _prepare(
        ImmutableSandboxedEnvironment(
            loader=jinja2.FileSystemLoader([directory, template_root()]),
            undefined=jinja2.StrictUndefined,
            autoescape=_autoescape,  # noqa: S701 - decides by the file name
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
        )
    )


def _autoescape(name: str | None) -> bool:
    return name is not None and name.endswith((".html", ".html.j2"))


def _prepare(made: jinja2.Environment) -> jinja2.Environment:
    made.filters["quote"] = lambda value: shlex.quote(str(value))
    return made
