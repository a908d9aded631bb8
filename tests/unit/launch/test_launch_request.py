"""Whether a program is asked for a checkpoint: real processes, real signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from slurmkit.launch.request import EVERY, EVERY_BESIDES, Request, connect, number_of
from tests.unit.launch.test_launch_archive import find_python

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HEAD = """\
import os, signal, sys, threading, time
from slurmkit.checkpoint import requested
def kill(number):
    os.kill(os.getpid(), number)
def forked(code):
    pid = os.fork()
    if not pid:
        code()
        os._exit(9)
    return os.waitpid(pid, 0)[1]
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    file = tmp_path / "a request 'é' $HOME"
    return {
        **os.environ,
        "SLURMKIT_CHECKPOINT_SIGNAL": "USR1",
        "SLURMKIT_CHECKPOINT_REQUEST": str(file),
    }


def told(environ: dict[str, str], program: str, python: str = sys.executable, *options: str) -> str:
    """What a program prints, in one line."""
    done = subprocess.run(
        [python, *options, "-c", HEAD + program],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return " ".join(done.stdout.split())


@pytest.mark.parametrize("name", ["USR1", "TERM"])
def test_a_signal_is_a_request_and_it_stays(environ: dict[str, str], name: str) -> None:
    program = f"print(requested()); kill(signal.SIG{name}); print(requested(), requested())"
    assert told(environ, program) == "False True True"


def test_a_second_signal_does_no_harm(environ: dict[str, str]) -> None:
    program = "requested(); kill(10); kill(15); kill(10); print(requested())"
    assert told(environ, program) == "True"


def test_the_file_alone_is_a_request(environ: dict[str, str]) -> None:
    file = environ["SLURMKIT_CHECKPOINT_REQUEST"]
    assert told(environ, f"open({file!r}, 'x').close(); print(requested())") == "True"


def test_outside_of_a_run_nothing_is_caught_and_nothing_requested() -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("SLURMKIT_")}
    program = "print(requested(), signal.getsignal(10) == signal.getsignal(15) == signal.SIG_DFL)"
    assert told(environ, program) == "False True"


def test_a_first_call_in_another_thread_goes_by_the_file_until_the_main_thread_asks(
    environ: dict[str, str],
) -> None:
    program = """
one = threading.Thread(target=lambda: print(requested()))
one.start(); one.join()
print(signal.getsignal(10) == signal.SIG_DFL)
while signal.getsignal(10) == signal.SIG_DFL:
    requested(); time.sleep(0.01)
kill(10)
print(requested())
"""
    assert told(environ, program) == "False True True"


def test_many_threads_at_once_see_one_request(environ: dict[str, str]) -> None:
    program = """
requested()
ready, seen = threading.Barrier(5), []
def look():
    ready.wait()
    while not requested(): time.sleep(0.001)
    seen.append(1)
threads = [threading.Thread(target=look) for _ in range(4)]
for one in threads: one.start()
ready.wait(); kill(10)
for one in threads: one.join()
print(len(seen))
"""
    assert told(environ, program) == "4"


def test_a_handler_of_the_program_stays_and_the_file_tells(environ: dict[str, str]) -> None:
    file = environ["SLURMKIT_CHECKPOINT_REQUEST"]
    program = f"""
signal.signal(10, lambda *_: print("own"))
print(requested()); kill(10); print(requested())
open({file!r}, "x").close()
while not requested(): time.sleep(0.01)
print(requested())
"""
    assert told(environ, program) == "False own False True"


def test_a_handler_of_a_library_that_python_does_not_know_stays(environ: dict[str, str]) -> None:
    program = """
import faulthandler
faulthandler.register(10, file=sys.stdout)
requested(); kill(10)
print(requested())
"""
    assert told(environ, program).endswith("False")


def test_what_is_ignored_stays_ignored(environ: dict[str, str]) -> None:
    program = "signal.signal(10, signal.SIG_IGN); requested(); kill(10); print(requested())"
    assert told(environ, program) == "False"


def test_a_handler_that_the_program_sets_later_is_its_own(environ: dict[str, str]) -> None:
    program = """
requested()
signal.signal(10, lambda *_: print("own")); kill(10)
print(requested(), forked(lambda: kill(15)), signal.getsignal(15) != signal.SIG_DFL)
"""
    assert told(environ, program) == "own False 15 True"


def test_a_forked_process_ends_at_sigterm_and_takes_no_request_along(environ: dict[str, str]) -> None:
    """A data loader's workers are ended by it; a signal to one of them is none to the rank."""
    program = "requested(); print(forked(lambda: kill(15)), forked(lambda: kill(10)) >> 8, requested())"
    assert told(environ, program) == "15 9 False"


def test_a_forked_process_that_asks_itself_is_told(environ: dict[str, str]) -> None:
    program = """
requested()
def child():
    requested(); kill(15)
    os._exit(requested())
print(forked(child) >> 8, requested())
"""
    assert told(environ, program) == "1 False"


def test_a_pool_of_workers_ends_as_without(environ: dict[str, str]) -> None:
    program = """
import multiprocessing
requested()
pool = multiprocessing.get_context("fork").Pool(2)
print(pool.map(abs, [-1, 2]))
pool.terminate(); pool.join()
"""
    assert told(environ, program) == "[1, 2]"


@pytest.mark.parametrize("version", ["3.8", "3.13"])
def test_a_container_without_slurmkit_finds_it_in_the_archive(
    environ: dict[str, str], launch_archive: Path, version: str
) -> None:
    environ["PYTHONPATH"] = str(launch_archive)
    program = "requested(); kill(10); print(requested())"
    assert told(environ, program, find_python(version), "-S") == "True"


def test_the_file_is_looked_for_once_a_second_and_less_where_signals_are_caught(tmp_path: Path) -> None:
    file, now = tmp_path / "request", [100.0]
    one = Request(str(file), (), lambda: now[0])
    assert not one.is_made()
    file.touch()
    now[0] += EVERY_BESIDES - 0.1
    assert not one.is_made()
    now[0] += 0.2
    assert one.is_made()
    file.unlink()
    assert one.is_made()
    assert EVERY == 1


@pytest.fixture
def default_handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGUSR1, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("default_handlers")
def test_a_signal_that_there_is_not_leaves_sigterm_and_the_file() -> None:
    one = connect({"SLURMKIT_CHECKPOINT_SIGNAL": "NOPE"})
    assert not one.is_made()
    os.kill(os.getpid(), signal.SIGTERM)
    assert one.is_made()


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("USR1", signal.SIGUSR1),
        ("SIGUSR2", signal.SIGUSR2),
        ("term", signal.SIGTERM),
        ("10", 10),
        ("RTMIN", signal.SIGRTMIN),
        ("RTMIN+3", signal.SIGRTMIN + 3),
        ("", None),
        ("_DFL", None),
        ("NOPE", None),
        ("RTMIN+x", None),
        ("NOPE+10", None),
        ("0", None),
        ("99", None),
        ("²", None),
    ],
)
def test_signals_have_names_and_numbers(name: str, number: int | None) -> None:
    assert number_of(name) == number
