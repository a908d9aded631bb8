"""A long queue and many nodes, through Slurm's commands and through pyslurm, each in a process of its own.

10,000 pending jobs and 1,000 nodes on a testbed: the nodes are down, as nobody plays them. Needs pyslurm;
without it there is nothing to set side by side.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.machinery import PathFinder
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.testbed import native
from slurmkit.testbed.options import Options
from tests.bench.measure import Figure

if TYPE_CHECKING:
    from pathlib import Path

    from slurmkit.testbed.testbed import Testbed

JOBS, NODES, RUNS = 10_000, 1_000, 7
SHAPE = "CPUs=64 RealMemory=256000 Gres=gpu:a100:8"

LISTING = """\
import json, os, resource, sys, time
begin = time.perf_counter()
from slurmkit.slurm.clock import SystemClock
from slurmkit.slurm.commands import Commands
commands = Commands()
if sys.argv[1] == "pyslurm":
    from slurmkit.slurm.pyslurm import PySlurm
    slurm = PySlurm(commands, clock=SystemClock())
else:
    slurm = commands
if sys.argv[2] == "pyslurm's own nodes":
    import pyslurm
    ask = lambda: pyslurm.Nodes.load().values()
else:
    ask = getattr(slurm, sys.argv[2])
found = len(list(ask()))
first = time.perf_counter() - begin
begin = time.perf_counter()
ask()
again = time.perf_counter() - begin
own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(json.dumps([found, first, again, own, children]))
"""
"""The first listing with all imports, a second one, and the peak memory of this process and the command."""

FILLING = """\
import pathlib, sys
import pyslurm
pathlib.Path("job.sh").write_text("#!/bin/bash\\ntrue\\n")
for number in range(int(sys.argv[1])):
    pyslurm.JobSubmitDescription(
        name=f"job{number}", script="job.sh", priority=0, standard_output="/dev/null", environment={"A": "b"},
        memory_per_cpu="100M", comment=f"slurmkit:run-{number}",
    ).submit()
"""

CASES = (("jobs", "commands"), ("jobs", "pyslurm"), ("nodes", "commands"), ("pyslurm's own nodes", "pyslurm"))


class Line(NamedTuple):
    """One row of the table: seconds, MiB, and RPCs of one listing."""

    what: str
    client: str
    found: int
    first: float
    again: float
    memory: float
    command_memory: float
    rpcs: int


def figures(directory: Path) -> list[Figure]:
    """Print the table; the figures are pyslurm's part of the commands' time."""
    if PathFinder.find_spec("pyslurm") is None:
        print(
            "queue: pyslurm is not installed, so there is nothing to compare (docker/pyslurm)",
            file=sys.stderr,
        )
        return []
    testbed = native.up(
        Options(
            nodes=1, gpus="a100:8", accounting=False,
            config=(
                "MaxJobCount=20000",
                f"NodeName=x[1-{NODES - 1}] NodeAddr=127.0.0.1 {SHAPE} State=DOWN",
            ),
        ),
        directory / "t",
    )  # fmt: skip
    try:
        fill(testbed)
        lines = measure(testbed)
    finally:
        native.down(testbed.root)
    print(table(lines))
    by_commands, by_pyslurm = lines[:2]
    name = "queue of 10,000 jobs, pyslurm against commands"
    return [
        Figure(
            f"{name}, first listing",
            by_pyslurm.first / by_commands.first,
            "x",
        ),
        Figure(f"{name}, again", by_pyslurm.again / by_commands.again, "x"),
    ]


def fill(testbed: Testbed) -> None:
    """Submit the jobs, held, in one process of pyslurm's: ten thousand sbatch would take many minutes."""
    environment = {**os.environ, **testbed.environment}
    subprocess.run([sys.executable, "-c", FILLING, str(JOBS)], env=environment, check=True, cwd=testbed.root)
    listed = testbed.command(["squeue", "--noheader", "--format=%i"], timeout=120).stdout.splitlines()
    if len(listed) != JOBS:
        raise RuntimeError(f"the queue holds {len(listed)} jobs, not the {JOBS} that were submitted")


def measure(testbed: Testbed) -> list[Line]:
    """The medians of several processes of each case, in turn, and what slurmctld counted of each."""
    told: dict[tuple[str, str], list[list[float]]] = {case: [] for case in CASES}
    for _ in range(RUNS):
        for what, client in CASES:
            before = rpcs(testbed)
            done = subprocess.run(
                [sys.executable, "-c", LISTING, client, what],
                env={**os.environ, **testbed.environment},
                check=True,
                stdout=subprocess.PIPE,
                text=True,
            )
            told[what, client].append([*json.loads(done.stdout), (rpcs(testbed) - before) / 2])
    lines = []
    for (what, client), runs in told.items():
        found, first, again, own, children, asked = map(median, zip(*runs, strict=True))
        lines.append(Line(what, client, int(found), first, again, own / 1024, children / 1024, int(asked)))
    return lines


def rpcs(testbed: Testbed) -> int:
    """Requests for jobs, nodes, partitions and configuration that slurmctld has counted."""
    text = testbed.command(["sdiag"]).stdout
    wanted = r"REQUEST_(?:JOB|NODE|PARTITION|BUILD|JOB_USER|JOB_STEP)_(?:INFO|INFO_SINGLE)\b"
    return sum(int(count) for count in re.findall(rf"{wanted}.*?count:(\d+)", text))


def table(lines: list[Line]) -> str:
    """The lines as aligned text."""
    rows = [("what", "client", "records", "first s", "again s", "MiB", "MiB of the command", "RPCs")]
    rows += [
        (one.what, one.client, str(one.found), f"{one.first:.2f}", f"{one.again:.2f}", f"{one.memory:.0f}",
         f"{one.command_memory:.0f}", str(one.rpcs))
        for one in lines
    ]  # fmt: skip
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
