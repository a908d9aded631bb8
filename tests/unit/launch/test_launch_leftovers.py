"""Programs of an earlier start of the run are ended before the next one, and nobody else's are."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from slurmkit.launch import leftovers
from slurmkit.launch.leftovers import end_leftovers, is_there, of_run
from slurmkit.launch.stacks import Process, read_processes

if TYPE_CHECKING:
    from collections.abc import Iterator

RANK = {
    "SLURMKIT_RUN_ID": "r-1",
    "SLURMKIT_ATTEMPT": "12-0",
    "SLURM_JOB_ID": "12",
    "SLURM_STEP_ID": "0",
}
TASK = {**RANK, "SLURMKIT_ATTEMPT": "12_3-0", "SLURM_JOB_ID": "15"}
"""Of an array, whose tasks have job ids of their own."""
FORKS = """\
import os, signal
readable, writable = os.pipe()
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.write(writable, b"x")
    signal.pause()
os.read(readable, 1)
print("ready", flush=True)
signal.pause()
"""


def process(**environ: str) -> Process:
    return Process(7, 1, environ, ["python"], is_python=True, caught=0, answers_in=None)


@pytest.mark.parametrize(
    "environ",
    [
        RANK,
        {**RANK, "SLURM_STEP_ID": "17"},
        {**RANK, "SLURMKIT_ATTEMPT": "12-3.2"},
        {**RANK, "SLURMKIT_ATTEMPT": "9-0", "SLURM_JOB_ID": "9"},
    ],
    ids=["a rank", "a step that a rank started", "a start that Slurm did not count", "of the job before"],
)
def test_what_an_earlier_start_left_is_found(environ: dict[str, str]) -> None:
    assert of_run([process(**environ)], "r-1", None) == [7]


@pytest.mark.parametrize(
    "environ",
    [
        {**RANK, "SLURMKIT_RUN_ID": "r-10"},
        {**RANK, "SLURM_STEP_ID": ""},
        {**RANK, "SLURM_STEP_ID": "-5"},
        {name: value for name, value in RANK.items() if name != "SLURM_STEP_ID"},
        {"SLURM_JOB_ID": "12", "SLURM_STEP_ID": "0"},
        {},
    ],
    ids=[
        "another run",
        "the agent's srun",
        "the agent and its srun on 26.05",
        "the agent",
        "what checks the nodes",
        "not in a job",
    ],
)
def test_what_is_no_rank_of_the_run_is_left_alone(environ: dict[str, str]) -> None:
    assert of_run([process(**environ)], "r-1", None) == []


def test_a_job_that_a_rank_submitted_is_left_alone_though_it_inherits_the_ranks_variables() -> None:
    submitted = {**RANK, "SLURM_JOB_ID": "13"}
    assert of_run([process(**submitted)], "r-1", None) == []
    assert of_run([process(**TASK, SLURM_ARRAY_JOB_ID="12")], "r-1", None) == []


def test_other_tasks_of_an_array_are_left_alone() -> None:
    assert of_run([process(**TASK)], "r-1", "15") == [7]
    assert of_run([process(**TASK)], "r-1", "16") == []


@dataclass
class Node:
    """Real processes with the variables of ranks; the job is one that no other test has."""

    job: str = field(default_factory=lambda: str(os.getpid()))
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def run_id(self) -> str:
        return f"run-{self.job}"

    def start(self, program: str, **environ: str) -> subprocess.Popen[str]:
        own = {**RANK, "SLURMKIT_RUN_ID": self.run_id, "SLURMKIT_ATTEMPT": f"{self.job}-0"}
        one = subprocess.Popen(
            [sys.executable, "-c", program],
            env={**os.environ, **own, "SLURM_JOB_ID": self.job, **environ},
            stdout=subprocess.PIPE,
            text=True,
        )
        self.started.append(one)
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
        return one


@pytest.fixture
def node() -> Iterator[Node]:
    node = Node()
    yield node
    for one in node.started:
        with one:
            one.kill()


PLAIN = "import signal; print('ready', flush=True); signal.pause()"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {PLAIN}"


def test_they_are_ended_whatever_they_ignore_and_are_counted(node: Node) -> None:
    ranks = [node.start(STUBBORN), node.start(PLAIN)]
    other = node.start(PLAIN, SLURMKIT_RUN_ID="another")
    assert end_leftovers(node.run_id, None) == (2, 0)
    assert [one.wait() for one in ranks] == [-signal.SIGKILL, -signal.SIGKILL]
    assert other.poll() is None
    assert end_leftovers(node.run_id, None) == (0, 0)


def test_what_a_rank_has_started_in_a_session_of_its_own_is_ended_with_it(node: Node) -> None:
    node.start(FORKS)
    assert end_leftovers(node.run_id, None) == (2, 0)


def test_one_that_ended_and_was_not_waited_for_by_its_parent_is_gone(node: Node) -> None:
    rank = node.start(PLAIN)
    rank.kill()
    os.waitid(os.P_PID, rank.pid, os.WEXITED | os.WNOWAIT)
    assert not is_there(rank.pid)
    assert end_leftovers(node.run_id, None) == (0, 0)
    assert is_there(os.getpid())


def test_one_that_was_started_while_the_others_were_being_ended_is_found_too(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, late = node.start(PLAIN), node.start(PLAIN)
    monkeypatch.setattr(
        leftovers,
        "read_processes",
        lambda: [one for one in read_processes() if one.pid != late.pid or first.poll() is not None],
    )
    assert end_leftovers(node.run_id, None) == (2, 0)
    assert late.wait() == -signal.SIGKILL


def test_one_that_the_kernel_does_not_end_is_told_of_after_a_while(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = node.start(PLAIN)
    kill = os.kill
    monkeypatch.setattr(os, "kill", lambda pid, number: pid == held.pid or kill(pid, number))
    monkeypatch.setattr(leftovers, "GONE_WITHIN", 0.1)
    assert end_leftovers(node.run_id, None) == (1, 1)
    assert held.poll() is None
