"""Signals through the parent: each reaches the program once, and the parent lives to tell."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import subprocess

    from tests.unit.launch.conftest import Parent

NOTE = """
import os, signal, sys
def note(number, frame):
    os.write(1, b"%d\\n" % number)
woken, wakes = os.pipe()
os.set_blocking(wakes, False)
signal.set_wakeup_fd(wakes)  # unlike pause(), it misses none that comes just before
most = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}
for number in most if sys.argv[1:] == ["all"] else [getattr(signal, name) for name in sys.argv[1:]]:
    signal.signal(number, note)
os.write(1, b"ready\\n")
while True:
    os.read(woken, 1)
"""
"""Prints each signal that it gets, of those that are named or of all; ends with SIGKILL only then."""


def start(parent: Parent) -> subprocess.Popen[bytes]:
    process = parent.start([sys.executable, "-c", NOTE, "all"])
    assert line(process) == "ready"
    return process


def line(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().decode().strip()


def end(process: subprocess.Popen[bytes], program: int) -> None:
    if os.getpgid(program) == program:  # with all that a shell has started
        os.killpg(program, signal.SIGKILL)
    else:
        os.kill(program, signal.SIGKILL)
    process.communicate(timeout=30)


def program_of(process: subprocess.Popen[bytes]) -> int:
    return int(children_of(process))


def children_of(process: subprocess.Popen[bytes]) -> str:
    return Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()


@pytest.mark.parametrize(
    "name", ["TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "CONT", "TSTP", "ALRM", "XCPU", "WINCH", "RTMIN"]
)
def test_a_signal_is_passed_on_exactly_once(parent: Parent, name: str) -> None:
    number = getattr(signal, f"SIG{name}")
    with start(parent) as process:
        os.kill(process.pid, number)
        assert line(process) == str(int(number))
        # Whatever had come twice would stand before the answer to the next one.
        os.kill(process.pid, signal.SIGUSR1 if name != "USR1" else signal.SIGUSR2)
        assert line(process) == str(int(signal.SIGUSR1 if name != "USR1" else signal.SIGUSR2))
        end(process, program_of(process))
    assert parent.record()["received"][0] == number
    assert parent.record()["signal"] == signal.SIGKILL


def test_where_slurm_signals_all_processes_itself_nothing_is_passed_on(parent: Parent) -> None:
    parent.environ["SLURMKIT_SIGNALS"] = "all"
    with start(parent) as process:
        os.kill(process.pid, signal.SIGTERM)
        program = program_of(process)
        os.kill(program, signal.SIGUSR2)
        assert line(process) == str(int(signal.SIGUSR2))
        end(process, program)
    assert parent.record()["received"] == [signal.SIGTERM]


def test_a_signal_to_both_is_received_though_the_program_ends_of_it_before_it_reaches_the_parent(
    parent: Parent,
) -> None:
    with parent.start(["sleep", "600"]) as process:
        program = until_started(process)
        os.kill(process.pid, signal.SIGSTOP)
        os.kill(program, signal.SIGTERM)
        while state(program) != "Z":
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGCONT)
        while Path(f"/proc/{program}").exists():
            time.sleep(0.001)
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(timeout=30) == -signal.SIGTERM
    assert signal.SIGTERM in parent.record()["received"]


def test_a_signal_to_the_program_alone_is_its_own_end(parent: Parent) -> None:
    with parent.start(["sleep", "600"]) as process:
        os.kill(until_started(process), signal.SIGTERM)
        assert process.wait(timeout=30) == -signal.SIGTERM
    assert "received" not in parent.record()


def until_started(process: subprocess.Popen[bytes]) -> int:
    def command() -> bytes:
        return Path(f"/proc/{program_of(process)}/cmdline").read_bytes()

    while not children_of(process) or not command().startswith(b"sleep"):
        time.sleep(0.01)
    return program_of(process)


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_signal_in_the_first_moment_reaches_the_program(parent: Parent) -> None:
    """Sent as soon as the parent has blocked signals, before it may have started anything."""
    for _ in range(10):
        with parent.start(["sleep", "60"]) as process:
            while not blocks(process.pid, signal.SIGTERM):
                assert process.poll() is None
            os.kill(process.pid, signal.SIGTERM)
            assert process.wait(timeout=30) == -signal.SIGTERM
        assert parent.record()["signal"] == signal.SIGTERM
        assert parent.record()["received"] == [signal.SIGTERM]


def blocks(pid: int, number: int) -> bool:
    """Whether the process holds the signal back, or has a handler for it."""
    return any(int(masks(pid)[name], 16) >> (number - 1) & 1 for name in ("SigBlk", "SigCgt"))


def test_a_program_that_kills_its_own_group_does_not_take_the_parent_along(parent: Parent) -> None:
    code, _, _ = parent.run("bash", "-c", "kill -9 0")
    assert code == -9
    assert parent.record()["signal"] == 9


def test_where_slurm_kills_by_group_the_program_stays_in_it(parent: Parent) -> None:
    parent.environ["SLURMKIT_SIGNALS"] = "all"
    with parent.start(["sleep", "60"], start_new_session=True) as process:
        while not children_of(process):
            assert process.poll() is None
        os.killpg(process.pid, signal.SIGTERM)
        assert process.wait(timeout=30) == -signal.SIGTERM


def test_the_program_finds_signals_as_without_a_parent(parent: Parent) -> None:
    """Python ignores SIGPIPE for itself; `nohup` and Slurm may ignore others on purpose."""
    tell = ["grep", "-E", "SigBlk|SigIgn", "/proc/self/status"]

    def masks(**more: Any) -> tuple[int, int]:
        _, blocked, _, ignored = parent.run(*tell, **more)[1].split()
        # glibc's posix_spawn leaves the two signals ignored that its threads use among themselves.
        return int(blocked, 16), int(ignored, 16) & ~(3 << 31)

    assert masks() == (0, 0)
    assert masks(preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) == (0, 1)


def test_a_program_that_stops_is_not_taken_for_ended(parent: Parent) -> None:
    with start(parent) as process:
        program = program_of(process)
        os.kill(program, signal.SIGSTOP)
        os.kill(program, signal.SIGCONT)
        assert line(process) == str(int(signal.SIGCONT))
        assert process.poll() is None
        end(process, program)
    assert parent.record()["signal"] == signal.SIGKILL


CHECKPOINTS = {"SLURMKIT_CHECKPOINT_SIGNAL": "USR1"}


def start_one_that_catches(parent: Parent, *names: str, shell: str = "") -> subprocess.Popen[bytes]:
    """A program that catches these signals; `shell` is a line of bash around it."""
    argv = [sys.executable, "-c", NOTE, *names]
    process = parent.start(["bash", "-c", shell, "-", *argv] if shell else argv)
    assert line(process) == "ready"
    return process


@pytest.mark.parametrize(
    ("names", "shell", "got"),
    [
        (("SIGUSR1",), "", signal.SIGUSR1),
        (("SIGUSR1", "SIGTERM"), "", signal.SIGTERM),
        (("SIGTERM", "SIGHUP"), "", signal.SIGTERM),
        (("SIGUSR1",), '"$@" | cat', signal.SIGUSR1),
        (("SIGUSR1", "SIGTERM"), '"$@" | cat', signal.SIGUSR1),
    ],
    ids=["the one", "both", "SIGTERM only", "below a shell", "both below a shell"],
)
def test_where_checkpoints_are_asked_for_sigterm_is_what_the_program_handles(
    parent: Parent, names: tuple[str, ...], shell: str, got: int
) -> None:
    parent.environ |= CHECKPOINTS
    with start_one_that_catches(parent, *names, shell=shell) as process:
        os.kill(process.pid, signal.SIGTERM)
        assert line(process) == str(int(got))
        end(process, program_of(process))
    assert parent.record()["received"] == [signal.SIGTERM]


def test_a_program_that_knows_neither_signal_ends_at_sigterm(parent: Parent) -> None:
    parent.environ |= CHECKPOINTS
    with start_one_that_catches(parent) as process:
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(timeout=30) == -signal.SIGTERM


def test_of_two_sigterms_one_is_the_request_and_none_ends_the_program(parent: Parent) -> None:
    parent.environ |= CHECKPOINTS
    with start_one_that_catches(parent, "SIGUSR1", "SIGUSR2") as process:
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGUSR2):
            os.kill(process.pid, number)
            until_taken(process.pid)
        # The last one may come while the parent is still at the first.
        assert {line(process), line(process)} == {str(int(signal.SIGUSR1)), str(int(signal.SIGUSR2))}
        assert Path(f"/proc/{process.pid}/comm").read_text() == "slurmkit-told\n"
        end(process, program_of(process))


def test_where_the_agent_has_asked_already_sigterm_is_no_second_request(
    parent: Parent, tmp_path: Path
) -> None:
    file = tmp_path / "request"
    file.touch()
    parent.environ |= {**CHECKPOINTS, "SLURMKIT_CHECKPOINT_REQUEST": str(file)}
    with start_one_that_catches(parent, "SIGUSR1", "SIGUSR2") as process:
        for number in (signal.SIGTERM, signal.SIGUSR2):
            os.kill(process.pid, number)
            until_taken(process.pid)
        assert line(process) == str(int(signal.SIGUSR2))
        end(process, program_of(process))


def until_taken(pid: int) -> None:
    """The parent has received what was sent to it."""
    while int(masks(pid)["ShdPnd"], 16):
        pass


def masks(pid: int) -> dict[str, str]:
    return dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())


@pytest.mark.parametrize("signalled", ["parent", "all"])
def test_the_agent_is_told_of_a_sigterm(parent: Parent, signalled: str) -> None:
    """At a preemption with a grace time, Slurm tells the tasks alone."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as agent:
        agent.bind(("127.0.0.1", 0))
        agent.settimeout(30)
        place = f"127.0.0.1:{agent.getsockname()[1]}"
        told = {"SLURMKIT_PROGRESS": place, "SLURMKIT_TOKEN": "a", "SLURMKIT_SIGNALS": signalled}
        parent.environ |= {**CHECKPOINTS, **told}
        with start_one_that_catches(parent, "SIGUSR1") as process:
            assert json.loads(agent.recv(2048))["kind"] == "rank-started"
            os.kill(process.pid, signal.SIGTERM)
            notice = json.loads(agent.recv(2048))
            end(process, program_of(process))
    assert (notice["kind"], notice["rank"], notice["signal"]) == ("rank-told", 3, signal.SIGTERM)
