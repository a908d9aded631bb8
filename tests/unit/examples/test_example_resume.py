"""The training that the storm hits: exact whatever befalls it, or the storm would prove nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slurmkit.testbed.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = Path(__file__).parents[3] / "examples" / "resume" / "train.py"
STEPS = 30
BOUND = 60


class Ranks:
    """Ranks of the training as plain processes of this machine."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.all: list[subprocess.Popen[str]] = []

    def start(self, world_size: int, *words: str) -> list[subprocess.Popen[str]]:
        port = free_ports(["rank 0"])["rank 0"]
        started = [self._start(rank, world_size, port, words) for rank in range(world_size)]
        self.all += started
        return started

    def _start(self, rank: int, world_size: int, port: int, words: tuple[str, ...]) -> subprocess.Popen[str]:
        ours = {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(world_size),
            "LOCAL_WORLD_SIZE": str(world_size),
            "NODE_RANK": "0",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }
        return subprocess.Popen(
            [sys.executable, PROGRAM, "--steps", str(STEPS), "--save-every", "10", *words],
            cwd=self.directory,
            env={**os.environ, **ours},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def digest(self, world_size: int, *words: str) -> str:
        """Run to the end; the digest of the weights, as rank 0 prints it."""
        for process in reversed(self.start(world_size, "--step-time", "0", *words)):
            out, _ = process.communicate(timeout=BOUND)
            assert process.returncode == 0, out
        return out.splitlines()[-1]

    def close(self) -> None:
        for process in self.all:
            with process:
                process.kill()


@pytest.fixture
def ranks(tmp_path: Path) -> Iterator[Ranks]:
    ranks = Ranks(tmp_path)
    yield ranks
    ranks.close()


def test_neither_an_interruption_nor_the_number_of_ranks_changes_a_bit(ranks: Ranks) -> None:
    undisturbed = ranks.digest(1, "--checkpoints", "alone")
    assert undisturbed.startswith("weights: sha256 ")
    assert ranks.digest(4, "--checkpoints", "four") == undisturbed
    for folder, step in (("alone", 10), ("four", 20)):
        assert ranks.digest(2, "--checkpoints", "two", "--resume", f"{folder}/step-{step}") == undisturbed


def test_the_result_is_written_where_all_steps_are_done(ranks: Ranks) -> None:
    printed = ranks.digest(2)
    assert (ranks.directory / "weights.sha256").read_text() == f"{printed.split()[-1]}\n"


@pytest.mark.parametrize("victim", [0, 2])
def test_the_other_ranks_end_at_once_where_one_is_killed(ranks: Ranks, victim: int) -> None:
    started = ranks.start(4, "--step-time", "0.01", "--steps", "100000")
    stdout = started[0].stdout
    assert stdout is not None
    while "step 3" not in stdout.readline():
        assert started[0].poll() is None
    started[victim].send_signal(signal.SIGKILL)
    for rank, process in enumerate(started):
        out, _ = process.communicate(timeout=BOUND)
        assert rank == victim or (process.returncode == 1 and "Error" in out)


def test_what_an_interrupted_save_left_is_written_anew(ranks: Ranks) -> None:
    undisturbed = ranks.digest(1)
    (ranks.directory / "checkpoints" / "step-20" / "weights-0").write_bytes(b"half")
    resumed = ranks.digest(2, "--resume", "checkpoints/step-10")
    assert resumed == undisturbed == ranks.digest(1, "--resume", "checkpoints/step-20")
