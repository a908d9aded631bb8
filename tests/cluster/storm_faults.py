"""What the storm does to a run: each kind of fault, what it needs, which diagnosis is to explain it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.cluster.site import until
from tests.cluster.storm_view import above, host_namespace, of_host

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping

    from slurmkit.testbed.process import Process
    from slurmkit.testbed.testbed import Testbed
    from tests.cluster.storm_view import Rank, View

GOES_ON = 10
"""Steps that show that a training goes on though a daemon is away."""
HOG = """\
import os, sys
open(sys.argv[1], "w").write(str(os.getpid()))
held = []
while True:
    held.append(bytearray(os.urandom(1 << 16)) * 64)
"""
"""What takes all memory that there is."""


class Target(NamedTuple):
    """What is aimed at, and with what luck; `spoilt` are the checkpoints destroyed, and when."""

    view: View
    chance: random.Random
    spoilt: dict[Path, float]

    @property
    def testbed(self) -> Testbed:
        """The cluster under the run."""
        return self.view.testbed

    def rank(self, number: int | None = None) -> Rank:
        """A rank of the running step: the one of this number, or any."""
        until(lambda: len(self.view.ranks()) > (number or 0), "the ranks run")
        ranks = self.view.ranks()
        return self.chance.choice(ranks) if number is None else ranks[number]

    def scontrol(self, *words: str) -> None:
        """Something that an administrator asks for."""
        done = self.testbed.command(["scontrol", *words])
        assert done.returncode == 0, done.stderr


class Fault(NamedTuple):
    """A kind of fault. `strike` says what it hit, once all is mended that the run cannot mend itself."""

    strike: Callable[[Target], str]
    explained_by: frozenset[str] = frozenset()
    """Kinds of diagnosis; none where the run must not even notice."""
    weight: int = 3
    steps: int = 0
    """Steps that the training does while the fault takes its time."""
    lacks: Callable[[Testbed, Path], str | None] = lambda _testbed, _checkpoints: None
    """Why this machine cannot have it, given the folder of checkpoints."""


def kill_rank(target: Target) -> str:
    rank = target.rank()
    rank.process.kill()
    return f"rank {rank.number}"


def kill_stepd(target: Target) -> str:
    rank = target.rank()
    stepd = above(rank.process, lambda words: words[:1] != [] and words[0].startswith("slurmstepd"))
    assert stepd
    stepd.kill()
    return f"slurmstepd of rank {rank.number} on {rank.node}"


def kill_node(target: Target) -> str:
    """A node of the step dies, but not the one with the agent."""
    host = target.view.events("attempt-started")[-1]["host"]
    until(target.view.ranks, "the ranks run")
    return end_node(
        target, target.chance.choice([one.node for one in target.view.ranks() if one.node != host])
    )


def kill_batch_host(target: Target) -> str:
    """The node with the agent dies."""
    host: str = target.view.events("attempt-started")[-1]["host"]
    return end_node(target, host)


def end_node(target: Target, node: str) -> str:
    """All processes of a node die at once. It comes back once Slurm has found that it is gone."""
    testbed = target.testbed
    slurmd = testbed.pid(f"slurmd-{node}")
    assert slurmd
    host = host_namespace(slurmd)
    while doomed := of_host(host):
        for process in doomed:
            process.kill()
    try:
        until(lambda: "State=DOWN" in show_node(testbed, node), f"{node} is down")
    finally:
        testbed.start(f"slurmd-{node}")
    return node


def show_node(testbed: Testbed, node: str) -> str:
    return testbed.command(["scontrol", "show", "node", node]).stdout


def kill_agent(target: Target) -> str:
    agent = target.view.agent()
    assert agent
    agent.kill()
    return "agent"


def wait_until_saved(target: Target) -> None:
    """Wait until slurmctld has written down that the job runs, and its step.

    Killed before, it would launch the job once more, on a node that has it already, and drain that node; of a
    step that it has forgotten it says that there is no such job. For a new step alone it does not write.
    """
    saved = target.testbed.layout.base / "state" / "job_state"
    now = time.time()
    change = ["scontrol", "update", f"JobId={target.view.job}", f"AdminComment={now}"]
    assert target.testbed.command(change).returncode == 0
    until(lambda: saved.exists() and saved.stat().st_mtime > now, "slurmctld has saved its state")


def kill_daemon(name: str) -> Callable[[Target], str]:
    def strike(target: Target) -> str:
        wait_until_saved(target)
        with away(target.testbed, name):
            wait_for_steps(target.view, GOES_ON)
        return name

    return strike


def kill_rank_without_slurmctld(target: Target) -> str:
    """A rank dies while nobody can start another step; slurmctld comes back a few seconds later."""
    wait_until_saved(target)
    with away(target.testbed, "slurmctld"):
        since = time.time()
        hit = kill_rank(target)
        until(lambda: target.view.events("decided", since=since), "the agent decides without slurmctld")
        until(lambda: time.time() - since > 5, "slurmctld is away for 5 s")
    return f"{hit}, without slurmctld"


def away(testbed: Testbed, name: str) -> ExitStack:
    """A daemon that is killed, and started again at the end of the block."""
    testbed.kill(name)
    stack = ExitStack()
    stack.callback(testbed.start, name)
    return stack


def wait_for_steps(view: View, count: int) -> None:
    """Wait until so many more steps are done."""
    before = view.step
    until(lambda: view.step >= before + count or view.has_ended, f"step {before + count} is done")


def fill_memory(target: Target) -> str:
    """Another process fills the step's memory on a node, until the kernel kills a rank for want of it."""
    rank = target.rank()
    # The hog would be the kernel's first choice, as the largest.
    Path(f"/proc/{rank.process.pid}/oom_score_adj").write_text("1000")
    hog = subprocess.Popen(
        [sys.executable, "-c", HOG, str(memory_cgroup(rank.process) / "cgroup.procs")],
        stderr=subprocess.DEVNULL,
    )
    with hog:
        try:
            until(lambda: not rank.process.is_alive(), "the kernel kills the rank")
        finally:
            hog.kill()
    return f"memory around rank {rank.number}"


def memory_cgroup(process: Process) -> Path:
    """Where a process is in the tree of the memory controller."""
    lines = Path(f"/proc/{process.pid}/cgroup").read_text().splitlines()
    (path,) = (line.split(":", 2)[2] for line in lines if line.split(":", 2)[1] == "memory")
    return Path("/sys/fs/cgroup/memory") / path.lstrip("/")


def lower_time_limit(target: Target) -> str:
    """The job's time ends in less than a minute; Slurm counts whole minutes from its start."""
    view = target.view
    started = view.events("attempt-started")[-1]["time"]
    minutes = int((time.time() - started + 20) // 60) + 1
    job, since = view.job, time.time()
    target.scontrol("update", f"jobid={job}", f"timelimit={minutes}")
    try:
        until(lambda: view.events("attempt-started", since=since), "the run goes on after its time", 180)
    finally:
        target.scontrol("update", f"jobid={view.job}", "timelimit=120")
    return f"job {job}, after {minutes} min"


def requeue(target: Target) -> str:
    job = target.view.job
    target.scontrol("requeue", job)
    return f"job {job}"


def preempt(target: Target) -> str:
    """A job of the urgent partition takes all nodes for a moment."""
    testbed, view = target.testbed, target.view
    sbatch = ["sbatch", "--parsable", "--partition=urgent", f"--nodes={len(testbed.nodes)}"]
    asked = ["--gpus-per-node=8", "--mem=100M", "--time=5", "--output=/dev/null", "--wrap=sleep 1"]
    done = testbed.command([*sbatch, *asked])
    assert done.returncode == 0, done.stderr
    job = done.stdout.strip()

    def is_over() -> bool:
        state = testbed.command(["squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T"])
        return state.stdout.strip() == "COMPLETED"

    until(is_over, "the urgent job has had the nodes")
    return f"job {view.job}, by job {job}"


def cancel_step(target: Target) -> str:
    view = target.view
    told = Path(f"/proc/{target.rank().process.pid}/environ").read_bytes().split(b"\0")
    (number,) = (item.partition(b"=")[2].decode() for item in told if item.startswith(b"SLURM_STEP_ID="))
    step = f"{view.job}.{number}"
    done = target.testbed.command(["scancel", step])
    assert done.returncode == 0, done.stderr
    return f"step {step}"


def stop_rank(target: Target) -> str:
    rank = target.rank()
    rank.process.kill(signal.SIGSTOP)
    return f"rank {rank.number}"


def cut_save(target: Target) -> str:
    """Rank 0 dies while a checkpoint is written, of which a piece is then cut short."""
    view = target.view
    end = time.monotonic() + 60
    while True:
        assert time.monotonic() < end, "no checkpoint is written"
        new = [path for path in view.saved(complete=False) if is_being_written(view.pieces(path))]
        if new:
            rank = target.rank(0)
            rank.process.kill(signal.SIGSTOP)
            if new[-1] in view.saved(complete=False):
                break
            rank.process.kill(signal.SIGCONT)
        time.sleep(0.005)
    target.spoilt[new[-1]] = time.time()
    cut(target.chance, target.chance.choice(view.pieces(new[-1])))
    rank.process.kill()
    return new[-1].name


def is_being_written(pieces: list[Path]) -> bool:
    try:
        return any(time.time() - piece.stat().st_mtime < 1 for piece in pieces)
    except FileNotFoundError:
        return False  # it is an old one that is being removed


def damage(target: Target) -> str:
    """The newest complete checkpoint is damaged, and a rank dies before there is a newer one."""
    rank = target.rank(0)
    rank.process.kill(signal.SIGSTOP)
    newest = target.view.saved(complete=True)[-1]
    piece = target.chance.choice(target.view.pieces(newest))
    how = target.chance.choice((cut, remove, overwrite))
    target.spoilt[newest] = time.time()
    how(target.chance, piece)
    rank.process.kill()
    return f"{newest.name}/{piece.name} {how.__name__}"


def cut(chance: random.Random, file: Path) -> None:
    size = file.stat().st_size
    os.truncate(file, chance.randrange(size) if size else 0)


def remove(_chance: random.Random, file: Path) -> None:
    file.unlink()


def overwrite(chance: random.Random, file: Path) -> None:
    with file.open("r+b") as opened:
        opened.seek(chance.randrange(file.stat().st_size))
        opened.write(bytes([chance.randrange(256) for _ in range(64)]))


def fill_disk(target: Target) -> str:
    """No byte is left for the checkpoints; space comes back once the run has met that."""
    view, since = target.view, time.time()
    filler = view.checkpoints.parent / "filler"
    try:
        with filler.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(1 << 16))
            except OSError:
                pass
        until(lambda: view.events("diagnosed", since=since), "the run meets the full disk")
    finally:
        filler.unlink()
    return "checkpoints' disk"


def lacks_cgroups(testbed: Testbed, _checkpoints: Path) -> str | None:
    return None if testbed.cgroup else "jobs are not held in cgroups here"


def lacks_names(testbed: Testbed, _checkpoints: Path) -> str | None:
    return None if testbed.named else "nodes have no namespaces of their own here"


def lacks_own_disk(_testbed: Testbed, checkpoints: Path) -> str | None:
    if checkpoints.parent.stat().st_dev != checkpoints.parent.parent.stat().st_dev:
        return None
    return "no file system can be mounted here"


def kinds(*names: str) -> frozenset[str]:
    return frozenset(names)


FAULTS: Mapping[str, Fault] = {
    "rank killed": Fault(kill_rank, kinds("killed"), 8),
    "slurmstepd killed": Fault(kill_stepd, kinds("killed", "node-died", "launch-failed"), 3),
    "node dies": Fault(kill_node, kinds("node-died"), 2, lacks=lacks_names),
    "batch host dies": Fault(kill_batch_host, kinds("node-died", "agent-died"), 1, lacks=lacks_names),
    "agent killed": Fault(kill_agent, kinds("agent-died"), 3),
    "slurmctld killed": Fault(kill_daemon("slurmctld"), weight=2),
    "slurmdbd killed": Fault(kill_daemon("slurmdbd"), weight=2),
    "rank killed, no slurmctld": Fault(kill_rank_without_slurmctld, kinds("killed"), 2),
    "out of memory": Fault(fill_memory, kinds("host-out-of-memory"), 2, lacks=lacks_cgroups),
    "time limit": Fault(lower_time_limit, kinds("time-limit"), 1, steps=700),
    "requeued": Fault(requeue, kinds("requeued"), 2),
    "preempted": Fault(preempt, kinds("preempted"), 2),
    "save cut short": Fault(cut_save, kinds("killed"), 5),
    "checkpoint damaged": Fault(damage, kinds("killed"), 5),
    "disk full": Fault(fill_disk, kinds("disk-full"), 2, lacks=lacks_own_disk),
    "rank stopped": Fault(stop_rank, kinds("hung"), 1),
    "step cancelled": Fault(cancel_step, kinds("killed", "cancelled"), 3),
}
"""Every kind of fault; `weight` is how often it comes in a long storm, beside its one time for sure."""
