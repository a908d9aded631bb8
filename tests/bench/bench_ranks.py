"""512 ranks of one run on a testbed, each telling of its progress once a second: what parents and agent take.

PSS counts what is shared with other processes in part, RSS as a whole.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

from slurmkit.testbed import native
from slurmkit.testbed.daemons import wait_for
from slurmkit.testbed.options import Options
from tests.bench.measure import Figure

if TYPE_CHECKING:
    from collections.abc import Iterator

NODES, PER_NODE = 4, 128
RANKS = NODES * PER_NODE
SECONDS = 30.0
TICKS = os.sysconf("SC_CLK_TCK")

PROGRAM = """\
import time
from slurmkit import progress
for step in range(100_000):
    with progress.phase("compute"):
        time.sleep(1.0)
    progress.step(step, loss=1.0)
"""

JOB = """\
name = "ranks"
command = ["{python}", "-I", "-S", "-c", {program}]

[resources]
nodes = {nodes}
ntasks_per_node = {per_node}
cpus_per_task = 1
mem = 0
time = "30m"

[launch]
check_nodes = false
grace = "5s"
"""


def figures(directory: Path) -> list[Figure]:
    """Memory of a parent and of the agent, and the agent's share of a core."""
    testbed = native.up(Options(nodes=NODES, gpus="", cpus=PER_NODE), directory / "testbed")
    try:
        environment = {**os.environ, **testbed.environment, "XDG_STATE_HOME": str(directory / "state")}
        with submitted(directory, environment) as run:
            (written,) = run.glob("logs/*/progress.json")
            parents, agent = found(f"{run}/launch.pyz"), found("slurmkit.recovery.agent", str(run))
            before, begin = cpu_seconds(agent[0]), time.monotonic()
            time.sleep(SECONDS)
            share = (cpu_seconds(agent[0]) - before) / (time.monotonic() - begin)
            memory = [kilobytes(pid) for pid in parents]
            heard = json.loads(written.read_text())["ranks_heard"]
            return [
                Figure("parents of ranks", len(memory), "processes"),
                Figure("ranks heard by the agent", heard, "of 512"),
                Figure("memory of a parent, PSS, mean", mean(one["Pss"] for one in memory) / 1024, "MiB", 12),
                Figure(
                    "memory of a parent, RSS at its peak, most",
                    max(one["VmHWM"] for one in memory) / 1024,
                    "MiB",
                    12,
                ),
                Figure(
                    "memory of the agent, RSS at its peak", kilobytes(agent[0])["VmHWM"] / 1024, "MiB", 100
                ),
                Figure("the agent's share of a core", 100 * share, "%"),
            ]
    finally:
        native.down(testbed.root)


@contextmanager
def submitted(directory: Path, environment: dict[str, str]) -> Iterator[Path]:
    """The directory of a run all of whose ranks tell of their progress; cancelled afterwards."""
    root = Path(__file__).parents[2]
    program = f"import sys; sys.path.insert(0, {str(root)!r})\n{PROGRAM}"
    job = JOB.format(python=sys.executable, program=json.dumps(program), nodes=NODES, per_node=PER_NODE)
    (directory / "job.toml").write_text(job)
    slurmkit = str(Path(sys.executable).with_name("slurmkit"))

    def call(*words: str) -> str:
        done = subprocess.run(
            [slurmkit, *words], cwd=directory, env=environment, check=False, capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(f"slurmkit {' '.join(words)}: {done.stderr}")
        return done.stdout

    run = directory / "runs" / call("submit", "job.toml").split()[0]

    def all_tell() -> bool:
        return any(
            json.loads(path.read_text())["ranks_heard"] == RANKS for path in run.glob("logs/*/progress.json")
        )

    try:
        if not wait_for(all_tell, 180):
            logs = "".join(path.read_text(errors="replace")[-500:] for path in run.glob("logs/*.out"))
            raise RuntimeError(f"not all ranks have told of their progress:\n{logs}")
        yield run
    finally:
        call("cancel", run.name)


def found(*words: str) -> list[int]:
    """The processes among whose arguments are these."""
    pids = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        # srun's own arguments have them too.
        if all(word in arguments for word in words) and "srun" not in arguments[0]:
            pids.append(int(folder.name))
    return pids


def kilobytes(pid: int) -> dict[str, int]:
    """What a process takes, by the kernel's names: Pss now, and VmHWM, the most that was ever resident."""
    folder = Path("/proc", str(pid))
    lines = [
        *(folder / "smaps_rollup").read_text().splitlines()[1:],
        *(folder / "status").read_text().splitlines(),
    ]
    pairs = (line.partition(":") for line in lines if line.endswith(" kB"))
    return {name: int(rest.split()[0]) for name, _, rest in pairs}


def cpu_seconds(pid: int) -> float:
    """The time that a process has computed, its children's left out."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS
