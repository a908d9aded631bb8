"""From the kill of a rank to the first line of every new one: slurmkit in place, torchrun, Slurm's requeue.

By turns, with the same program and number of ranks. No rank does anything at its end: nothing of it is grace.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.slurm.environment import strip
from slurmkit.testbed import native
from slurmkit.testbed.daemons import wait_for
from slurmkit.testbed.options import Options
from tests.bench.bench_start import TORCHRUN
from tests.bench.measure import Figure

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from slurmkit.testbed.testbed import Testbed

NODES, PER_NODE = 2, 2
RANKS = NODES * PER_NODE
TURNS, REQUEUES = 15, 3
SHORT, DEFAULT = 5, 120
"""Seconds of `cred_expire`: the testbed's own, and Slurm's default (man slurm.conf, AuthInfo)."""
BOUND = 300.0

WORKER = """\
import time
now = time.time()
import os, sys
rank = os.environ.get("RANK") or os.environ["SLURM_PROCID"]
name = os.path.join(sys.argv[1], f"{now}-{rank}-{os.getpid()}")
os.close(os.open(name, os.O_CREAT))
while True:
    time.sleep(60)
"""

JOB = """\
name = "recovery"
command = {command}

[resources]
nodes = {nodes}
ntasks_per_node = {per_node}
mem = "100M"
time = "1h"

[checkpoint]
path = "checkpoints"

[retry]
restarts = 1000
without_progress = 1000
"""

REQUEUED = """\
#!/bin/bash
srun --kill-on-bad-exit=1 {command} || scontrol requeue "$SLURM_JOB_ID"
"""
"""As jobs do it that requeue themselves."""


class Rank(NamedTuple):
    """The first line of a rank: when, and by whom."""

    at: float
    number: int
    pid: int


class Ranks(NamedTuple):
    """The ranks of one way to be started again, each start of which leaves a file for each of them."""

    moments: Path

    def newest(self) -> list[Rank]:
        """Those of the last start, once all of them run."""
        found = sorted(self.started())[-RANKS:]
        return sorted(found, key=lambda rank: rank.number)

    def started(self) -> list[Rank]:
        """All ranks of all starts."""
        told = (path.name.split("-") for path in self.moments.iterdir())
        return [Rank(float(at), int(number), int(pid)) for at, number, pid in told]

    def wait(self, starts: int) -> None:
        """Wait until so many starts have got all their ranks going.

        Raises:
            RuntimeError: they do not come.
        """
        if not wait_for(lambda: len(self.started()) >= starts * RANKS, BOUND):
            raise RuntimeError(f"{self.moments.name}: {len(self.started())} ranks have begun")

    def turnaround(self) -> float:
        """Kill the last rank; seconds until the last of the new ones writes its first line."""
        starts = len(self.started()) // RANKS
        begin = time.time()
        os.kill(self.newest()[-1].pid, signal.SIGKILL)
        self.wait(starts + 1)
        last = self.newest()
        if [rank.number for rank in last] != list(range(RANKS)):
            raise RuntimeError(f"{self.moments.name}: not every rank has begun once: {last}")
        return max(rank.at for rank in last) - begin


def figures(directory: Path) -> list[Figure]:
    """The turnaround of each, and how many times as long Slurm's requeue takes as it is by default."""
    (directory / "worker.py").write_text(WORKER)
    with ExitStack() as stack:
        short, default = (testbed(stack, directory, seconds) for seconds in (SHORT, DEFAULT))
        ways = {
            "restart in place by slurmkit": stack.enter_context(in_place(directory, short)),
            **(
                {"torchrun --max-restarts": stack.enter_context(torchrun(directory))}
                if TORCHRUN.exists()
                else {}
            ),
        }
        seldom = {
            f"Slurm's requeue, cred_expire={SHORT}": stack.enter_context(requeued(directory, short)),
            f"Slurm's requeue, cred_expire={DEFAULT}": stack.enter_context(requeued(directory, default)),
        }
        taken: dict[str, list[float]] = {name: [] for name in (*ways, *seldom)}
        for turn in range(TURNS + 1):
            for name, ranks in ways.items():
                taken[name].append(ranks.turnaround())
            if turn < REQUEUES:
                for name, ranks in list(seldom.items())[: 1 if turn else 2]:
                    taken[name].append(ranks.turnaround())
    return told(taken, warm=tuple(ways))


def told(taken: Mapping[str, list[float]], *, warm: tuple[str, ...]) -> list[Figure]:
    """The median of each with the extremes; of those that are warm, without the first turn."""
    seconds = {name: times[1:] if name in warm else times for name, times in taken.items()}
    ours, *_, slowest = (median(times) for times in seconds.values())
    return [
        *(
            Figure(
                f"{name}, {RANKS} ranks, median of {len(times)}",
                1000 * median(times),
                "ms",
                1000.0 if at == 0 else None,
                (1000 * min(times), 1000 * max(times)),
            )
            for at, (name, times) in enumerate(seconds.items())
        ),
        Figure(
            "restart in place against Slurm's requeue as it is by default", 100 * ours / slowest, "%", 2.0
        ),
    ]


def testbed(stack: ExitStack, directory: Path, cred_expire: int) -> Testbed:
    """A testbed of its own for each: how long credentials are valid is one of the cluster's settings."""
    options = Options(nodes=NODES, gpus="", cpus=2 * PER_NODE, cred_expire=cred_expire)
    made = native.up(options, directory / f"testbed-{cred_expire}")
    stack.callback(native.down, made.root)
    return made


def prepared(directory: Path, name: str) -> tuple[Path, list[str]]:
    """A folder for the first lines, and the command of every rank."""
    moments = directory / f"moments of {name}"
    moments.mkdir()
    return moments, [sys.executable, "-I", "-S", str(directory / "worker.py"), str(moments)]


@contextmanager
def in_place(directory: Path, testbed: Testbed) -> Iterator[Ranks]:
    """A run of slurmkit's."""
    moments, command = prepared(directory, "slurmkit")
    (directory / "job.toml").write_text(
        JOB.format(command=json.dumps(command), nodes=NODES, per_node=PER_NODE)
    )
    environment = {
        **strip(os.environ)[0],
        **testbed.environment,
        "XDG_STATE_HOME": str(directory / "state"),
    }
    slurmkit = str(Path(sys.executable).with_name("slurmkit"))

    def call(*words: str) -> str:
        return subprocess.run(
            [slurmkit, *words], cwd=directory, env=environment, check=True, stdout=subprocess.PIPE, text=True
        ).stdout

    run = call("submit", "job.toml").split()[0]
    ranks = Ranks(moments)
    ranks.wait(1)
    yield ranks
    call("cancel", run)


@contextmanager
def torchrun(directory: Path) -> Iterator[Ranks]:
    """All ranks on this machine, without Slurm; their program is started as under slurmkit."""
    moments, command = prepared(directory, "torchrun")
    argv = [str(TORCHRUN), "--standalone", f"--nproc-per-node={RANKS}", "--max-restarts=1000", "--no-python"]
    with (directory / "torchrun.log").open("wb") as log:
        process = subprocess.Popen([*argv, *command], cwd=directory, stdout=log, stderr=log)
    ranks = Ranks(moments)
    try:
        ranks.wait(1)
        yield ranks
    finally:
        process.terminate()
        process.wait()


@contextmanager
def requeued(directory: Path, testbed: Testbed) -> Iterator[Ranks]:
    """A job that has Slurm requeue it when its step fails."""
    moments, command = prepared(directory, testbed.root.name)
    script = directory / f"{testbed.root.name}.sh"
    script.write_text(REQUEUED.format(command=" ".join(f"'{word}'" for word in command)))
    shape = [f"--nodes={NODES}", f"--ntasks-per-node={PER_NODE}", "--mem=100M", "--requeue", "--overcommit"]
    done = testbed.command(["sbatch", "--parsable", *shape, "--output=/dev/null", str(script)])
    ranks = Ranks(moments)
    ranks.wait(1)
    yield ranks
    testbed.command(["scancel", done.stdout.strip()])
