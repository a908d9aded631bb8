"""Threads beside the agent's main one."""

from __future__ import annotations

import signal
from queue import SimpleQueue

from slurmkit.recovery.threads import start_aside
from slurmkit.recovery.watching import WATCHED


def test_a_thread_beside_takes_no_signal_and_the_main_one_goes_on_as_it_did() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    blocked: SimpleQueue[set[int]] = SimpleQueue()
    start_aside(lambda: blocked.put(set(signal.pthread_sigmask(signal.SIG_BLOCK, [])))).join()
    assert blocked.get() >= WATCHED
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before
