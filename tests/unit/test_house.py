"""The rules of the house that no tool checks: sizes, the public names, the records of change."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import slurmkit

ROOT = Path(slurmkit.__file__).parents[1]
MODULES = sorted((ROOT / "slurmkit").rglob("*.py"))


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("module", MODULES, ids=named)
def test_no_module_is_longer_than_400_lines(module: Path) -> None:
    assert len(module.read_text().splitlines()) <= 400


@pytest.mark.parametrize("module", MODULES, ids=named)
def test_no_function_is_longer_than_60_lines(module: Path) -> None:
    functions = (
        node
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    too_long = [f"{node.name}:{node.lineno}" for node in functions if node.end_lineno - node.lineno >= 60]  # type: ignore[operator]
    assert too_long == []


@pytest.mark.parametrize("module", sorted((ROOT / "slurmkit" / "launch").glob("*.py")), ids=named)
def test_launch_is_python_3_8(module: Path) -> None:
    ast.parse(module.read_text(), feature_version=(3, 8))


def test_the_changelog_knows_the_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    assert re.search(rf"^## \[?{re.escape(slurmkit.__version__)}\b|^## \[?Unreleased", text, re.MULTILINE)
