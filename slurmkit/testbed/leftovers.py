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

DAEMONS = frozenset({"munged", "mariadbd", "slurmdbd", "slurmctld", "slurmscriptd", "slurmd"})
CLIENTS = frozenset({"srun", "salloc", "sbatch", "sattach", "sbcast", "strigger"})
# Set by slurmstepd for what runs on a node, and not by salloc for the shell it starts.
ON_A_NODE = "SLURMD_NODENAME="


def belonging(layout: Layout, cluster: str) -> set[Process]:
    """The testbed's daemons, step daemons, tasks and waiting clients; never the caller or its ancestors."""
    found = cgroup.members(cluster)
    steps: set[int] = set()
    for pid in all_pids():
        if _belongs(pid, layout):
            (steps if _program(pid) == "slurmstepd" else found).add(pid)
    found |= with_descendants(steps)
    return {process for pid in found - ancestors(os.getpid()) if (process := identify(pid))}


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


def end_all(layout: Layout, cluster: str) -> bool:
    """Kill everything that belongs to the testbed, until nothing does; False where something stays."""
    for _ in range(20):
        processes = belonging(layout, cluster)
        if not processes:
            return True
        cgroup.thaw(cluster)
        for process in processes:
            process.kill()
        for process in processes:
            process.wait(5)
    return False
