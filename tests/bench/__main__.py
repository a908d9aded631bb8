"""`python -m tests.bench [NAME...]`: run the benchmarks and print one table of ratios.

Each module `bench_*.py` has a context manager `comparisons(directory)` that gives a list of what to measure,
or a function `figures(directory)` that measures what stands by itself.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path

from tests.bench.measure import Figure, Result, compare, table


def main(names: list[str]) -> int:
    """Run the named benchmarks, or all. Exit code 1 where a budget is exceeded."""
    found = sorted(path.stem for path in Path(__file__).parent.glob("bench_*.py"))
    chosen = [name for name in found if not names or name.removeprefix("bench_") in names]
    results: list[Result] = []
    figures: list[Figure] = []
    with ExitStack() as stack:
        for name in chosen:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=f"slurmkit-{name}-")))
            module = import_module(f"tests.bench.{name}")
            if hasattr(module, "figures"):
                figures += module.figures(directory)
                continue
            for comparison in stack.enter_context(module.comparisons(directory)):
                results.append(compare(comparison))
                print(table(results[-1:]).splitlines()[-1], file=sys.stderr, flush=True)
    if results:
        print(table(results))
    for figure in figures:
        print(figure)
    kept = [*(result.within_budget for result in results), *(figure.within_budget for figure in figures)]
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
