"""Time whole processes side by side: in turn, so that a drift of the machine meets all of them alike.

What is reported is the median of the ratios of neighbouring runs; seconds are shown but never judged.
"""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One command to time. `directory` is where it runs.

    With `moments`, a folder, it is not its end that counts: the command leaves `expected` files there, each
    with a time in seconds since 1970, and the last of these is where the clock stops.
    """

    name: str
    argv: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    directory: Path | None = None
    moments: Path | None = None
    expected: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Ours against another, with the ratio that must not be exceeded, where there is one."""

    ours: Program
    other: Program
    budget: float | None = None
    runs: int = 15


@dataclass(frozen=True, slots=True)
class Result:
    """Medians in seconds, and the median of the pairwise ratios ours / other."""

    comparison: Comparison
    ours: float
    other: float
    ratio: float

    @property
    def within_budget(self) -> bool:
        """Whether the budget holds; true where there is none."""
        return self.comparison.budget is None or self.ratio <= self.comparison.budget


@dataclass(frozen=True, slots=True)
class Figure:
    """Something measured by itself, with the value that must not be exceeded, where there is one."""

    name: str
    value: float
    unit: str
    budget: float | None = None
    extremes: tuple[float, float] | None = None
    """The least and the greatest, of a value that is the median of several."""

    @property
    def within_budget(self) -> bool:
        """Whether the budget holds; true where there is none."""
        return self.budget is None or self.value <= self.budget

    def __str__(self) -> str:
        """One line for a reader."""
        budget = (
            ""
            if self.budget is None
            else f" (budget {self.budget:g}{'' if self.within_budget else ', OVER'})"
        )
        extremes = "" if self.extremes is None else " ({:.1f} to {:.1f})".format(*self.extremes)
        return f"{self.name}: {self.value:.1f} {self.unit}{extremes}{budget}"


def compare(comparison: Comparison) -> Result:
    """Run both in turn, once to warm up and then `runs` times.

    Raises:
        RuntimeError: a command failed; its stderr stands in the message.
    """
    _run(comparison.ours)
    _run(comparison.other)
    pairs = [(_run(comparison.ours), _run(comparison.other)) for _ in range(comparison.runs)]
    return Result(
        comparison,
        median(ours for ours, _ in pairs),
        median(other for _, other in pairs),
        median(ours / other for ours, other in pairs),
    )


def _run(program: Program) -> float:
    environment = {**os.environ, **program.environment}
    # Whoever has no bytecode kept would compile at each start: that is not what is compared.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    for left in program.moments.iterdir() if program.moments else ():
        left.unlink()
    started = time.time()
    begin = time.perf_counter()
    done = subprocess.run(
        list(program.argv),
        env=environment,
        cwd=program.directory,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    taken = time.perf_counter() - begin
    if done.returncode:
        raise RuntimeError(
            f"{program.name} ended with {done.returncode}:\n{done.stderr.decode(errors='replace')}"
        )
    return taken if program.moments is None else _last_moment(program.moments, program.expected) - started


def _last_moment(folder: Path, expected: int) -> float:
    moments = [float(path.read_text()) for path in folder.iterdir()]
    if len(moments) != expected:
        raise RuntimeError(f"{len(moments)} ranks have told when they began, not {expected}")
    return max(moments)


def table(results: Sequence[Result]) -> str:
    """The results as aligned text, one line each."""
    rows = [("ours", "against", "ours ms", "other ms", "ratio", "budget", "")]
    rows += [
        (
            result.comparison.ours.name,
            result.comparison.other.name,
            f"{result.ours * 1000:.0f}",
            f"{result.other * 1000:.0f}",
            f"{result.ratio:.2f}",
            "-" if result.comparison.budget is None else f"{result.comparison.budget:.2f}",
            "" if result.within_budget else "OVER",
        )
        for result in results
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
