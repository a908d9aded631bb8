"""Attending to a step. A shell stands for srun; a socket, and findings given beforehand, for the monitor."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

WATCH = """
import os, signal, socket, sys
from types import SimpleNamespace
from slurmkit.recovery import step, watching
from slurmkit.slurm.clock import SystemClock

class Monitor:
    ours, theirs = socket.socketpair()
    world_size = 2
    def fileno(self): return self.ours.fileno()
    def receive(self, now):
        try:
            kind, code = self.ours.recv(100, socket.MSG_DONTWAIT).decode().split()
        except BlockingIOError:
            return []
        return [SimpleNamespace(kind=kind, rank=0, fields={"exit_code": int(code)})]
    def tick(self, now): return FINDINGS.pop() if FINDINGS else []

TAKEN = signal.SIGQUIT
FINDINGS, GRACE, NOTICE = [list(found) for found in eval(sys.argv[1])], eval(sys.argv[2]), sys.argv[3]
monitor = Monitor()
if NOTICE:
    monitor.theirs.send(NOTICE.encode())
mask = signal.pthread_sigmask(signal.SIG_BLOCK, watching.WATCHED)
argv = sys.argv[4:]
srun, stderr = step.start(argv, argv[0], dict(PATH="/usr/bin:/bin"), mask)
watching.TICK, watching.SRUN_IN_VAIN = 0.05, 0.1
must_end = lambda finding: print("found", finding, flush=True) or finding == "hung"
class Attendant:
    def takes(self, number): return number == TAKEN
    def tick(self, seen): return "end it" in seen.said
seen = watching.watch(
    srun, stderr, monitor, clock=SystemClock(), grace=GRACE, must_end=must_end, attendant=Attendant()
)
print(seen.status, *sorted(seen.received), *(["killed"] if seen.killed else []), *seen.said)
"""


def command(script: str, *, findings: str = "[]", grace: str = "None", notice: str = "") -> list[str]:
    bash = shutil.which("bash")
    assert bash
    return [sys.executable, "-c", WATCH, findings, grace, notice, bash, "-c", script]


def watched(
    script: str, *, findings: str = "[]", grace: str = "None", notice: str = ""
) -> subprocess.CompletedProcess[str]:
    argv = command(script, findings=findings, grace=grace, notice=notice)
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)


@pytest.fixture
def watching() -> Iterator[subprocess.Popen[str]]:
    """An agent that watches a shell that says what it gets."""
    script = """
        trap 'echo usr1' USR1; trap 'echo hup' HUP; trap 'echo term' TERM; trap 'exit 7' USR2
        echo "ready $$"; while :; do sleep 0.02; done"""
    with subprocess.Popen(command(script), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        program = int(process.stdout.readline().removeprefix("ready "))
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.kill(program, signal.SIGKILL)
            process.communicate(timeout=30)


def test_signals_are_passed_on_once_and_a_sigterm_is_only_noted(watching: subprocess.Popen[str]) -> None:
    assert watching.stdout is not None
    os.kill(watching.pid, signal.SIGTERM)
    for number, said in ((signal.SIGUSR1, "usr1"), (signal.SIGHUP, "hup"), (signal.SIGUSR1, "usr1")):
        os.kill(watching.pid, number)
        assert watching.stdout.readline() == f"{said}\n"
    os.kill(watching.pid, signal.SIGUSR2)
    assert watching.stdout.read() == f"{7 << 8} 1 10 10 12 15\n"


def test_a_signal_that_is_for_the_agent_itself_is_not_passed_on(watching: subprocess.Popen[str]) -> None:
    assert watching.stdout is not None
    os.kill(watching.pid, signal.SIGQUIT)  # srun would end at it
    os.kill(watching.pid, signal.SIGHUP)
    assert watching.stdout.readline() == "hup\n"
    os.kill(watching.pid, signal.SIGUSR2)
    assert watching.stdout.read() == f"{7 << 8} 1 3 12\n"


def test_srun_stands_in_a_group_of_its_own_so_that_nothing_reaches_it_twice(
    watching: subprocess.Popen[str],
) -> None:
    children = Path(f"/proc/{watching.pid}/task/{watching.pid}/children").read_text().split()
    assert [os.getpgid(int(child)) for child in children] == [int(child) for child in children]


def test_srun_starts_with_no_signal_held_back_and_nothing_to_read() -> None:
    done = watched("grep SigBlk /proc/self/status; readlink /proc/self/fd/0")
    assert done.stdout.split() == ["SigBlk:", "0" * 16, os.devnull, "0"]


def test_what_srun_says_goes_to_the_batch_log_and_is_kept() -> None:
    done = watched("echo 'srun: error: n1: task 3: Out Of Memory' >&2; exit 1")
    assert done.stderr == "srun: error: n1: task 3: Out Of Memory\n"
    assert done.stdout == f"{1 << 8} srun: error: n1: task 3: Out Of Memory\n"


def test_after_a_failure_the_others_have_their_grace_and_no_more() -> None:
    done = watched("exec sleep 60", grace="0.1", notice="rank-ended 1")
    assert done.stdout == f"{int(signal.SIGTERM)} killed\n"


def test_where_slurm_ends_the_job_an_srun_that_does_not_end_is_not_waited_for() -> None:
    done = watched("trap '' TERM; kill -TERM $PPID; echo end it >&2; while :; do sleep 0.02; done")
    assert done.stdout == f"{int(signal.SIGKILL)} {int(signal.SIGTERM)} killed end it\n"


def test_a_rank_that_ends_well_ends_no_other() -> None:
    done = watched("sleep 0.5", grace="0.1", notice="rank-ended 0")
    assert done.stdout == "0\n"


def test_without_a_grace_the_others_go_on() -> None:
    done = watched("sleep 0.5", grace="None", notice="rank-ended 1")
    assert done.stdout == "0\n"


def test_a_finding_may_end_the_step() -> None:
    done = watched("exec sleep 60", findings="[['hung', 'late'], ['slow']]")
    assert done.stdout == f"found slow\nfound hung\nfound late\n{int(signal.SIGTERM)} killed\n"
