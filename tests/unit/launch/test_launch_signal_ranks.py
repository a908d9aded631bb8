"""`launch.pyz signal`: a signal for the ranks of a node, of which those get it that catch it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from slurmkit.launch.signals import receivers
from slurmkit.launch.stacks import Process

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STEP = {"SLURM_JOB_ID": "12", "SLURMKIT_ATTEMPT": "12-0", "SLURMKIT_STEP": "1"}
OURS = {**STEP, "SLURM_STEP_ID": "7"}
USR1 = 1 << (signal.SIGUSR1 - 1)
CATCHES = """\
import signal, sys
signal.signal(signal.SIGUSR1, lambda *_: print("got it", flush=True))
print("ready", flush=True)
while True:
    signal.pause()
"""
PLAIN = ["sh", "-c", "echo ready; exec sleep 600"]


def process(pid: int, parent: int = 1, **changed: Any) -> Process:
    environ = {**STEP, "SLURM_STEP_ID": "0", "SLURM_PROCID": "3", "RANK": "3", **changed.pop("environ", {})}
    fields = {"argv": ["python", "train.py"], "is_python": True, "caught": 0, "answers_in": None, **changed}
    return Process(pid=pid, parent=parent, environ=environ, **fields)


@pytest.mark.parametrize(
    ("processes", "chosen"),
    [
        ([process(5, is_python=False, caught=USR1), process(6, 5)], 5),
        ([process(5, is_python=False), process(6, 5, caught=USR1)], 6),
        ([process(5, is_python=False, caught=USR1), process(6, 5, caught=USR1)], 6),
        ([process(9, caught=USR1), process(4, 9, caught=USR1)], 9),
        ([process(9), process(4, 9)], 9),
    ],
    ids=["a shell with a trap", "the program below a shell", "both", "not what it has forked", "nobody"],
)
def test_which_process_of_a_rank_gets_the_signal(processes: list[Process], chosen: int) -> None:
    for order in (processes, processes[::-1]):
        found = receivers(order, OURS, signal.SIGUSR1)
        assert {rank: one.pid for rank, one in found.items()} == {3: chosen}


def test_the_srun_of_the_step_is_no_rank_of_it_though_26_05_gives_it_a_number() -> None:
    srun = process(5, environ={"SLURM_STEP_ID": "-5", "SLURM_PROCID": "0", "RANK": "0"}, caught=USR1)
    assert receivers([srun, process(6, caught=USR1)], OURS, signal.SIGUSR1).keys() == {3}


def test_of_torchrun_its_workers_are_the_ranks() -> None:
    workers = [
        process(10 + n, 5, environ={"RANK": str(4 + n), "TORCHELASTIC_RUN_ID": "x"}, caught=USR1)
        for n in range(2)
    ]
    found = receivers([process(5, caught=USR1), *workers], OURS, signal.SIGUSR1)
    assert {rank: one.pid for rank, one in found.items()} == {4: 10, 5: 11}


class Ranks:
    """Real processes that look like ranks of a step."""

    def __init__(self, archive: Path) -> None:
        self.archive = archive
        self.started: list[subprocess.Popen[str]] = []
        self.environ = {**os.environ, **STEP, "SLURM_JOB_ID": str(os.getpid()), "SLURMD_NODENAME": "n 'é'"}

    def start(self, argv: list[str], **environ: str) -> subprocess.Popen[str]:
        rank = str(len(self.started))
        named = {"SLURM_STEP_ID": "0", "RANK": rank, "SLURM_PROCID": rank, **environ}
        one = subprocess.Popen(argv, env={**self.environ, **named}, stdout=subprocess.PIPE, text=True)
        self.started.append(one)
        assert line(one) == "ready"
        return one

    def signal(self, name: str, **environ: str) -> list[dict[str, Any]]:
        argv = [sys.executable, "-I", "-S", str(self.archive), "signal", name]
        done = subprocess.run(
            argv, env={**self.environ, **environ}, check=True, timeout=20, capture_output=True, text=True
        )
        assert done.stderr == ""
        return [json.loads(text) for text in done.stdout.splitlines()]


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


@pytest.fixture
def ranks(launch_archive: Path) -> Iterator[Ranks]:
    opened = Ranks(launch_archive)
    yield opened
    for one in opened.started:
        with one:
            one.kill()


@pytest.mark.parametrize("name", ["USR1", "SIGUSR1", str(int(signal.SIGUSR1))])
def test_a_program_that_catches_the_signal_gets_it_once(ranks: Ranks, name: str) -> None:
    one = ranks.start([sys.executable, "-c", CATCHES])
    for _ in range(2):
        told = ranks.signal(name)
        assert told == [{"rank": 0, "host": "n 'é'", "pid": one.pid, "sent": True}]
        assert line(one) == "got it"


def test_a_program_that_knows_no_signals_is_left_alone(ranks: Ranks) -> None:
    one = ranks.start(PLAIN)
    assert ranks.signal("USR1") == [{"rank": 0, "host": "n 'é'", "pid": one.pid, "sent": False}]
    os.kill(one.pid, signal.SIGTERM)
    assert one.wait(timeout=10) == -signal.SIGTERM


def test_ranks_of_another_step_are_left_alone(ranks: Ranks) -> None:
    ranks.start([sys.executable, "-c", CATCHES])
    assert ranks.signal("USR1", SLURMKIT_STEP="2") == []


def test_a_name_that_is_no_signal_is_said(ranks: Ranks) -> None:
    argv = [sys.executable, "-I", "-S", str(ranks.archive), "signal", "--hostile $x"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, "no signal '--hostile $x'" in done.stderr) == (1, True)
