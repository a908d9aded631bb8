"""What a rank's parent does at SIGTERM in a run that saves checkpoints. Loaded when one comes.

At a preemption with a grace time Slurm tells the tasks alone; a program that does not handle SIGTERM would be
gone before it has saved anything.
"""

from __future__ import annotations

import os
import time

from slurmkit.launch.caught import caught, has, passes_on
from slurmkit.launch.notice import send
from slurmkit.launch.request import number_of

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing itself costs a rank milliseconds
    import signal
    from collections.abc import Mapping
else:
    import _signal as signal

MARK = "slurmkit-told"
"""Name of a parent whose program has had the checkpoint signal: it is not to get it once more."""


def at_sigterm(child: int, environ: Mapping[str, str], *, is_alone: bool) -> None:
    """Tell the agent; where the parent `is_alone` in being told, pass SIGTERM on, or what stands for it.

    A program that handles the checkpoint signal and not SIGTERM gets the former, and only once: not where
    the agent has asked for a checkpoint already.
    """
    send("rank-told", environ, time.time(), {"signal": int(signal.SIGTERM)})
    if not is_alone:
        return
    number = number_of(environ["SLURMKIT_CHECKPOINT_SIGNAL"])
    receivers = in_its_place(child, number) if number else []
    if not receivers:
        _kill(child, signal.SIGTERM)
    elif number and not (is_marked() or os.path.exists(environ.get("SLURMKIT_CHECKPOINT_REQUEST", ""))):
        _mark()
        for pid in receivers:
            _kill(pid, number)


def in_its_place(child: int, number: int) -> list[int]:
    """The processes that get this signal in the place of SIGTERM: a shell in between may handle neither."""
    first, mask = child, caught(child)
    while passes_on(mask) and children(first):
        first = children(first)[0]
        mask = caught(first)
    return [] if has(mask, signal.SIGTERM) else _topmost(child, number)


def _topmost(pid: int, number: int) -> list[int]:
    if has(caught(pid), number):
        return [pid]
    return [one for below in children(pid) for one in _topmost(below, number)]


def children(pid: int) -> list[int]:
    """The processes that a process has started and not yet waited for."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
    except OSError:
        pass  # it has just ended, or this kernel does not tell
    return found


def is_marked(pid: int | str = "self") -> bool:
    """Whether this parent has sent the checkpoint signal."""
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:
            return file.read().strip() == MARK.encode()
    except OSError:
        return False


def _mark() -> None:
    try:
        with open("/proc/self/comm", "wb", buffering=0) as file:
            file.write(MARK.encode())
    except OSError:
        pass  # then the program may get the signal twice


def _kill(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:  # it ended in this moment
        return
