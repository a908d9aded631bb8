"""Our own templates are filled without Jinja2, to the same bytes."""

from __future__ import annotations

import re

import pytest

from slurmkit.script.filling import fill
from slurmkit.templating import environment, template_root

NAMES = sorted(path.name.removesuffix(".sh.j2") for path in (template_root() / "sbatch").glob("*.sh.j2"))


@pytest.mark.parametrize("name", NAMES)
def test_a_template_comes_out_as_through_jinja2(name: str) -> None:
    template = environment().get_template(f"sbatch/{name}.sh.j2")
    text = (template_root() / "sbatch" / f"{name}.sh.j2").read_text()
    values = {place: f"<{place} & ' \\1 {{{{ x }}}}>" for place in re.findall(r"\{\{ (\w+) \}\}", text)}
    assert fill(name, values) == template.render(values)


def test_a_place_without_a_value_is_an_error() -> None:
    with pytest.raises(KeyError):
        fill("managed", {})
