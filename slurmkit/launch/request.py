"""Whether this rank is asked for a checkpoint: `from slurmkit.checkpoint import requested`.

    for n, batch in enumerate(batches, start=1):
        train(batch)
        if agreed(requested()):
            save(n)

The signal only sets a flag: the program saves where a step is whole. Nothing here raises, waits or starts a
thread, and outside of a run nothing is done at all.
"""

from __future__ import annotations

import os
import time

from slurmkit.launch.caught import caught

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing itself costs a rank milliseconds
    import signal
    from collections.abc import Callable, Mapping
else:
    import _signal as signal  # as the parent of a rank, which needs `number_of`

EVERY = 1.0
"""Seconds between two looks at the file."""
EVERY_BESIDES = 5.0
"""The same where the signals are caught: the file is then for the case that none arrives, and thousands of
ranks look at one directory."""


def number_of(name: str) -> int | None:
    """The number of a signal by its name, with or without SIG, or as digits; None if there is none such."""
    base, plus, offset = name.upper().partition("+")
    if name.isascii() and name.isdigit():
        number = int(name)
    elif base.startswith("_") or (plus and not (offset.isascii() and offset.isdigit())):
        return None
    else:
        known = getattr(signal, base if base.startswith("SIG") else f"SIG{base}", None)
        number = int(known) + int(offset or 0) if known else 0
    return number if number in signal.valid_signals() else None


class Request:
    """What is known of a request in this process. `file` exists once there is one."""

    __slots__ = ("_clock", "_due", "_file", "_handled", "_is_made", "_numbers")

    def __init__(
        self, file: str, numbers: tuple[int, ...], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._file = file
        self._numbers = numbers
        self._clock = clock
        self._handled: list[int] = []
        self._is_made = False
        self._due = clock()

    def is_made(self) -> bool:
        """Whether a signal has come, or the file is there; stays true."""
        if not self._is_made:
            now = self._clock()
            if now >= self._due:
                self._look(now)
        return self._is_made

    def _look(self, now: float) -> None:
        if len(self._handled) < len(self._numbers):
            self._handle()
        self._due = now + (EVERY_BESIDES if len(self._handled) == len(self._numbers) else EVERY)
        if self._file and os.path.exists(self._file):
            self._is_made = True

    def _handle(self) -> None:
        """Catch the signals that nobody else does; of the others, the file alone tells."""
        taken = caught()
        for number in self._numbers:
            if number in self._handled or taken >> (number - 1) & 1 or signal.getsignal(number) != 0:
                continue
            try:
                signal.signal(number, self._receive)
            except (ValueError, OSError):  # this is not the main thread, or no such signal
                return
            # System calls of libraries go on, as they would without a handler.
            signal.siginterrupt(number, False)  # noqa: FBT003 - positional only
            if not self._handled:
                os.register_at_fork(after_in_child=self._forked)
            self._handled.append(number)

    def _receive(self, _number: int, _frame: object) -> None:
        self._is_made = True

    def _forked(self) -> None:
        """Let SIGTERM end a process that was forked, such as a data loader's, which is ended by it.

        One that asks by itself catches it anew.
        """
        if signal.SIGTERM in self._handled and signal.getsignal(signal.SIGTERM) == self._receive:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self._handled.remove(signal.SIGTERM)
            self._due = self._clock()


def connect(environ: Mapping[str, str]) -> Request:
    """What this process goes by; where nobody can ask it, nothing ever comes."""
    file = environ.get("SLURMKIT_CHECKPOINT_REQUEST", "")
    name = environ.get("SLURMKIT_CHECKPOINT_SIGNAL", "")
    if not (file or name):
        return Request("", ())
    number = number_of(name)
    return Request(file, (signal.SIGTERM,) if number is None else (number, signal.SIGTERM))


_requests: list[Request] = []
"""At most one is used, made at the first call."""


def requested() -> bool:
    """Whether this rank has been asked for a checkpoint, by a signal or by the agent's file; stays true.

    Ranks may see it at different steps: agree on it before saving together. Call it in the main thread, once
    per step; the first call there catches the signals, unless the program does so itself. Never raises.
    """
    if not _requests:
        _requests.append(connect(os.environ))
    return _requests[0].is_made()
