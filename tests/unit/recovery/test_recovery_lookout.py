"""Looking out for checkpoints while the step runs: never too often, never in the agent's way."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slurmkit.checkpoint.choice import Checkpoint
from slurmkit.checkpoint.layout import Verdict
from slurmkit.errors import SlurmkitError, UsageError
from slurmkit.recovery.lookout import GREATEST, LEAST, PATIENCE, WHEN_ASKED, Look, Lookout
from tests.unit.run.conftest import FakeClock

if TYPE_CHECKING:
    from collections.abc import Iterator

BOUND = 60.0


class Disk:
    """What looks find, and how long they take: as long as `is_free` is not set they hang."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.is_free = threading.Event()
        self.is_free.set()
        self.has_begun = threading.Event()
        self.faults: list[Exception] = []
        self.looks = 0
        self.takes = 0.0
        self.lookout = Lookout(self._look, self.clock)

    def _look(self) -> Look:
        self.looks += 1
        self.has_begun.set()
        assert self.is_free.wait(BOUND)
        self.move(self.takes)
        if self.faults:
            raise self.faults.pop(0)
        path = Path(f"/saved/step-{self.looks}")
        return Look(Checkpoint(path, "plain", self.looks, Verdict("complete", "all there"), 1))

    def move(self, seconds: float) -> None:
        self.clock.time += timedelta(seconds=seconds)

    def result(self) -> Look:
        """What the look under way finds."""
        end = time.monotonic() + BOUND
        while (found := self.lookout.tick()) is None:
            assert time.monotonic() < end
            time.sleep(0.001)
        return found

    def step(self, seconds: float) -> int | None:
        """Move the clock; the step of the checkpoint that the look which is due then finds."""
        self.move(seconds)
        assert self.lookout.tick() is None
        found = self.result().newest
        return found.step if found else None


@pytest.fixture
def disk() -> Iterator[Disk]:
    disk = Disk()
    yield disk
    disk.is_free.set()


def test_the_first_look_is_a_little_after_the_start(disk: Disk) -> None:
    assert disk.lookout.tick() is None
    disk.move(LEAST - 0.1)
    assert disk.lookout.tick() is None
    assert disk.looks == 0
    assert disk.step(0.2) == 1


def test_what_a_look_found_is_told_once(disk: Disk) -> None:
    assert disk.step(LEAST) == 1
    assert disk.lookout.tick() is None
    assert disk.looks == 1


def test_a_disk_that_hangs_delays_nothing_and_is_not_asked_twice(disk: Disk) -> None:
    disk.is_free.clear()
    for _ in range(10):
        disk.move(2 * GREATEST)
        assert disk.lookout.tick() is None
    assert disk.has_begun.wait(BOUND)
    assert disk.looks == 1
    assert disk.lookout.last(0.01) is None
    disk.is_free.set()
    assert disk.result().newest is not None


@pytest.mark.parametrize(
    ("takes", "pause"), [(0.0, LEAST), (1.0, PATIENCE), (2.0, 2 * PATIENCE), (100.0, GREATEST)]
)
def test_the_slower_a_look_the_longer_the_pause_after_it(disk: Disk, takes: float, pause: float) -> None:
    disk.takes = takes
    assert disk.step(LEAST) == 1
    disk.move(pause - 0.5)
    assert disk.lookout.tick() is None
    assert disk.looks == 1
    assert disk.step(0.5) == 2


def test_while_a_checkpoint_is_awaited_the_pause_is_short_however_slow_the_disk(disk: Disk) -> None:
    disk.takes = 2.0
    assert disk.step(LEAST) == 1
    disk.lookout.is_urgent = True
    disk.move(WHEN_ASKED - 0.1)
    assert disk.lookout.tick() is None
    assert disk.looks == 1
    assert disk.step(0.1) == 2
    assert disk.step(WHEN_ASKED) == 3


@pytest.mark.parametrize("fault", [OSError(116, "Stale file handle"), UsageError("no such layout")])
def test_after_a_look_that_failed_there_are_others_and_it_is_said_once(
    disk: Disk, capfdbinary: pytest.CaptureFixture[bytes], fault: OSError | SlurmkitError
) -> None:
    disk.faults = [fault, fault]
    assert disk.step(LEAST) is None
    assert disk.step(LEAST) is None
    assert disk.step(LEAST) == 3
    told = capfdbinary.readouterr()
    words = (getattr(fault, "strerror", None) or str(fault)).encode()
    assert (told.out + told.err).count(words) == 1
    assert b"Traceback" not in told.out + told.err


def test_at_the_end_the_look_under_way_is_waited_for(disk: Disk) -> None:
    disk.move(LEAST)
    disk.is_free.clear()
    disk.lookout.tick()
    threading.Timer(0.05, disk.is_free.set).start()
    found = disk.lookout.last(BOUND)
    assert found is not None
    assert found.newest is not None


def test_at_the_end_nothing_is_waited_for_where_no_look_is_under_way(disk: Disk) -> None:
    assert disk.lookout.last(BOUND) is None
    assert disk.step(LEAST) == 1
    assert disk.lookout.last(BOUND) is None
