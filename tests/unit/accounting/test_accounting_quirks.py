"""The page on quirks names tests that there are, and every test of a trap."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[2] / "docs" / "explanation" / "accounting-quirks.md"


def test_the_page_names_only_tests_that_there_are_and_all_of_the_traps() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE.read_text()))
    there = {
        name
        for file in HERE.glob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", file.read_text(), re.MULTILINE)
    }
    assert named <= there
    traps = {name for name in there if name.startswith("test_trap_")}
    # The same quirk in another shape needs no line of its own.
    assert {name[:13] for name in traps} == {name[:13] for name in named if name.startswith("test_trap_")}
