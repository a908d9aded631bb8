"""A synchronous training run as its ranks would tell of it, at any speed: noise, slow steps, checkpoints."""

from __future__ import annotations

import json
import random
import socket
from typing import TYPE_CHECKING

from slurmkit.recovery.monitor import Monitor, Straggler

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from slurmkit.recovery.monitor import Finding
    from slurmkit.spec.model import Progress

TOKEN = "0" * 32
START = 1_000_000.0


def open_monitor(
    folder: Path,
    *,
    now: float = START,
    progress: Progress | None = None,
    interval: float = 5.0,
    ranks: int = 4,
) -> Monitor:
    """The monitor of a step of an attempt `12-0`."""
    return Monitor(
        token=TOKEN,
        progress=progress,
        logs=folder,
        written_to=folder / "progress.json",
        attempt="12-0",
        step=0,
        world_size=ranks,
        now=now,
        interval=interval,
    )


class Sender:
    """What tells a monitor something, as ranks do."""

    def __init__(self, monitor: Monitor) -> None:
        self.monitor = monitor
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def send(self, data: bytes) -> None:
        """One datagram as it is."""
        self._socket.sendto(data, ("127.0.0.1", self.monitor.port))

    def tell(self, kind: str = "progress", **fields: object) -> None:
        """One datagram of these fields."""
        self.send(json.dumps({"token": TOKEN, "kind": kind, **fields}).encode())

    def close(self) -> None:
        """Stop sending."""
        self._socket.close()


class Training:
    """Ranks that wait for each other after each step. `slowness` is by what a rank's computing is slower."""

    def __init__(
        self,
        folder: Path,
        *,
        ranks: int = 64,
        per_node: int = 8,
        seed: int = 0,
        noise: float = 0.1,
        step: float = 0.5,
    ) -> None:
        self.monitor = open_monitor(folder, ranks=ranks, interval=1e9)
        self.sender = Sender(self.monitor)
        self.random = random.Random(seed)
        self.ranks = range(ranks)
        self.per_node = per_node
        self.noise = noise
        self.length = step
        self.slowness: Callable[[int, float], float] = lambda _rank, _now: 0.0
        self.slow_steps = 0.0
        """Chance of a rank's step to take three times as long."""
        self.pauses = 0.0
        """Chance of a rank's step to take 2 s more."""
        self.checkpoint_every = 0.0
        self.tells_every = 1.0
        self.now = START + self.random.random() * 10
        self.found: list[tuple[float, Finding]] = []
        self._steps = 0
        self._elapsed = 0.0
        self._seconds = {
            rank: {"data": 0.0, "compute": 0.0, "sync": 0.0, "checkpoint": 0.0} for rank in self.ranks
        }
        self._tick = self.now
        self._saved = 0

    def run(self, seconds: float) -> list[tuple[float, Straggler]]:
        """Go on for so long; the stragglers of all the time so far, each with when it was named."""
        end = self.now + seconds
        while self.now < end:
            self._step()
            while self._tick <= self.now:
                self._tell(self._tick)
                self._tick += self.tells_every
        return [(when, one) for when, one in self.found if isinstance(one, Straggler)]

    def close(self) -> None:
        """Stop."""
        self.sender.close()
        self.monitor.close()

    def _step(self) -> None:
        data = self.length * 0.1
        own = {}
        for rank in self.ranks:
            compute = (
                self.length
                * 0.7
                * self.random.lognormvariate(0, self.noise)
                * (1 + self.slowness(rank, self.now))
            )
            if self.slow_steps and self.random.random() < self.slow_steps:
                compute *= 3
            if self.pauses and self.random.random() < self.pauses:
                compute += 2
            self._seconds[rank]["data"] += data
            self._seconds[rank]["compute"] += compute
            own[rank] = data + compute
        saving = 0.0
        if self.checkpoint_every and (self.now - START) // self.checkpoint_every > self._saved:
            self._saved += 1
            saving = 20.0
            self._seconds[0]["checkpoint"] += saving
            own[0] += saving
        length = max(own.values()) + self.length * 0.1
        for rank in self.ranks:
            self._seconds[rank]["sync"] += length - own[rank]
        self._steps += 1
        self._elapsed += length if self._steps > 1 else 0.0
        self.now += length

    def _tell(self, now: float) -> None:
        for rank in self.ranks:
            self.sender.tell(
                rank=rank,
                host=f"n{rank // self.per_node}",
                time=now,
                step=self._steps,
                steps=self._steps,
                elapsed=self._elapsed,
                seconds=self._seconds[rank],
                checkpoints=self._saved if rank == 0 else 0,
                metrics={},
                **{"in": "compute"},
            )
        self.monitor.receive(now)
        self.found += [(now, one) for one in self.monitor.tick(now)]
