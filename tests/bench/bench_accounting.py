"""From a dump to usage by account and user: growth, memory, and against pandas and public tools.

Whole processes, cold but for the page cache. The dumps are generated; what slurmkit says of each must be the
truth of the generator to the second. $SLURMKIT_BENCH_JOBS is the size of the largest, ten million by default.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.bench import peers_accounting, trace, trace_text
from tests.bench.measure import Figure, Program

if TYPE_CHECKING:
    from tests.bench.trace import Trace, Used

LARGEST = int(os.environ.get("SLURMKIT_BENCH_JOBS", "10000000"))
SIZES = [size for size in (10_000, 100_000, 1_000_000, 10_000_000) if size <= LARGEST]
FOR_PEERS = min(100_000, LARGEST)
FOR_PANDAS = min(1_000_000, LARGEST)
SECONDS, STORED_SECONDS, MEBIBYTES = 20, 2, 1024
"""The budgets at ten million."""
TIMES_FASTER = 10

PANDAS = """\
import sys
import pandas
reading = dict(sep="|", quoting=3, dtype=str, on_bad_lines="skip", encoding_errors="replace")
jobs = pandas.read_csv(sys.argv[1], **reading)
jobs = jobs[~jobs["JobID"].str.contains(".", regex=False, na=False)]
typed = jobs["AllocTRES"].str.extract(r"gres/gpu=(\\d+)")[0].fillna("0").astype(int)
seconds = pandas.to_numeric(jobs["ElapsedRaw"], errors="coerce").fillna(0)
jobs["gpu_seconds"] = typed * seconds
jobs["cpu_seconds"] = pandas.to_numeric(jobs["AllocCPUS"], errors="coerce").fillna(0) * seconds
print(jobs.groupby(["Account", "User"])[["cpu_seconds", "gpu_seconds"]].sum().to_csv())
"""


TIMER = """\
import resource, subprocess, sys, time
begin = time.perf_counter()
code = subprocess.call(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
print(time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)
"""
"""A process of its own: to Linux, the most memory of a child is at least what its parent had at its start."""


class Run(NamedTuple):
    """What a process took, and the most memory that it or a child of it ever had."""

    seconds: float
    mebibytes: float


class Other(NamedTuple):
    """What another took for so many records."""

    name: str
    records: int
    run: Run


def figures(directory: Path) -> list[Figure]:
    """The table of the budgets, then that of the ratios."""
    found: list[Figure] = []
    ours: dict[int, float] = {}
    others: list[Other] = []
    for size in SIZES:
        generated = trace.generate(size, days=max(7, size * 365 // 10_000_000))
        dump = directory / f"{size}.txt"
        with dump.open("wb") as file:
            trace_text.write(generated, file)
        run = measured(usage(dump, directory), runs=1 if size > 1_000_000 else 3)
        assert_true(directory / "usage.csv", trace.truth(generated))
        ours[size] = run.seconds
        is_largest = size == 10_000_000
        found += [
            Figure(f"usage of {size:,} records", run.seconds, "s", SECONDS if is_largest else None),
            Figure(f"usage of {size:,} records, peak memory", run.mebibytes, "MiB", MEBIBYTES),
        ]
        if size == FOR_PANDAS:
            others.append(Other("pandas", size, measured(pandas(dump), runs=1)))
        if size == FOR_PEERS:
            others += of_peers(generated, directory)
        if size == SIZES[-1]:
            found += stored(dump, generated, directory)
        dump.unlink()
    return [*found, *growth(ours), *(ratio(other, ours) for other in others)]


def growth(ours: dict[int, float]) -> list[Figure]:
    """How much more ten times as many records cost; a fixed part of it, the start, makes it less than ten."""
    sizes = sorted(ours)
    return [
        Figure(f"{larger:,} records against {size:,}", ours[larger] / ours[size], "times the time", 10.5)
        for size, larger in pairwise(sizes)
    ]


def of_peers(generated: Trace, directory: Path) -> list[Other]:
    """The public tools at the size that all of them can take."""
    programs = peers_accounting.programs(generated, directory / "peers")
    return [Other(program.name, FOR_PEERS, measured(program, runs=1)) for program in programs]


def ratio(other: Other, ours: dict[int, float]) -> Figure:
    """The time for a record of the largest dump against another's for one of the dump that it could take."""
    largest = max(ours)
    share = (ours[largest] / largest) / (other.run.seconds / other.records)
    told = (
        f"{other.name}, {other.records:,} records: {other.run.seconds:.1f} s, {other.run.mebibytes:.0f} MiB"
        f" (slurmkit {ours[other.records]:.1f} s); slurmkit's time per record, of {largest:,}"
    )
    return Figure(told, 100 * share, "% of that", 100 / TIMES_FASTER)


def stored(dump: Path, generated: Trace, directory: Path) -> list[Figure]:
    """The same records through the store."""
    environment = {"XDG_DATA_HOME": str(directory / "data"), "TZ": "UTC"}
    load = Program(
        name="sync",
        argv=[slurmkit(), "accounting", "sync", "--from-file", str(dump)],
        environment=environment,
        directory=directory,
    )
    loading = measured(load, runs=1)
    store = directory / "data" / "slurmkit" / "accounting"
    run = measured(usage(store, directory), runs=3)
    assert_true(directory / "usage.csv", trace.truth(generated))
    size = sum(path.stat().st_size for path in store.rglob("*.parquet")) / 2**20
    is_largest = len(generated) > 9_000_000
    return [
        Figure(f"{len(generated):,} records into the store", loading.seconds, "s"),
        Figure("into the store, peak memory", loading.mebibytes, "MiB", MEBIBYTES),
        Figure("the store", size, "MiB"),
        Figure("usage from the store", run.seconds, "s", STORED_SECONDS if is_largest else None),
        Figure("usage from the store, peak memory", run.mebibytes, "MiB", MEBIBYTES),
    ]


def slurmkit() -> str:
    """The command beside this interpreter."""
    return str(Path(sys.executable).with_name("slurmkit"))


def usage(source: Path, directory: Path) -> Program:
    """The report, of everything that there is."""
    words = ["report", "usage", "--by", "account,user", "--since", "2020-01-01", "--output", "usage.csv"]
    return Program(
        name="slurmkit report usage",
        argv=[slurmkit(), *words, "--source", str(source)],
        environment={"TZ": "UTC"},
        directory=directory,
    )


def pandas(dump: Path) -> Program:
    """What one would write first. It loses the records with odd names."""
    return Program(name="pandas", argv=[sys.executable, "-c", PANDAS, str(dump)])


def measured(program: Program, *, runs: int) -> Run:
    """The shortest of some runs, and the most memory of any.

    Raises:
        RuntimeError: it failed; its stderr stands in the message.
    """
    taken = [_once(program) for _ in range(runs)]
    return Run(min(run.seconds for run in taken), max(run.mebibytes for run in taken))


def _once(program: Program) -> Run:
    done = subprocess.run(
        [sys.executable, "-c", TIMER, *program.argv],
        env={**os.environ, **program.environment},
        cwd=program.directory,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{program.name} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    seconds, kilobytes = done.stdout.split()
    return Run(float(seconds), int(kilobytes) / 1024)


def assert_true(report: Path, expected: dict[tuple[str, str], Used]) -> None:
    """The report must say what the generator knows.

    Raises:
        RuntimeError: names the first few that differ.
    """
    with report.open(newline="") as file:
        rows = {(row["account"], row["user"]): row for row in csv.DictReader(file)}
    told = {key: (int(row["cpu_seconds"]), int(row["gpu_seconds"])) for key, row in rows.items()}
    wanted = {key: (used.cpu, used.gpu) for key, used in expected.items()}
    differing = [key for key in told.keys() | wanted.keys() if told.get(key) != wanted.get(key)]
    if differing:
        shown = "; ".join(f"{key}: {told.get(key)}, true is {wanted.get(key)}" for key in differing[:3])
        raise RuntimeError(f"{len(differing)} of {len(wanted)} rows are wrong: {shown}")
