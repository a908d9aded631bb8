"""Attending to a running step: the signals that come, what srun says, what the ranks tell, and its end."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, Self

from slurmkit.recovery.monitor import Hung

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from slurmkit.recovery.monitor import Finding, Monitor, RankNotice
    from slurmkit.slurm.clock import Clock

PASSED_ON = frozenset({signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})
"""To srun, which sends the first three to every rank, and at the others ends the step."""

WATCHED = PASSED_ON | {signal.SIGTERM, signal.SIGCHLD}
"""SIGTERM is not passed on: at a cancel, the time limit, a preemption Slurm sends it to the ranks itself, and
srun would kill them at once."""

TICK = 1.0
KEPT_LINES = 200
ENDING = ("error: Node failure on ", "Terminating StepId=", "orce Terminated StepId=", "Job step aborted")
"""srun's words for a step that ends: a rank whose parent was killed leaves none of its own, nor do those of a
node that is gone, which under --no-kill does not end the step."""
NO_STEP = "step creation temporarily disabled"
"""srun's words where the nodes are not free, as after a step whose end Slurm has not seen."""
STUCK = "Timed out waiting for job step to complete"
"""srun's word where a slurmstepd is gone: Slurm keeps the nodes for its step, whatever the ranks do."""
STEP_WITHIN = 30.0
SRUN_WITHIN = 15.0
"""Seconds that srun may take to end once all ranks have, or once it was told to."""
SRUN_IN_VAIN = 1.0
"""The same where Slurm is ending the job: srun can do no more, and the agent has no longer than the ranks."""
STDERR = 2


@dataclass(slots=True)
class Watched:
    """What came while the step ran."""

    status: int = 0
    """srun's wait status."""
    received: list[int] = field(default_factory=list)
    """Signals other than SIGCHLD."""
    said: deque[str] = field(default_factory=lambda: deque(maxlen=KEPT_LINES))
    """The last lines of srun's stderr."""
    notices: list[RankNotice] = field(default_factory=list)
    is_ending: bool = False
    """Whether srun has said that the step is over: a task failed, or a node of it is gone."""
    is_stuck: bool = False
    """Whether Slurm does not come to the end of a step of this job, so that no other can start."""
    killed: bool = False
    """Whether the agent itself had to kill the step."""
    deadlines: dict[str, float] = field(default_factory=dict)
    """When the step has to be over, on the clock's monotonic time, by the reason for it."""

    @property
    def has_failed(self) -> bool:
        """Whether a rank has failed, or its node is gone: the others are about to end, or wait in vain."""
        return self.is_ending or any(map(_is_failure, self.notices))

    @property
    def has_begun(self) -> bool:
        """Whether a rank has told of its start."""
        return any(notice.kind == "rank-started" for notice in self.notices)

    def has_ended(self, world_size: int | None) -> bool:
        """Whether every rank has told of its end."""
        return len({one.rank for one in self.notices if one.kind == "rank-ended"}) == world_size


class Attendant(Protocol):
    """What else is looked after while a step runs."""

    def takes(self, number: int) -> bool:
        """Whether a signal is for the agent itself, and not to be passed on to the ranks."""
        ...

    def tick(self, seen: Watched) -> bool:
        """Look after it, about once a second; whether the step has to end."""
        ...


class Arrivals:
    """Signals as they come. Outside of it those of `WATCHED` are blocked and wait: none is ever lost."""

    def __enter__(self) -> Self:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for number in WATCHED:
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, WATCHED)
        return self

    def __exit__(self, *_: object) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
        signal.set_wakeup_fd(-1)
        os.close(self._read)
        os.close(self._write)

    def fileno(self) -> int:
        """What becomes readable when a signal has come."""
        return self._read

    def take(self) -> bytes:
        """The numbers of the signals that have come, one byte each."""
        try:
            return os.read(self._read, 4096)
        except BlockingIOError:
            return b""


def watch(
    srun: int,
    stderr: int,
    monitor: Monitor,
    *,
    clock: Clock,
    grace: float | None,
    must_end: Callable[[Finding], bool],
    attendant: Attendant,
) -> Watched:
    """Attend to the step until srun has ended.

    `grace` is how many seconds the other ranks may take to end after one has failed; None: for ever.
    `must_end` is told each finding of the monitor, and says whether the step has to end because of it.
    """
    seen = Watched()
    next_tick = clock.monotonic()
    ready = select.poll()
    with Arrivals() as signals:
        for source in (signals.fileno(), stderr, monitor.fileno()):
            ready.register(source, select.POLLIN)
        while True:
            for source, _ in ready.poll(max(0.0, next_tick - clock.monotonic()) * 1000):
                if source == signals.fileno():
                    if _attend_to_signals(srun, signals.take(), seen, attendant):
                        _copy_rest(stderr, seen)
                        seen.notices += monitor.receive(clock.now().timestamp())
                        _pass_on(None, signals.take(), seen, attendant)
                        return seen
                elif source == stderr:
                    if not _copy(stderr, seen):
                        ready.unregister(stderr)
                else:
                    seen.notices += monitor.receive(clock.now().timestamp())
            if clock.monotonic() < next_tick:
                continue
            next_tick = clock.monotonic() + TICK
            findings = monitor.tick(clock.now().timestamp())
            if seen.has_failed or seen.has_ended(monitor.world_size):
                findings = [
                    one for one in findings if not isinstance(one, Hung)
                ]  # nothing is to come any more
            verdicts = [must_end(finding) for finding in findings]
            verdicts.append(attendant.tick(seen))
            now = clock.monotonic()
            _set_deadlines(seen, now, grace, monitor.world_size)
            is_overdue = any(now >= at for at in seen.deadlines.values())
            if not seen.killed and (any(verdicts) or is_overdue):
                seen.killed = True
                os.kill(srun, signal.SIGTERM)  # which makes srun kill all ranks at once
                is_ended = signal.SIGTERM in seen.received
                seen.deadlines = {"srun itself": now + (SRUN_IN_VAIN if is_ended else SRUN_WITHIN)}
            elif seen.killed and is_overdue:
                os.kill(srun, signal.SIGKILL)


def _set_deadlines(seen: Watched, now: float, grace: float | None, world_size: int | None) -> None:
    """Give a step that is over, or does not begin, a time by which it has to be gone."""
    if seen.killed:
        return
    if grace is not None and seen.has_failed:
        seen.deadlines.setdefault("a rank failed", now + grace)
    if seen.has_ended(world_size):
        seen.deadlines.setdefault("all ranks have ended", now + SRUN_WITHIN)
    if seen.has_begun:
        seen.deadlines.pop("no step", None)
    elif any(NO_STEP in line for line in seen.said):
        is_late = now >= seen.deadlines.setdefault("no step", now + STEP_WITHIN)
        seen.is_stuck = seen.is_stuck or is_late


def _is_failure(notice: RankNotice) -> bool:
    return notice.kind == "rank-ended" and notice.fields.get("exit_code") != 0


def _attend_to_signals(srun: int, numbers: Iterable[int], seen: Watched, attendant: Attendant) -> bool:
    """Pass signals on, each once; whether srun has ended."""
    numbers = bytes(numbers)
    ended = 0
    if signal.SIGCHLD in numbers:
        ended, seen.status = os.waitpid(srun, os.WNOHANG)
    _pass_on(None if ended else srun, numbers, seen, attendant)
    return bool(ended)


def _pass_on(srun: int | None, numbers: Iterable[int], seen: Watched, attendant: Attendant) -> None:
    for number in dict.fromkeys(numbers):
        if number == signal.SIGCHLD:
            continue
        seen.received.append(number)
        if srun is not None and number in PASSED_ON and not attendant.takes(number):
            os.kill(srun, number)


def _copy(stderr: int, seen: Watched) -> bool:
    """Copy what srun says to the batch log and keep the last of it; False at its end."""
    data = os.read(stderr, 65536)
    if not data:
        return False
    lines = data.decode("utf-8", "replace").splitlines()
    seen.said.extend(lines)
    seen.is_ending = seen.is_ending or any(word in line for line in lines for word in ENDING)
    seen.is_stuck = seen.is_stuck or any(STUCK in line for line in lines)
    sys.stderr.buffer.write(data)
    sys.stderr.buffer.flush()
    return True


def _copy_rest(stderr: int, seen: Watched) -> None:
    os.set_blocking(stderr, False)
    try:
        while _copy(stderr, seen):
            pass
    except BlockingIOError:
        return
