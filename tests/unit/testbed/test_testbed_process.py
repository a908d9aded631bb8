"""Processes are told apart by more than their pid."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from slurmkit.testbed.process import (
    Process,
    ancestors,
    boot_id,
    identify,
    read_items,
    read_stat,
    with_descendants,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "1000"]) as process:
        yield process
        process.kill()


def identified(pid: int) -> Process:
    process = identify(pid)
    assert process
    return process


def test_a_process_is_alive_until_it_ends(sleeper: subprocess.Popen[bytes]) -> None:
    process = identified(sleeper.pid)
    assert process.is_alive()
    assert process.kill(signal.SIGKILL)
    assert process.wait(10)
    assert not process.is_alive()


def test_a_zombie_is_not_alive(sleeper: subprocess.Popen[bytes]) -> None:
    process = identified(sleeper.pid)
    sleeper.kill()
    assert process.wait(10)
    assert identify(sleeper.pid) is None
    assert not process.is_alive()


@pytest.mark.parametrize("change", [{"started": 1}, {"boot": "another"}])
def test_a_recycled_pid_is_never_killed(sleeper: subprocess.Popen[bytes], change: dict[str, object]) -> None:
    other = replace(identified(sleeper.pid), **change)  # type: ignore[arg-type]
    assert not other.is_alive()
    assert not other.kill(signal.SIGKILL)
    assert other.wait(0)
    assert sleeper.poll() is None


def test_waiting_for_a_process_that_stays_is_bounded(sleeper: subprocess.Popen[bytes]) -> None:
    assert not identified(sleeper.pid).wait(0.01)


def test_a_pid_that_nobody_has() -> None:
    nobody = Process(2**22 - 1, 1, boot_id())
    assert identify(nobody.pid) is None
    assert not nobody.is_alive()
    assert not nobody.kill()
    assert nobody.wait(0)
    assert read_items(nobody.pid, "cmdline") == []


def test_the_name_of_a_program_may_look_like_the_rest_of_stat() -> None:
    name_oneself = "import ctypes, time; ctypes.CDLL(None).prctl(15, b'a) Z 1 (b', 0, 0, 0)"
    code = f"{name_oneself}; print(flush=True); time.sleep(999)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        stat = read_stat(process.pid)
        process.kill()
    assert stat
    assert stat.parent == os.getpid()
    assert not stat.is_dead


def test_ancestors_lead_to_the_first_process() -> None:
    line = ancestors(os.getpid())
    assert {os.getpid(), os.getppid(), 1} <= line


def test_descendants_are_found_through_their_parents(sleeper: subprocess.Popen[bytes]) -> None:
    assert sleeper.pid in with_descendants({os.getpid()})
    assert with_descendants({sleeper.pid}) == {sleeper.pid}
