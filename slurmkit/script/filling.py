"""slurmkit's own templates, filled without Jinja2, whose import would cost a submit a third of its time.

They use nothing of Jinja2 but `{{ name }}`; a test renders them through Jinja2 to the same bytes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from slurmkit.templating import template_root

if TYPE_CHECKING:
    from collections.abc import Mapping

_PLACE: Final = re.compile(r"\{\{ (\w+) \}\}", re.ASCII)


def fill(name: str, values: Mapping[str, str]) -> str:
    """The template `sbatch/<name>.sh.j2` with its places filled.

    Raises:
        KeyError: the template names what `values` lacks.
    """
    text = (template_root() / "sbatch" / f"{name}.sh.j2").read_text(encoding="utf-8")
    return _PLACE.sub(lambda place: values[place[1]], text)
