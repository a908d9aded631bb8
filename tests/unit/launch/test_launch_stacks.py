from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from slurmkit.launch.stacks import Process, programs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

STEP = {"SLURM_JOB_ID": "12", "SLURMKIT_ATTEMPT": "12-0", "SLURMKIT_STEP": "0"}
OURS = {**STEP, "SLURM_STEP_ID": "1"}
ANSWERS = """\
import time
from slurmkit import progress
progress.step(1)
def waits_for_ever():
    with progress.phase("sync"):
        print("ready", flush=True)
        time.sleep(600)
waits_for_ever()
"""
PLAIN = "import time; print('ready', flush=True); time.sleep(600)"


def process(pid: int, parent: int = 1, **changed: Any) -> Process:
    environ = {**STEP, "SLURM_STEP_ID": "0", "SLURM_PROCID": "3", "RANK": "3", **changed.pop("environ", {})}
    fields = {"argv": ["python", "train.py"], "is_python": True, "caught": 0, "answers_in": None, **changed}
    return Process(pid=pid, parent=parent, environ=environ, **fields)


@pytest.mark.parametrize(
    "other",
    [
        process(7, environ={"SLURM_JOB_ID": "13"}),
        process(7, environ={"SLURMKIT_ATTEMPT": "12-1"}),
        process(7, environ={"SLURMKIT_STEP": "1"}),
        process(7, environ={"SLURM_STEP_ID": "1"}),
        process(7, environ={"SLURM_STEP_ID": ""}),
        process(7, environ={"RANK": "", "SLURM_PROCID": ""}),
        process(7, argv=["python", "-I", "-S", "/runs/r/launch.pyz", "--", "train"]),
    ],
    ids=["another job", "another attempt", "another start", "this program", "srun", "no rank", "the parent"],
)
def test_what_is_no_rank_of_the_step_is_left_alone(other: Process) -> None:
    assert programs([other], OURS) == {}


@pytest.mark.parametrize(
    ("candidates", "chosen"),
    [
        ([process(5, is_python=False), process(6, 5)], 6),
        ([process(9), process(4, 9)], 9),
        ([process(9), process(4, 9, answers_in="/proc/4/fd/3")], 4),
        ([process(8, environ={"RANK": ""}), process(9, 8)], 9),
    ],
    ids=["the Python below a shell", "the topmost", "one that answers", "one with a RANK"],
)
def test_which_process_of_a_rank_is_asked(candidates: list[Process], chosen: int) -> None:
    for order in (candidates, candidates[::-1]):
        assert {rank: one.pid for rank, one in programs(order, OURS).items()} == {3: chosen}


class Ranks:
    """Real processes that look like ranks of a step."""

    def __init__(self, archive: Path, folder: Path) -> None:
        self.archive = archive
        self.folder = folder
        self.started: list[subprocess.Popen[str]] = []
        self.environ = {**os.environ, **STEP, "SLURM_STEP_ID": "0", "SLURMKIT_TOKEN": "a"}
        self.environ |= {"SLURM_JOB_ID": str(os.getpid()), "SLURMKIT_PROGRESS": "127.0.0.1:9"}

    def start(self, argv: list[str], **environ: str) -> subprocess.Popen[str]:
        rank = str(len(self.started))
        one = subprocess.Popen(
            argv,
            env={**self.environ, "RANK": rank, "SLURM_PROCID": rank, **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(one)
        assert one.stdout
        assert one.stdout.readline() == "ready\n"
        return one

    def dump(self, **environ: str) -> list[str]:
        ours = {**self.environ, "SLURM_STEP_ID": "1", "SLURMKIT_STACKS": str(self.folder), **environ}
        argv = [sys.executable, "-I", "-S", str(self.archive), "stacks"]
        subprocess.run(argv, env=ours, check=True, timeout=20)
        return [path.read_text() for path in sorted(self.folder.iterdir())]


@pytest.fixture
def ranks(launch_archive: Path, tmp_path: Path) -> Iterator[Ranks]:
    opened = Ranks(launch_archive, tmp_path / "stacks")
    yield opened
    for one in opened.started:
        with one:
            one.kill()


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def test_a_program_that_tells_of_its_progress_shows_where_it_is_and_goes_on(ranks: Ranks) -> None:
    one = ranks.start(python(ANSWERS))
    for _ in range(2):
        (text,) = ranks.dump(PATH="/nowhere")
        assert text.count("in waits_for_ever") == 1
        assert text.startswith("rank 0 on ")
    assert one.poll() is None


def test_a_python_that_has_a_fault_handler_writes_its_stack_to_its_log_at_last(ranks: Ranks) -> None:
    answering = ranks.start(python(ANSWERS), WORLD_SIZE="2")
    aborted = ranks.start(python(PLAIN), WORLD_SIZE="2", PYTHONFAULTHANDLER="1")
    start = time.monotonic()
    first, second = ranks.dump(PATH="/nowhere")
    assert time.monotonic() - start < 5
    assert "in waits_for_ever" in first
    assert "SIGABRT was sent" in second
    assert "most recent call first" in aborted.communicate(timeout=10)[1]
    assert answering.poll() is None


def test_of_any_other_program_what_the_kernel_knows_is_told(ranks: Ranks) -> None:
    one = ranks.start(["bash", "-c", "echo ready; sleep 600; true"])
    (text,) = ranks.dump(PATH="/nowhere")
    assert "no stack" in text
    assert "'sleep 600', state S" in text
    assert one.poll() is None
    subprocess.run(["pkill", "-P", str(one.pid)], check=True)


def test_py_spy_goes_before_all_others(ranks: Ranks, tmp_path: Path) -> None:
    ranks.start(python(PLAIN))
    spy = tmp_path / "py-spy"
    spy.write_text('#!/bin/sh\necho "spied: $*"\n')
    spy.chmod(0o755)
    (text,) = ranks.dump(PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert f"by py-spy:\nspied: dump --pid {ranks.started[0].pid}" in text


def test_a_py_spy_that_is_not_allowed_leaves_it_to_the_others(ranks: Ranks, tmp_path: Path) -> None:
    ranks.start(python(ANSWERS))
    spy = tmp_path / "py-spy"
    spy.write_text("#!/bin/sh\necho no; exit 1\n")
    spy.chmod(0o755)
    (text,) = ranks.dump(PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert "in waits_for_ever" in text


def test_without_a_folder_it_says_who_starts_it(launch_archive: Path) -> None:
    environ: Mapping[str, str] = {
        name: value for name, value in os.environ.items() if name != "SLURMKIT_STACKS"
    }
    argv = [sys.executable, "-I", "-S", str(launch_archive), "stacks"]
    done = subprocess.run(argv, env=environ, check=False, capture_output=True, text=True)
    assert (done.returncode, "slurmkit's agent" in done.stderr) == (1, True)
