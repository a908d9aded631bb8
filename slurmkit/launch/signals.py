"""A signal for the ranks on this node: `python3 -I -S launch.pyz signal USR1`.

Run once per node by a step beside the job's own, with its SLURMKIT_ATTEMPT and SLURMKIT_STEP. Only a program
that catches the signal gets it, any other would die of it. One JSON line per rank says what was done.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from slurmkit.launch.plain_json import encode
from slurmkit.launch.request import number_of
from slurmkit.launch.stacks import candidates, foremost, read_processes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from slurmkit.launch.stacks import Process


def main(argv: list[str]) -> None:
    """Send the signal that is the last word, and say to whom."""
    number = number_of(argv[-1])
    if number is None:
        raise SystemExit(f"slurmkit: there is no signal {argv[-1]!r}")
    for rank, process in receivers(read_processes(), os.environ, number).items():
        told = {
            "rank": rank,
            "host": process.environ.get("SLURMD_NODENAME") or os.uname().nodename,
            "pid": process.pid,
            "sent": process.catches(number) and _send(process.pid, number),
        }
        sys.stdout.write(f"{encode(told)}\n")


def receivers(processes: Iterable[Process], environ: Mapping[str, str], number: int) -> dict[int, Process]:
    """The process of each rank that is to have a signal: of those that catch it the foremost, if any does."""
    found = {}
    for rank, ones in candidates(processes, environ).items():
        found[rank] = foremost([one for one in ones if one.catches(number)] or ones)
    return found


def _send(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except OSError:  # it has just ended
        return False
    return True
