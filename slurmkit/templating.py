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

    return _prepare(jinja2.Environment, [template_root()])


def sandboxed_environment(directory: Path) -> jinja2.Environment:
    """Jinja2 for a user's own template, sandboxed: includes come from `directory` or from ours."""
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    return _prepare(ImmutableSandboxedEnvironment, [directory, template_root()])


def _prepare(kind: type[jinja2.Environment], search: list[Path]) -> jinja2.Environment:
    import jinja2

    made = kind(
        loader=jinja2.FileSystemLoader(search),
        undefined=jinja2.StrictUndefined,
        autoescape=jinja2.select_autoescape(enabled_extensions=("html", "html.j2")),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["quote"] = lambda value: shlex.quote(str(value))
    return made
