"""Finding and ending every process that belongs to a testbed, whatever its records say."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from slurmkit.testbed import cgroup
from slurmkit.testbed.process import all_pids, ancestors, identify, read_items, with_descendants

if TYPE_CHECKING:
    from slurmkit.testbed.layout import Layout
    from slurmkit.testbed.process import Process
    from slurmkit.testbed.testbed import Testbed

DAEMONS = frozenset(
    {
        "munged",
        "mariadb-install",
        "mariadbd",
        "slurmdbd",
        "slurmctld",
        "slurmscriptd",
        "slurmrestd",
        "slurmd",
    }
)
CLIENTS = frozenset({"srun", "salloc", "sbatch", "sattach", "sbcast", "strigger"})
# Set by slurmstepd for what runs on a node, and not by salloc for the shell it starts.
ON_A_NODE = "SLURMD_NODENAME="
ROUNDS = 20


def belonging(testbed: Testbed) -> set[Process]:
    """The testbed's daemons, step daemons, tasks and waiting clients; never the caller or its ancestors."""
    found = cgroup.members(testbed.cluster)
    steps: set[int] = set()
    for pid in all_pids():
        if _belongs(pid, testbed.layout):
            (steps if _program(pid) == "slurmstepd" else found).add(pid)
    found |= with_descendants(steps)
    return _identified(found - ancestors(os.getpid()))


def strays(testbed: Testbed) -> set[Process]:
    """Daemons of the testbed that no record knows: whoever started them was killed before writing it down."""
    known = {process.pid for daemon in testbed.daemons().values() if (process := daemon.process())}
    found = {pid for pid in all_pids() if _program(pid) in DAEMONS and _belongs(pid, testbed.layout)}
    return _identified(found - with_descendants(known))


def _identified(pids: set[int]) -> set[Process]:
    return {process for pid in pids if (process := identify(pid))}


def _belongs(pid: int, layout: Layout) -> bool:
    program = _program(pid)
    conf = f"SLURM_CONF={layout.conf}"
    if program in DAEMONS:
        words = read_items(pid, "cmdline")
        return any(f"{layout.base}/" in word for word in words) or conf in read_items(pid, "environ")
    if program == "slurmstepd":
        return _holds_file_under(pid, layout.base)
    environment = read_items(pid, "environ")
    if conf not in environment:
        return False
    return program in CLIENTS or any(item.startswith(ON_A_NODE) for item in environment)


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return ""


def _holds_file_under(pid: int, base: Path) -> bool:
    prefix = f"{base.resolve()}/"
    try:
        links = [Path(f"/proc/{pid}/cwd"), *Path(f"/proc/{pid}/fd").iterdir()]
        return any(str(link.readlink()).startswith(prefix) for link in links)
    except OSError:
        return False


def end_all(testbed: Testbed) -> bool:
    """Kill everything that belongs to the testbed, until nothing does; False where something stays."""
    for _ in range(ROUNDS):
        processes = belonging(testbed)
        if not processes:
            return True
        cgroup.thaw(testbed.cluster)
        _end(processes)
    return False


def end_strays(testbed: Testbed) -> None:
    """Kill the daemons that no record knows; jobs stay."""
    _end(strays(testbed))


def _end(processes: set[Process]) -> None:
    for process in processes:
        process.kill()
    for process in processes:
        process.wait(5)
