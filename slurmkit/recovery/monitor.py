"""What the ranks of a running step tell the agent: by datagrams, or by their logs, and what follows."""

from __future__ import annotations

import hmac
import json
import socket
from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from slurmkit.launch.files import write_atomically
from slurmkit.recovery.hang import HangWatch
from slurmkit.recovery.log_pattern import LogPattern, TooSlow
from slurmkit.recovery.stragglers import PARTS, Sample, Slow, find_slow
from slurmkit.recovery.summary import HISTORY, HISTORY_EVERY, summary
from slurmkit.recovery.tally import BUCKET, BUCKETS, MINUTE, SAVING, Tally, bucket_of, median_rate
from slurmkit.spec.units import parse_duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from slurmkit.recovery.tally import RankTally, Stretch
    from slurmkit.spec.model import Progress

RECEIVE_BUFFER = 4 << 20
"""Bytes of datagrams that the kernel keeps while the agent is busy, where it allows so many."""
AT_ONCE = 4096
"""Datagrams taken in one go: nobody who floods the port keeps the agent from its other work."""
LONGEST = 2048


class RankNotice(NamedTuple):
    """What a rank's parent told of. `arrived` is this host's clock, `time` the rank's."""

    kind: str
    rank: int
    host: str
    time: float
    arrived: float
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Straggler:
    """A rank, or all ranks of a host, slower than the others: seconds a step, most too many in `phase`."""

    rank: int | None
    host: str
    phase: str
    own: float
    median: float
    since: float
    ranks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StragglerGone:
    """A straggler that keeps up again."""

    rank: int | None
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hung:
    """No rank has made progress since then, at this step; `after` is how many seconds are too long."""

    since: float
    step: int | None
    after: float


Finding = Straggler | StragglerGone | Hung


@dataclass(slots=True, kw_only=True)
class Monitor:
    """The ranks of one step start, as far as they tell. Driven by the agent's loop; it never waits for them.

    `now` is everywhere this host's clock, in seconds since 1970; `interval` that between two writings of
    progress.json, `written_to`.
    """

    token: str
    progress: Progress | None
    logs: Path
    written_to: Path
    attempt: str
    step: int
    world_size: int | None
    now: float
    interval: float = 5.0
    tally: Tally = field(init=False, default_factory=Tally)
    stragglers: dict[tuple[int | None, str], Straggler] = field(init=False, default_factory=dict)
    is_hung: bool = field(init=False, default=False)
    history: deque[tuple[float, float]] = field(init=False, default_factory=lambda: deque(maxlen=HISTORY))
    _socket: socket.socket = field(init=False)
    _pattern: LogPattern | None = field(init=False, default=None)
    _hang: HangWatch = field(init=False)
    _offsets: dict[str, float] = field(init=False, default_factory=dict)
    _slow: dict[tuple[int | None, str], Slow] = field(init=False, default_factory=dict)
    _judged: int = field(init=False, default=0)
    _written: float = field(init=False, default=0.0)
    _last: float = field(init=False)

    def __post_init__(self) -> None:
        self._socket = open_socket()
        self._last = self.now
        hang_after = self.progress.hang_after if self.progress else None
        given = parse_duration(hang_after) if hang_after else None
        self._hang = HangWatch(self.now, given)
        if self.progress and self.progress.pattern:
            self._pattern = LogPattern(self.progress.pattern, self.logs)

    def fileno(self) -> int:
        """What becomes readable when a rank has told something."""
        return self._socket.fileno()

    @property
    def port(self) -> int:
        """Where the ranks send to."""
        return int(self._socket.getsockname()[1])

    @property
    def ranks(self) -> Mapping[int, RankTally]:
        """What is known of each rank that has told of its progress."""
        return self.tally.ranks

    @property
    def total(self) -> int | None:
        """Steps of work, where the job file says so."""
        return self.progress.total if self.progress else None

    def offset(self, host: str) -> float:
        """How far a host's clock is ahead of this one, in seconds; 0 where nothing was heard from it.

        The datagram that was quickest tells best: the time it took is all that the estimate is too low.
        """
        return self._offsets.get(host, 0.0)

    def receive(self, now: float) -> list[RankNotice]:
        """Take what has arrived; returns what the ranks' parents said."""
        self._last = now
        notices: list[RankNotice] = []
        for _ in range(AT_ONCE):
            try:
                data = self._socket.recv(LONGEST)
            except OSError:  # nothing is left, or nothing can be had
                break
            try:
                self._take(data, now, notices)
            except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
                continue  # it is none of ours
        return notices

    def tick(self, now: float) -> list[Finding]:
        """Look at the logs, judge, and write progress.json; returns what has not been said before."""
        self._last = now
        self._read_logs(now)
        findings: list[Finding] = []
        if bucket_of(now) != self._judged:
            self._judged = bucket_of(now)
            findings += self._judge(now)
        self._hang.is_saving = any(one.phase == SAVING for one in self.ranks.values())
        self._hang.all_ended = bool(self.ranks) and all(one.ended for one in self.ranks.values())
        self._hang.has_begun = bool(self.tally.hosts)
        silence = self._hang.tick(now)
        if silence is not None and not self.is_hung:
            self.is_hung = True
            findings.append(Hung(since=silence[0], step=self.tally.lowest_step(), after=silence[1]))
        if findings or not 0 <= now - self._written < self.interval:
            self._write(now)
        return findings

    def rate(self, now: float) -> float | None:
        """Steps a second over the last minute; 0 once the ranks are silent, None before there is a rate."""
        if not self.ranks:
            return None
        return median_rate(self._last_minute(now).values()) if self.is_going(now) else 0.0

    def is_going(self, now: float) -> bool:
        """Whether the last minute, or the time of three steps, has seen any progress."""
        return now - self._hang.last <= max(60.0, 3 * (self._hang.step_seconds or 0.0))

    def close(self) -> None:
        """Stop listening; progress.json says how far the step came at last."""
        if self._socket.fileno() < 0:
            return
        self._socket.close()
        if self._pattern is not None:
            self._pattern.look_again()
        self._read_logs(self._last)
        self._write(self._last)

    def _take(self, data: bytes, now: float, notices: list[RankNotice]) -> None:
        fields = json.loads(data)
        if not hmac.compare_digest(str(fields.pop("token")), self.token):
            return
        kind, host, time = fields["kind"], str(fields["host"]), float(fields["time"])
        self._offsets[host] = max(time - now, self._offsets.get(host, time - now))
        if kind == "progress":
            if self.tally.add(fields, now):
                self._hang.progress(now)
        elif kind in {"rank-started", "rank-ended", "rank-told"}:
            rank = int(fields["rank"])
            if kind == "rank-started":
                self.tally.hosts[rank] = host
            rest = {
                name: value for name, value in fields.items() if name not in {"kind", "rank", "host", "time"}
            }
            notices.append(RankNotice(kind, rank, host, time, now, rest))

    def _read_logs(self, now: float) -> None:
        if self._pattern is None:
            return
        try:
            steps = self._pattern.read(now)
        except TooSlow:
            from slurmkit.recovery import report  # which itself knows the findings of this module

            report.say("[progress] pattern takes too long on these logs: they are not looked at any more")
            self._pattern = None
            return
        for one in steps:
            known = self.ranks.get(one.rank)
            if known is None or known.step != one.step:
                self.tally.add_step(one.rank, one.step, one.metrics, now)
                self._hang.progress(now)

    def _judge(self, now: float) -> list[Finding]:
        """What the buckets that are complete say, once for each."""
        self._hang.step_seconds = self._step_seconds(now)
        rate = self.rate(now)
        if rate is not None and (not self.history or now - self.history[-1][0] >= HISTORY_EVERY):
            self.history.append((round(now, 3), rate))
        if not self.is_going(now):
            return []
        length = self._part_length()
        end = bucket_of(now) - 1
        edges = [end - length * (PARTS - part) for part in range(PARTS + 1)]
        parts = whole_parts([self.tally.stretches(*pair) for pair in pairwise(edges)])
        samples = {
            rank: Sample(host=one.host, parts=[part[rank].own() if rank in part else None for part in parts])
            for rank, one in self.ranks.items()
        }
        slow = {one.key: one for one in find_slow(samples, self._slow)}
        slow |= {key: one for key, one in self._slow.items() if key not in slow and not one.is_heard(samples)}
        gone = [StragglerGone(rank=rank, host=host) for rank, host in self._slow.keys() - slow.keys()]
        new = [one for key, one in slow.items() if key not in self._slow]
        self._slow = slow
        since = {key: one.since for key, one in self.stragglers.items()}
        self.stragglers = {
            key: Straggler(
                rank=one.rank,
                host=one.host,
                phase=one.phase,
                own=one.own,
                median=one.median,
                since=since.get(key, now - one.parts * length * BUCKET),
                ranks=one.ranks,
            )
            for key, one in slow.items()
        }
        return [*gone, *(self.stragglers[one.key] for one in new)]

    def _part_length(self) -> int:
        """Buckets in a part: more where a step is long, so that there are at least two in each."""
        needed = 2 * (self._hang.step_seconds or 0.0)
        return min(max(1, -int(-needed // BUCKET)), (BUCKETS - 2) // PARTS)

    def _step_seconds(self, now: float) -> float | None:
        rate = median_rate(self.tally.stretches(bucket_of(now) - BUCKETS + 2, bucket_of(now)).values())
        return 1 / rate if rate else None

    def _last_minute(self, now: float) -> dict[int, Stretch]:
        """What each rank did in the last minute of progress, or in a few steps where they take longer."""
        end = bucket_of(min(now, self._hang.last))  # of silent ranks, the last that they did
        return self.tally.stretches(end - max(MINUTE, 2 * self._part_length()), end)

    def _write(self, now: float) -> None:
        self._written = now
        fields = summary(self, self._last_minute(now), now)
        try:
            write_atomically(self.written_to, json.dumps(fields, separators=(",", ":")).encode())
        except OSError:
            return  # a full disk does not end the job; the next time may be better


def whole_parts(parts: Sequence[Mapping[int, Stretch]]) -> list[Mapping[int, Stretch]]:
    """The parts, those with few steps empty: around a checkpoint, chance says more than the mean."""
    steps = [sum(one.steps for one in part.values()) for part in parts]
    least = median(steps) / 2
    return [part if count >= least else {} for part, count in zip(parts, steps, strict=True)]


def open_socket() -> socket.socket:
    """A socket for datagrams on all of this host's addresses, of both families where it has both."""
    flags = socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
    try:
        opened = socket.socket(socket.AF_INET6, flags)
    except OSError:
        opened = socket.socket(socket.AF_INET, flags)
        opened.bind(("", 0))
    else:
        try:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            opened.bind(("::", 0))
        except OSError:
            opened.close()
            opened = socket.socket(socket.AF_INET, flags)
            opened.bind(("", 0))
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
    return opened
