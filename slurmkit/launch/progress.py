"""What a program tells of its progress: `from slurmkit import progress`.

    for n, batch in enumerate(batches):
        with progress.phase("compute"):
            loss = train(batch)
        with progress.phase("sync"):
            average_gradients()
        progress.step(n, loss=loss)

One datagram a second goes to the agent; each carries all counters since the start, so that a lost one does no
harm. Nothing here raises, waits or starts a thread, and outside of a run nothing is done at all.
"""

from __future__ import annotations

import os
import time
from _thread import get_ident
from contextlib import suppress

from slurmkit.launch.notice import open_channel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

SYNC = "sync"
CHECKPOINT = "checkpoint"
OTHER = "other"
"""Where the time of a phase goes that comes after `MOST_PHASES`, or that has no usable name."""
MOST_PHASES = 8
MOST_METRICS = 16
LONGEST_NAME = 64
LONGEST = 1400
"""Bytes of a datagram: it stays in one packet."""
EVERY = 1.0
LARGEST = 1 << 53
SPEAKER = "SLURMKIT_PROGRESS_PID"
"""Which process speaks for the rank: those that it starts inherit its environment, and are silent."""

STACKS_SIGNAL = 44
"""SIGRTMIN+10 of glibc: a program that uses this module answers with the stacks of its threads."""
STACKS_FILE = "slurmkit-stacks"
"""Part of the name of the open file into which they are written: it has no place on any disk."""


class Phase:
    """A part of a step, as a context manager; may be nested, and used again."""

    __slots__ = ("_name", "_teller")

    def __init__(self, teller: Teller, name: str) -> None:
        self._teller = teller
        self._name = name

    def __enter__(self) -> None:
        self._teller.enter(self._name)

    def __exit__(self, kind: object, *_: object) -> None:
        self._teller.leave(self._name, is_whole=kind is None)


class Nothing:
    """A phase outside of a run."""

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


class Teller:
    """The counters of one rank. `prefix` begins each datagram: JSON up to what changes."""

    def __init__(
        self,
        send: Callable[[bytes], object],
        prefix: str,
        clock: Callable[[], float] = time.perf_counter,
        close: Callable[[], object] = lambda: None,
    ) -> None:
        from json.encoder import encode_basestring_ascii

        self._send_bytes = send
        self._prefix = prefix
        self._clock = clock
        self._close = close
        self._quoted = encode_basestring_ascii
        self._pid = os.getpid()
        self._thread = get_ident()
        self._phases: dict[str, Phase] = {}
        self._names: dict[str, str] = {}
        self._seconds: dict[str, float] = {}
        self._whole: dict[
            str, float
        ] = {}  # as of the last step: a step that is under way would blur the mean
        self._stack: list[str] = []
        self._mark = self._due = self._metrics_due = clock()
        self._steps = self._checkpoints = 0
        self._first = self._last = 0.0
        self._number: int | None = None
        self._metrics: list[str] = []

    def step(self, number: object, metrics: Mapping[str, object]) -> None:
        """Count a step that is done."""
        now = self._clock()
        if not self._steps:
            self._begin(now)
        thread = get_ident()
        if thread != self._thread:
            self._thread = thread
            self._stack.clear()
        self._charge(now)
        self._whole = self._seconds.copy()
        self._steps += 1
        self._last = now
        if number is not None:
            self._number = number if type(number) is int and -LARGEST < number < LARGEST else whole(number)
        if metrics and now >= self._metrics_due:
            self._metrics_due = now + EVERY
            self._metrics = self._encoded(metrics)
        if now >= self._due:
            self._tell(now)

    def phase(self, name: object) -> Phase:
        """The phase of that name."""
        known = self._phases.get(name) if isinstance(name, str) else None
        if known is None:
            known = self._new_phase(name)
        return known

    def enter(self, name: str) -> None:
        """A phase begins: time is counted for it until it ends, or one inside it begins."""
        if get_ident() != self._thread:
            return  # what another thread does meanwhile is not the rank's time
        now = self._clock()
        self._charge(now)
        self._stack.append(name)
        if now >= self._due:
            self._tell(now)
        elif name == CHECKPOINT and self._steps and self._due <= now + EVERY:
            # Told at once, for a long silence begins; the next datagram comes a second later for it.
            due = self._due
            self._tell(now)
            self._due = due + EVERY

    def leave(self, name: str, *, is_whole: bool) -> None:
        """A phase ends, by an exception if not `is_whole`."""
        if name == CHECKPOINT and is_whole:
            self._checkpoints += 1
        if get_ident() != self._thread:
            return
        now = self._clock()
        self._charge(now)
        stack = self._stack
        while name in stack and stack.pop() != name:
            pass
        if now >= self._due:
            self._tell(now)

    def end(self) -> None:
        """Tell of the last steps: the program ends."""
        self._tell(self._clock(), ',"last":true')
        self._close()

    def _begin(self, now: float) -> None:
        self._first = now
        if os.environ.setdefault(SPEAKER, str(self._pid)) != str(self._pid):
            self._pid = -1

    def _charge(self, now: float) -> None:
        stack = self._stack
        if stack:
            self._seconds[stack[-1]] += now - self._mark
        self._mark = now

    def _new_phase(self, name: object) -> Phase:
        known = name if isinstance(name, str) else OTHER
        if len(self._phases) >= MOST_PHASES or len(self._quoted(known)) > LONGEST_NAME:
            known = OTHER
        if known not in self._names:
            self._names[known] = self._quoted(known)
            self._seconds[known] = 0.0
        return self._phases.setdefault(known, Phase(self, known))

    def _encoded(self, metrics: Mapping[str, object]) -> list[str]:
        encoded = []
        for name, value in metrics.items():
            quoted, number = self._quoted(name), as_number(value)
            if number is not None and len(quoted) <= LONGEST_NAME:
                encoded.append(f"{quoted}:{json_number(number)}")
                if len(encoded) == MOST_METRICS:
                    break
        return encoded

    def _tell(self, now: float, last: str = "") -> None:
        self._due = now + EVERY
        # Before its first step a program is none that tells; a process forked from it is not the rank.
        if not self._steps or os.getpid() != self._pid:
            return
        names = self._names
        phase = names[self._stack[-1]] if self._stack else "null"
        seconds = ",".join([f"{names[name]}:{value:.6f}" for name, value in self._whole.items()])
        number = "null" if self._number is None else self._number
        text = (
            f'{self._prefix},"time":{time.time():.6f},"step":{number},"steps":{self._steps}'
            f',"elapsed":{self._last - self._first:.6f},"in":{phase},"checkpoints":{self._checkpoints}{last}'
            f',"seconds":{{{seconds}}},"metrics":{{'
        )
        metrics = _that_fit(self._metrics, LONGEST - len(text) - 2)
        with suppress(OSError, OverflowError):  # the buffer is full, or nobody listens any more
            self._send_bytes(f"{text}{metrics}}}}}".encode("ascii"))


def _that_fit(parts: list[str], size: int) -> str:
    text = ",".join(parts)
    while len(text) > size:
        parts = parts[:-1]
        text = ",".join(parts)
    return text


def as_number(value: object) -> float | None:
    """A metric as a float: what numpy and torch have for numbers too; None where it is none.

    What lies on a GPU is none either: reading it would wait for all that the GPU has still to do.
    """
    if type(value) is float or (type(value) is int and -LARGEST < value < LARGEST):
        return float(value)
    # Whatever a program hands over, and whatever its conversion does, must not end the program.
    with suppress(Exception):
        device: Any = getattr(value, "device", "cpu")
        if str(getattr(device, "type", device)) == "cpu":
            return float(value)  # type: ignore[arg-type]
    return None


def whole(value: object) -> int | None:
    """The number of a step that is no plain int."""
    number = as_number(value)
    return int(number) if number is not None and -LARGEST < number < LARGEST else None


def json_number(number: float) -> str:
    """As Python's json writes it: NaN and Infinity included, which say something about a loss."""
    if number - number == 0:
        return repr(number)
    return "NaN" if number != number else "Infinity" if number > 0 else "-Infinity"  # noqa: PLR0124


def connect(environ: Mapping[str, str]) -> Teller | None:
    """The teller of this process; None where there is no agent to tell, or this is no rank."""
    token = environ.get("SLURMKIT_TOKEN", "")
    rank = environ.get("RANK") or environ.get("SLURM_PROCID", "")
    if not (token.isalnum() and rank.isdecimal()):
        return None
    opened = open_channel(environ.get("SLURMKIT_PROGRESS", ""))
    if opened is None:
        return None
    channel, address = opened
    from json import dumps

    node = dumps((environ.get("SLURMD_NODENAME") or os.uname().nodename)[:LONGEST_NAME])
    prefix = f'{{"token":"{token}","kind":"progress","rank":{int(rank)},"host":{node}'
    return Teller(lambda data: channel.sendto(data, address), prefix, close=channel.close)


def answer_for_stacks() -> None:
    """From now on `STACKS_SIGNAL` has the stacks of all threads written into an open file.

    `slurmkit.launch.stacks` reads it through /proc: no file is made on a shared disk, it may be what hangs.
    """
    import faulthandler
    import signal

    # Not OSError alone: a build of Python may know no such signal, or nothing of memory files.
    with suppress(OSError, ValueError, RuntimeError, AttributeError):
        if signal.getsignal(STACKS_SIGNAL) == signal.SIG_DFL:
            faulthandler.register(STACKS_SIGNAL, file=_open_file(), all_threads=True)


def _open_file() -> int:
    if hasattr(os, "memfd_create"):
        with suppress(OSError):
            return os.memfd_create(STACKS_FILE)
    folder = os.environ.get("TMPDIR") or "/tmp"  # noqa: S108 - the name is new, and gone at once
    path = os.path.join(folder, f"{STACKS_FILE}-{os.getpid()}-{time.time_ns()}")
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600)
    os.unlink(path)
    return descriptor


_NOTHING = Nothing()
_tellers: list[Teller | None] = []
"""At most one, made at the first use."""


def _teller() -> Teller | None:
    if not _tellers:
        teller = connect(os.environ) if "SLURMKIT_PROGRESS" in os.environ else None
        if teller is not None:
            import atexit

            answer_for_stacks()
            atexit.register(teller.end)
        _tellers.append(teller)
    return _tellers[0]


def step(n: object = None, **metrics: object) -> None:
    """A step is done: how many are by now, counted from 1, and what there is to tell of it as numbers.

    Call it once per step, on every rank. Without `n` the calls are counted. Never raises.
    """
    teller = _tellers[0] if _tellers else _teller()
    if teller is not None:
        teller.step(n, metrics)


def phase(name: str) -> Phase | Nothing:
    """The part of a step in the `with` block: "data", "compute", "sync", "checkpoint" or one of your own.

    "sync" is the time in which a rank waits for others: only what is outside of it tells who is slow.
    """
    teller = _tellers[0] if _tellers else _teller()
    return _NOTHING if teller is None else teller.phase(name)
