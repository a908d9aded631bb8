"""What a rank costs before the user's program starts: launch.pyz against a bare interpreter."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from slurmkit.launch.archive import build
from tests.bench.measure import Comparison, Program

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def comparisons(directory: Path) -> Iterator[list[Comparison]]:
    """The launcher outside of Slurm, where it is rank 0 of 1."""
    launcher = directory / "launch.pyz"
    build(launcher)
    ours = Program(
        name="launch.pyz -- true",
        argv=[sys.executable, "-I", "-S", str(launcher), "--", "true"],
        directory=directory,
    )
    bare = Program(name="python -I -S -c pass", argv=[sys.executable, "-I", "-S", "-c", "pass"])
    yield [Comparison(ours=ours, other=bare, budget=3.5, runs=31)]
