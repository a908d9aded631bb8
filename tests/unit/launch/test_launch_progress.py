from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from slurmkit.launch import progress
from slurmkit.launch.progress import EVERY, LONGEST, Teller, as_number, connect, json_number

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX = '{"token":"t","kind":"progress","rank":3,"host":"n1"'


class Told:
    """A teller with a clock that a test moves, and what it has sent."""

    def __init__(self) -> None:
        self.now = 100.0
        self.sent: list[bytes] = []
        self.teller = Teller(self.sent.append, PREFIX, lambda: self.now)

    def step(self, number: object = None, after: float = 0.0, **metrics: object) -> None:
        self.now += after
        self.teller.step(number, metrics)

    def spend(self, name: str, seconds: float) -> None:
        with self.teller.phase(name):
            self.now += seconds

    def whole(self) -> dict[str, float]:
        """The seconds by phase that the next datagram has."""
        self.teller.end()
        seconds: dict[str, float] = self.last["seconds"]
        return seconds

    @property
    def last(self) -> dict[str, Any]:
        fields: dict[str, Any] = json.loads(self.sent[-1])
        return fields


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    monkeypatch.setenv(progress.SPEAKER, str(os.getpid()))
    return Told()


def test_the_first_step_is_told_at_once(told: Told) -> None:
    told.step(7, loss=0.5)
    assert told.last["step"] == 7
    assert told.last["steps"] == 1
    assert told.last["metrics"] == {"loss": 0.5}


def test_there_is_one_datagram_a_second_and_it_counts_all_steps(told: Told) -> None:
    for number in range(100):
        told.step(number, after=0.1)
    assert len(told.sent) == pytest.approx(10, abs=1)
    assert told.last["steps"] - json.loads(told.sent[-2])["steps"] == pytest.approx(10, abs=1)


def test_time_in_a_nested_phase_is_that_phase_s_alone(told: Told) -> None:
    told.step()
    with told.teller.phase("compute"):
        told.now += 1
        told.spend("sync", 2)
        told.now += 4
    told.step()
    assert told.whole() == {"compute": 5.0, "sync": 2.0}
    assert told.last["elapsed"] == 7.0


def test_seconds_are_those_of_whole_steps(told: Told) -> None:
    told.step()
    told.spend("compute", 2)
    told.step()
    told.spend("compute", 1)
    told.now += EVERY
    told.spend("compute", 1)
    assert told.last["seconds"] == {"compute": 2.0}


def test_the_phase_that_it_is_in_is_told(told: Told) -> None:
    told.step()
    told.now += EVERY
    with told.teller.phase("sync"):
        assert told.last["in"] == "sync"


def test_a_checkpoint_is_told_when_it_begins_and_the_next_datagram_waits_for_it(told: Told) -> None:
    told.step()
    with told.teller.phase("checkpoint"):
        assert told.last["in"] == "checkpoint"
    count = len(told.sent)
    told.step(after=1.5)
    assert len(told.sent) == count
    told.step(after=1.0)
    assert told.last["checkpoints"] == 1


def test_a_checkpoint_that_fails_does_not_count_and_its_exception_passes(told: Told) -> None:
    told.step()
    with pytest.raises(OSError, match="full"), told.teller.phase("checkpoint"):
        raise OSError("full")
    told.step(after=3)
    assert told.last["checkpoints"] == 0
    assert told.last["in"] is None


def test_the_same_phase_may_be_inside_itself(told: Told) -> None:
    told.step()
    same = told.teller.phase("data")
    with same, same:
        told.now += 2
    told.step()
    assert told.whole() == {"data": 2.0}


def test_phases_left_in_the_wrong_order_do_no_harm(told: Told) -> None:
    told.step()
    data, sync = told.teller.phase("data"), told.teller.phase("sync")
    data.__enter__()
    sync.__enter__()
    data.__exit__(None, None, None)
    sync.__exit__(None, None, None)
    told.step(after=2)
    assert told.last["in"] is None


def test_phases_of_other_threads_do_not_count(told: Told) -> None:
    told.step()
    thread = threading.Thread(target=told.spend, args=("data", 5))
    thread.start()
    thread.join()
    told.step(after=2)
    assert told.last["seconds"] == {"data": 0.0}


@pytest.mark.parametrize("name", [None, 3, ["x"], "x" * 100, "\N{PILE OF POO}" * 30])
def test_a_phase_without_a_usable_name_is_another(told: Told, name: Any) -> None:
    told.step()
    with told.teller.phase(name):
        told.now += 2
    told.step()
    assert told.whole() == {"other": 2.0}


def test_no_more_than_eight_phases_have_a_name(told: Told) -> None:
    told.step()
    for number in range(20):
        told.spend(f"p{number}", 1)
    told.step()
    assert len(told.whole()) == 9
    assert told.whole()["other"] == 12.0


class Hostile:
    def __float__(self) -> float:
        raise SystemError("no")

    @property
    def device(self) -> object:
        raise RuntimeError


class OnGpu:
    device = type("device", (), {"type": "cuda"})()

    def __float__(self) -> float:
        raise AssertionError("read: that waits for the GPU")


class Tensor:
    device = type("device", (), {"type": "cpu"})()

    def __float__(self) -> float:
        return 2.5


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (1, 1.0),
        (0.5, 0.5),
        (True, 1.0),
        ("3", 3.0),
        (Tensor(), 2.5),
        (float("inf"), float("inf")),
        (10**400, None),
        (None, None),
        ("x", None),
        (1j, None),
        (Hostile(), None),
        (OnGpu(), None),
    ],
)
def test_what_a_metric_is_as_a_number(value: object, number: float | None) -> None:
    assert as_number(value) == number


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1e308, -0.0, 3.0])
def test_every_float_survives_json(value: float) -> None:
    assert repr(json.loads(json_number(value))) == repr(value)


@pytest.mark.parametrize("number", [Hostile(), float("nan"), 10**400, -(10**400), "x", object()])
def test_a_step_that_is_no_number_still_counts(told: Told, number: object) -> None:
    told.step(number)
    assert told.last["steps"] == 1
    assert told.last["step"] is None


def test_a_datagram_stays_in_one_packet_whatever_is_told(told: Told) -> None:
    told.step(1)
    for number in range(9):
        told.spend(f"{number}" * 60, 1e9)
    told.now += 5
    told.step(1 << 52, **{f"{number:>060}": -1.2345678901234567e-300 for number in range(100)})
    assert len(told.sent[-1]) <= LONGEST
    assert told.last["metrics"]


def test_nothing_is_told_before_the_first_step(told: Told) -> None:
    told.now += 10
    told.spend("data", 5)
    assert told.sent == []


def test_a_process_that_was_forked_is_silent(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    told.step()
    monkeypatch.setattr(os, "getpid", lambda: 1)
    told.step(after=5)
    assert len(told.sent) == 1


def test_a_process_started_by_one_that_tells_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(progress.SPEAKER, "1")
    told = Told()
    told.step()
    assert told.sent == []


def test_a_socket_that_refuses_does_not_end_the_program(told: Told) -> None:
    def refuse(_: bytes) -> None:
        raise BlockingIOError

    Teller(refuse, PREFIX).step(1, {})


@pytest.mark.parametrize(
    "changed",
    [
        {"SLURMKIT_PROGRESS": "login.example.org:1"},
        {"SLURMKIT_PROGRESS": "127.0.0.1"},
        {"SLURMKIT_PROGRESS": ""},
        {"SLURMKIT_TOKEN": ""},
        {"SLURMKIT_TOKEN": '"'},
        {"RANK": "", "SLURM_PROCID": ""},
        {"RANK": "x"},
        {"RANK": "²"},
    ],
)
def test_there_is_nobody_to_tell(changed: dict[str, str]) -> None:
    environ = {"SLURMKIT_PROGRESS": "127.0.0.1:1", "SLURMKIT_TOKEN": "ab", "RANK": "0"}
    teller = connect(environ)
    assert teller is not None
    teller.end()
    assert connect(environ | changed) is None


# Whole programs


@pytest.fixture
def agent() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        opened.bind(("127.0.0.1", 0))
        opened.settimeout(10)
        yield opened


def run(program: str, agent: socket.socket | None, **more: str) -> str:
    environ = {**os.environ, "RANK": "5", "SLURMD_NODENAME": 'n"1', **more}
    environ.pop(progress.SPEAKER, None)
    if agent:
        environ["SLURMKIT_PROGRESS"] = f"127.0.0.1:{agent.getsockname()[1]}"
        environ["SLURMKIT_TOKEN"] = "ab" * 16
    argv = [sys.executable, "-c", program]
    return subprocess.run(argv, env=environ, check=True, capture_output=True, text=True, timeout=60).stdout


def test_a_program_tells_of_its_first_step_and_of_its_last(agent: socket.socket) -> None:
    run("from slurmkit import progress\nfor n in range(50): progress.step(n, loss=1 / (n + 1))", agent)
    first, last = json.loads(agent.recv(2048)), json.loads(agent.recv(2048))
    assert (first["steps"], last["steps"], last["last"]) == (1, 50, True)
    assert (first["token"], first["rank"], first["host"]) == ("ab" * 16, 5, 'n"1')


def test_a_forked_child_tells_nothing_even_at_its_end(agent: socket.socket) -> None:
    run(
        "import os, sys\nfrom slurmkit import progress\nprogress.step(1)\n"
        "if os.fork() == 0:\n    progress.step(2)\n    sys.exit()\nos.wait()",
        agent,
    )
    assert [json.loads(agent.recv(2048))["steps"] for _ in range(2)] == [1, 1]
    agent.setblocking(False)
    with pytest.raises(BlockingIOError):
        agent.recv(2048)


def test_outside_of_a_run_nothing_is_loaded_and_nothing_happens() -> None:
    out = run(
        "import sys\nfrom slurmkit import progress\nprogress.step(1, loss=object())\n"
        "with progress.phase('data'): pass\n"
        "print(*{'json', 'socket', 'faulthandler', 'slurmkit.spec'} & set(sys.modules))",
        None,
    )
    assert out.split() == []


def test_a_program_answers_the_signal_with_the_stacks_of_its_threads(agent: socket.socket) -> None:
    out = run(
        "import os, glob\nfrom slurmkit import progress\nprogress.step(1)\n"
        "def here(): os.kill(os.getpid(), 44)\nhere()\n"
        "for name in glob.glob('/proc/self/fd/*'):\n"
        "    if os.path.lexists(name) and 'slurmkit-stacks' in os.readlink(name): print(open(name).read())",
        agent,
    )
    assert "in here" in out


def test_a_signal_that_the_program_handles_itself_stays_its_own(agent: socket.socket) -> None:
    out = run(
        "import os, signal\nfrom slurmkit import progress\n"
        "signal.signal(44, lambda *_: print('mine'))\nprogress.step(1)\nos.kill(os.getpid(), 44)",
        agent,
    )
    assert out == "mine\n"


def test_without_memory_files_the_stacks_go_into_a_file_without_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "memfd_create")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    descriptor = progress._open_file()
    assert progress.STACKS_FILE in str(Path(f"/proc/self/fd/{descriptor}").readlink())
    os.close(descriptor)
    assert list(tmp_path.iterdir()) == []


def test_a_container_finds_it_in_the_archive(launch_archive: Path) -> None:
    assert "slurmkit/progress.py" in zipfile.ZipFile(launch_archive).namelist()
    program = "import sys; sys.path.insert(0, sys.argv[1]); from slurmkit import progress; progress.step(1)"
    subprocess.run([sys.executable, "-I", "-S", "-c", program, launch_archive], check=True)
