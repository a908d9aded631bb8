from __future__ import annotations

import multiprocessing
import os
from typing import TYPE_CHECKING

import pytest

from slurmkit.slurm.clock import SystemClock
from slurmkit.slurm.process import Answer
from slurmkit.slurm.sharing import FAILURES, FORGOTTEN, Shared, default_folder, shared_answer

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.slurm.conftest import FakeClock

ARGV = ["squeue", "--user=me"]


class Asked:
    """Answers with the number of times that it was asked."""

    def __init__(self, code: int | None = 0) -> None:
        self.times = 0
        self.code = code

    def __call__(self) -> Answer:
        self.times += 1
        return Answer(self.code, f"{self.times} é\ufffd\n", "")


@pytest.fixture
def shared(tmp_path: Path, clock: FakeClock) -> Shared:
    return Shared(str(tmp_path / "kept"), clock)


def test_an_answer_is_kept_for_as_long_as_the_asker_accepts(shared: Shared, clock: FakeClock) -> None:
    ask = Asked()
    first = shared_answer(shared, ARGV, "c", 10, ask)
    clock.sleep(9)
    assert shared_answer(shared, ARGV, "c", 10, ask) == first
    clock.sleep(2)
    assert shared_answer(shared, ARGV, "c", 10, ask).stdout == "2 é\ufffd\n"
    assert shared_answer(shared, ARGV, "c", 1, ask).stdout == "2 é\ufffd\n"


@pytest.mark.parametrize(("argv", "conf"), [(["squeue", "--user=you"], "c"), (ARGV, "other.conf")])
def test_another_question_or_another_slurm_has_its_own_answer(
    shared: Shared, argv: list[str], conf: str
) -> None:
    ask = Asked()
    shared_answer(shared, ARGV, "c", 10, ask)
    shared_answer(shared, argv, conf, 10, ask)
    assert ask.times == 2


def test_an_answer_for_a_shorter_time_is_not_taken_for_one_of_a_longer(shared: Shared) -> None:
    ask = Asked()
    for start in ("2026-12-01", "2026-11-01"):
        shared_answer(shared, ["sacct", f"--starttime={start}"], "c", 10, ask)
    assert ask.times == 2


@pytest.mark.parametrize("code", [1, None])
def test_a_failure_is_kept_for_a_moment_only(shared: Shared, clock: FakeClock, code: int | None) -> None:
    ask = Asked(code)
    for _ in range(2):
        assert shared_answer(shared, ARGV, "c", 3600, ask).code == code
    assert ask.times == 1
    clock.sleep(FAILURES + 1)
    shared_answer(shared, ARGV, "c", 3600, ask)
    assert ask.times == 2


def test_an_answer_from_the_future_is_not_believed(shared: Shared, clock: FakeClock) -> None:
    ask = Asked()
    clock.sleep(1000)
    shared_answer(shared, ARGV, "c", 10, ask)
    clock.sleep(-1000)
    shared_answer(shared, ARGV, "c", 10, ask)
    assert ask.times == 2


@pytest.mark.parametrize("left", [b"", b'["squeue", 1', b"{}", b"[]", b"\xff\xfe"])
def test_what_a_killed_writer_left_is_no_answer(shared: Shared, left: bytes, tmp_path: Path) -> None:
    ask = Asked()
    shared_answer(shared, ARGV, "c", 10, ask)
    (file,) = (tmp_path / "kept").iterdir()
    file.write_bytes(left)
    assert shared_answer(shared, ARGV, "c", 10, ask).stdout == "2 é\ufffd\n"


def _one_of_many(folder: str, calls: str) -> None:
    def ask() -> Answer:
        with open(calls, "a", encoding="ascii") as file:  # noqa: PTH123
            file.write("x")
        return Answer(0, "told", "")

    assert shared_answer(Shared(folder, SystemClock()), ARGV, "c", 600, ask).stdout == "told"


def test_trap_158_ten_processes_that_ask_at_once_cost_one_call(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    spawn = multiprocessing.get_context("fork")
    many = [spawn.Process(target=_one_of_many, args=(str(tmp_path / "kept"), str(calls))) for _ in range(10)]
    for one in many:
        one.start()
    for one in many:
        one.join()
    assert [one.exitcode for one in many] == [0] * 10
    assert calls.read_text() == "x"


def test_answers_are_for_their_user_alone(shared: Shared, tmp_path: Path) -> None:
    shared_answer(shared, ARGV, "c", 10, Asked())
    (file,) = (tmp_path / "kept").iterdir()
    assert [path.stat().st_mode & 0o777 for path in (file.parent, file)] == [0o700, 0o600]


@pytest.mark.parametrize("trap", ["open to all", "a link", "a file"])
def test_a_folder_that_somebody_else_may_have_laid_out_is_not_used(
    tmp_path: Path, clock: FakeClock, trap: str
) -> None:
    folder = tmp_path / "kept"
    if trap == "a link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "elsewhere")
    elif trap == "a file":
        folder.write_text("")
    else:
        folder.mkdir()
        folder.chmod(0o777)
    ask = Asked()
    for _ in range(2):
        shared_answer(Shared(str(folder), clock), ARGV, "c", 10, ask)
    assert ask.times == 2


def test_answers_that_nobody_asks_for_any_more_are_removed(
    shared: Shared, tmp_path: Path, clock: FakeClock
) -> None:
    shared_answer(shared, ARGV, "c", 10, Asked())
    (old,) = (tmp_path / "kept").iterdir()
    long_ago = clock.now().timestamp() - FORGOTTEN - 1
    os.utime(old, (long_ago, long_ago))
    shared_answer(shared, ["sacct"], "c", 10, Asked())
    assert not old.exists()


def test_the_folder_is_of_this_user_and_this_host() -> None:
    folder = default_folder({"XDG_RUNTIME_DIR": "/run/user/7"})
    assert folder == f"/run/user/7/slurmkit-{os.getuid()}-{os.uname().nodename}"
