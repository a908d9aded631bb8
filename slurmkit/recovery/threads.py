"""Threads of the agent beside its main one."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING

from slurmkit.recovery.watching import WATCHED

if TYPE_CHECKING:
    from collections.abc import Callable


def start_aside(work: Callable[[], None]) -> threading.Thread:
    """Start a thread that takes none of the agent's signals, and does not hold it at its end.

    A signal to a process goes to any thread that has not blocked it: one taken here, while the main thread
    has them wait, would be lost.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
    try:
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return thread
