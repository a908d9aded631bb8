from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from slurmkit.run import events
from tests.unit.cli.conftest import own_job

if TYPE_CHECKING:
    from pathlib import Path

    from slurmkit.run.paths import RunPaths
    from tests.unit.cli.conftest import Make, Slurmkit
    from tests.unit.run.conftest import FakeSlurm

DONE = ("run-ended", {"exit_code": 0})


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def paths(add_run: Make) -> RunPaths:
    """A run with two attempts of two ranks."""
    paths = add_run("r")
    for restart in range(2):
        attempt = f"12-{restart}"
        events.append(paths, "attempt-started", attempt=attempt, job_id="12")
        for rank in range(2):
            write(paths.rank_log(attempt, rank), f"rank {rank} of {attempt}\nand more")
    return paths


@pytest.mark.parametrize(
    ("options", "out"),
    [
        ((), "rank 0 of 12-1\nand more"),
        (("--rank", "1"), "rank 1 of 12-1\nand more"),
        (("--attempt", "1"), "rank 0 of 12-0\nand more"),
        (("--attempt", "12-0", "--rank", "1"), "rank 1 of 12-0\nand more"),
        (("--rank", "all"), "0: rank 0 of 12-1\n1: rank 1 of 12-1\n0: and more\n1: and more\n"),
    ],
)
def test_a_rank_of_an_attempt_is_printed(
    slurmkit: Slurmkit, paths: RunPaths, options: tuple[str, ...], out: str
) -> None:
    assert slurmkit("logs", "r", *options) == (out, "", 0)


def test_the_batch_log_stands_in(slurmkit: Slurmkit, add_run: Make) -> None:
    paths = add_run("r")
    write(paths.batch_log("12"), "module not found\n")
    assert slurmkit("logs", "r").out == "module not found\n"


def test_nothing_written_is_said(slurmkit: Slurmkit, add_run: Make) -> None:
    add_run("r")
    assert slurmkit("logs", "r") == ("", "run r has written nothing so far; `slurmkit show r` tells why\n", 0)


@pytest.mark.parametrize("rank", ["-1", "x", "", "1.5", "²"])
def test_what_is_no_rank_is_an_error(slurmkit: Slurmkit, paths: RunPaths, rank: str) -> None:
    assert slurmkit("logs", "r", "--rank", rank).code == 2


def test_following_a_run_that_has_ended_prints_its_log_and_its_end(slurmkit: Slurmkit, add_run: Make) -> None:
    paths = add_run("r", ("attempt-started", {"attempt": "12-0", "job_id": "12"}), DONE)
    write(paths.rank_log("12-0", 0), "hello\n")
    assert slurmkit("logs", "r", "-f") == ("hello\n", "r: completed\n", 0)


def test_following_goes_on_to_the_new_attempt_and_tells_the_failure(
    slurmkit: Slurmkit, paths: RunPaths, slurm: FakeSlurm
) -> None:
    slurm.live = [own_job(state="FAILED", exit_code="3:0")]
    done = slurmkit("logs", "r", "--follow", "--rank", "1")
    assert done.out == "rank 1 of 12-1\nand more"
    assert done.err == "r: failed (exit code 3)\n"


def test_bytes_that_are_no_text_pass(slurmkit: Slurmkit, add_run: Make) -> None:
    paths = add_run("r")
    write(paths.batch_log("12"), "")
    paths.batch_log("12").write_bytes(b"\x00\x1b[1m\n")
    assert slurmkit("logs", "r").out == "\x00\x1b[1m\n"
