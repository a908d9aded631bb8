"""A signal for the ranks on this node: `python3 -I -S launch.pyz signal USR1`.

Run once per node by a step beside the job's own, with its SLURMKIT_ATTEMPT and SLURMKIT_STEP. Only a program
that catches the signal gets it, any other would die of it. One JSON line per rank says what was done.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from slurmkit.launch.caught import has
from slurmkit.launch.plain_json import encode
from slurmkit.launch.request import number_of
from slurmkit.launch.stacks import candidates, foremost, read_processes
from slurmkit.launch.told import is_marked

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from slurmkit.launch.stacks import Process


def main(argv: list[str]) -> None:
    """Send the signal that is the last word, and say to whom."""
    number = number_of(argv[-1])
    if number is None:
        raise SystemExit(f"slurmkit: there is no signal {argv[-1]!r}")
    processes = read_processes()
    for rank, process in receivers(processes, os.environ, number).items():
        is_caught = has(process.caught, number) and not has_had(process, processes)
        told = {
            "rank": rank,
            "host": process.environ.get("SLURMD_NODENAME") or os.uname().nodename,
            "pid": process.pid,
            "sent": is_caught and _send(process.pid, number),
        }
        sys.stdout.write(f"{encode(told)}\n")


def receivers(processes: Iterable[Process], environ: Mapping[str, str], number: int) -> dict[int, Process]:
    """The process of each rank that is to have a signal: of those that catch it the foremost, if any does."""
    found = {}
    for rank, ones in candidates(processes, environ).items():
        found[rank] = foremost([one for one in ones if has(one.caught, number)] or ones)
    return found


def has_had(process: Process, processes: Iterable[Process]) -> bool:
    """Whether the rank's parent has sent it the checkpoint signal, for it was told before the agent."""
    parents = {one.pid: one.parent for one in processes}
    above: int | None = process.pid
    while above is not None:
        if is_marked(above):
            return True
        above = parents.get(above)
    return False


def _send(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except OSError:  # it has just ended
        return False
    return True
