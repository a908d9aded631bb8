"""The stacks of the ranks on this node, before a step that hangs is ended: `python3 -I -S launch.pyz stacks`.

Run once per node by a step beside the one that hangs. For each rank of SLURMKIT_ATTEMPT and SLURMKIT_STEP it
writes `rank-00000.txt` into SLURMKIT_STACKS: by py-spy where that is installed and allowed, by a signal that
the program answers where it uses slurmkit.progress, else, at last, by SIGABRT, at which Python writes its
stack to the rank's log. What /proc tells of the process and of those below it goes before each.
"""

from __future__ import annotations

import os
import signal
import time
from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.launch.files import write_atomically
from slurmkit.launch.progress import STACKS_FILE, STACKS_SIGNAL
from slurmkit.launch.tasks import step_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from subprocess import Popen

SAME_STEP = ("SLURM_JOB_ID", "SLURMKIT_ATTEMPT", "SLURMKIT_STEP")
SPY_WITHIN = 4.0
ANSWER_WITHIN = 2.0
ALL_WITHIN = 8.0
"""Seconds since the start until which the ranks of other nodes are waited for, before the first SIGABRT: the
rank that it ends takes all others with it."""
LOOK = 0.02
QUIET = 0.2
"""Seconds without a further byte after which an answer is complete."""
LONGEST = 1 << 20
MOST_BELOW = 32


class Process(NamedTuple):
    """What /proc tells of a process."""

    pid: int
    parent: int
    environ: Mapping[str, str]
    argv: list[str]
    is_python: bool
    caught: int
    """The signals that it handles, as bits."""
    answers_in: str | None
    """The open file into which it writes its stacks at `STACKS_SIGNAL`."""

    def catches(self, number: int) -> bool:
        """Whether it handles a signal."""
        return bool(self.caught >> (number - 1) & 1)


def main(_argv: list[str]) -> None:
    """Write the stacks of this node's ranks."""
    started = time.monotonic()
    folder = os.environ.get("SLURMKIT_STACKS")
    if not folder:
        raise SystemExit("slurmkit: SLURMKIT_STACKS is not set: this is started by slurmkit's agent")
    os.makedirs(folder, exist_ok=True)
    processes = read_processes()
    ranks = programs(processes, os.environ)
    texts = dump(ranks, started)
    for rank, process in ranks.items():
        text = "\n\n".join([facts(process, processes), texts.get(rank) or _no_stack(process), ""])
        write_atomically(_path(folder, rank), text.encode("utf-8", "backslashreplace"))
    last = [process for rank, process in ranks.items() if rank not in texts and _aborts(process)]
    if last:
        sizes = [one.environ.get("WORLD_SIZE", "") for one in ranks.values()]
        expected = max([int(size) for size in sizes if size.isdecimal()], default=0)
        _wait(lambda: _written(folder) >= expected, started + ALL_WITHIN)
        for process in last:
            _kill(process.pid, signal.SIGABRT)


def programs(processes: Iterable[Process], environ: Mapping[str, str]) -> dict[int, Process]:
    """The process of each rank whose stack tells most: of the step that `environ` names, by rank."""
    return {rank: foremost(ones) for rank, ones in candidates(processes, environ).items()}


def candidates(processes: Iterable[Process], environ: Mapping[str, str]) -> dict[int, list[Process]]:
    """The processes of each rank of the step that `environ` names; of torchrun, those of its workers.

    The agent's srun has the same variables, but no step of its own; this program has another one.
    """
    found = []
    for one in processes:
        step = step_of(one.environ)
        is_same = all(one.environ.get(name) == environ.get(name) for name in SAME_STEP)
        is_parent = any(word.endswith("/launch.pyz") for word in one.argv[:8])
        if is_same and step and step != step_of(environ) and not is_parent:
            found.append(one)
    workers = [one for one in found if "TORCHELASTIC_RUN_ID" in one.environ]
    by_rank: defaultdict[int, list[Process]] = defaultdict(list)
    for one in workers or found:
        rank = one.environ.get("RANK") or one.environ.get("SLURM_PROCID", "")
        if rank.isdecimal():
            by_rank[int(rank)].append(one)
    return {rank: by_rank[rank] for rank in sorted(by_rank)}


def foremost(ones: list[Process]) -> Process:
    """Of a rank's processes: one that answers, one that has a RANK of its own, a Python, the topmost."""
    depth = {}
    parents = {one.pid: one.parent for one in ones}
    for pid, parent in parents.items():
        depth[pid], up = 0, parent
        while up in parents and depth[pid] < len(parents):
            depth[pid], up = depth[pid] + 1, parents[up]
    return min(
        ones,
        key=lambda one: (
            # What a rank has forked has its open files, too, and is below it.
            one.answers_in is None,
            not one.environ.get("RANK"),
            not one.is_python,
            depth[one.pid],
            one.pid,
        ),
    )


def dump(ranks: Mapping[int, Process], started: float) -> dict[int, str]:
    """The stacks that can be had without ending any rank."""
    texts = _spy({rank: one for rank, one in ranks.items() if one.is_python}, started + SPY_WITHIN)
    asked = {
        rank: one.answers_in
        for rank, one in ranks.items()
        if rank not in texts and one.answers_in and one.catches(STACKS_SIGNAL)
    }
    before = {rank: _size(path) for rank, path in asked.items()}
    asked_at = time.monotonic()
    for rank in asked:
        _kill(ranks[rank].pid, STACKS_SIGNAL)
    sizes, changed = dict(before), {}

    def are_complete() -> bool:
        now = time.monotonic()
        for rank, path in asked.items():
            size = _size(path)
            if size != sizes[rank]:
                sizes[rank], changed[rank] = size, now
        return all(now - changed.get(rank, now) >= QUIET for rank in asked)

    _wait(are_complete, asked_at + ANSWER_WITHIN)
    for rank in changed:
        text = _read(asked[rank], before[rank])
        if text:
            texts[rank] = f"by signal {STACKS_SIGNAL} (faulthandler):\n{text.rstrip()}"
    return texts


def facts(process: Process, processes: Iterable[Process]) -> str:
    """What the kernel tells of a rank's program, of its threads and of the processes below it."""
    rank = process.environ.get("RANK") or process.environ.get("SLURM_PROCID")
    host = process.environ.get("SLURMD_NODENAME") or os.uname().nodename
    lines = [
        f"rank {rank} on {host}, {time.strftime('%Y-%m-%d %H:%M:%S %z')}",
        _line(process),
        *(f"  thread {name}" for name in _threads(process.pid)),
    ]
    children = defaultdict(list)
    for one in processes:
        children[one.parent].append(one)
    below = [(one, 1) for one in children[process.pid]]
    while below and len(lines) < 2 * MOST_BELOW:
        one, depth = below.pop(0)
        lines.append("  " * depth + _line(one))
        below[:0] = [(child, depth + 1) for child in children[one.pid]]
    return "\n".join(lines)


def read_processes() -> list[Process]:
    """All processes of this user on this node."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with suppress(OSError, ValueError, IndexError):  # it has just ended, or is not for us to read
                if os.stat(f"/proc/{name}").st_uid == os.geteuid():
                    found.append(_process(int(name)))
    return found


def _process(pid: int) -> Process:
    status = dict(line.split(":", 1) for line in _read(f"/proc/{pid}/status").splitlines() if ":" in line)
    words = _read(f"/proc/{pid}/environ").split("\0")
    program = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    return Process(
        pid=pid,
        parent=int(status["PPid"]),
        environ=dict(word.split("=", 1) for word in words if "=" in word),
        argv=_read(f"/proc/{pid}/cmdline").split("\0")[:-1],
        is_python=program.startswith(("python", "pypy")),
        caught=int(status["SigCgt"], 16),
        answers_in=_answers_in(pid),
    )


def _answers_in(pid: int) -> str | None:
    folder = f"/proc/{pid}/fd"
    for name in os.listdir(folder):
        with suppress(OSError):
            if STACKS_FILE in os.readlink(f"{folder}/{name}"):
                return f"{folder}/{name}"
    return None


def _spy(ranks: Mapping[int, Process], until: float) -> dict[int, str]:
    """What py-spy says of each, all at once."""
    import shutil
    import subprocess
    import tempfile

    program = shutil.which("py-spy")
    if program is None:
        return {}
    texts: dict[int, str] = {}
    running: dict[int, tuple[Popen[bytes], str]] = {}
    with tempfile.TemporaryDirectory(prefix="slurmkit-") as folder:
        for rank, process in ranks.items():
            path = os.path.join(folder, str(rank))
            with open(path, "wb") as out, suppress(OSError):
                argv = [program, "dump", "--pid", str(process.pid)]
                running[rank] = subprocess.Popen(argv, stdout=out, stderr=subprocess.DEVNULL), path
        _wait(lambda: all(one.poll() is not None for one, _ in running.values()), until)
        for rank, (spy, path) in running.items():
            if spy.poll() is None:
                spy.kill()
            text = _read(path) if spy.wait() == 0 else ""
            if text:
                texts[rank] = f"by py-spy:\n{text.rstrip()}"
    return texts


def _no_stack(process: Process) -> str:
    if _aborts(process):
        return "no stack here: SIGABRT was sent, at which the program writes its stack to the rank's log"
    return "no stack: the program answers no signal, and py-spy is not installed or not allowed here"


def _aborts(process: Process) -> bool:
    return process.catches(signal.SIGABRT)


def _line(process: Process) -> str:
    state = _read(f"/proc/{process.pid}/status").partition("State:")[2].partition("\n")[0].strip()
    command = " ".join(process.argv)[:200]
    return f"pid {process.pid}: {command!r}, state {state or 'gone'}, in {_where(process.pid)}"


def _threads(pid: int) -> list[str]:
    with suppress(OSError):
        threads = [int(name) for name in os.listdir(f"/proc/{pid}/task")]
        return [
            f"{one} {_read(f'/proc/{pid}/task/{one}/comm').strip()!r}, in {_where(f'{pid}/task/{one}')}"
            for one in sorted(threads)[1 : MOST_BELOW + 1]
        ]
    return []


def _where(place: object) -> str:
    """The kernel function that it waits in; "0" of one that runs, or where that is not told."""
    return _read(f"/proc/{place}/wchan") or "?"


def _kill(pid: int, number: int) -> None:
    with suppress(OSError):
        os.kill(pid, number)


def _wait(condition: Callable[[], bool], until: float) -> None:
    while not condition() and time.monotonic() < until:
        time.sleep(LOOK)


def _path(folder: str, rank: int) -> str:
    return os.path.join(folder, f"rank-{rank:05d}.txt")


def _written(folder: str) -> int:
    return sum(name.startswith("rank-") and name.endswith(".txt") for name in os.listdir(folder))


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _read(path: str, start: int = 0) -> str:
    try:
        with open(path, "rb") as file:
            if start:
                file.seek(start)
            return file.read(LONGEST).decode("utf-8", "backslashreplace")
    except OSError:
        return ""
