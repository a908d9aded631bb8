from __future__ import annotations

import os
import re
import signal
import threading
import time
from pathlib import Path

import pytest

from slurmkit.recovery import log_pattern
from slurmkit.recovery.log_pattern import AT_ONCE, LONGEST_LINE, LogPattern, TooSlow, bounded, last_step

PATTERN = r"step=(?P<step>[\d,]+)(?: loss=(?P<loss>\S+))?"


def steps(reader: LogPattern, now: float = 0.0) -> list[tuple[int, int]]:
    return [(one.rank, one.step) for one in reader.read(now)]


def append(folder: Path, rank: int, data: bytes) -> None:
    with (folder / f"rank-{rank:05d}.out").open("ab") as log:
        log.write(data)


@pytest.mark.parametrize(
    ("pattern", "line", "step", "metrics"),
    [
        (PATTERN, "step=3 loss=0.5", 3, {"loss": 0.5}),
        (PATTERN, "step=1,200 loss=3.0e-4", 1200, {"loss": 3e-4}),
        (PATTERN, "step=3 loss=?", 3, {}),
        (PATTERN, "step=3", 3, {}),
        (r"(\d+)/\d+", " 40%|####   | 41/100 [00:01<00:02]", 41, {}),
        (r"iter (\S+)", "iter 5.0", 5, {}),
    ],
)
def test_what_a_line_says(pattern: str, line: str, step: int, metrics: dict[str, float]) -> None:
    found = last_step(re.compile(pattern), 2, ["other", line, "other"])
    assert found is not None
    assert (found.rank, found.step, found.metrics) == (2, step, metrics)


@pytest.mark.parametrize(
    ("pattern", "line"), [(r"step (\S+)", "step x"), (r"step \d", "step 1"), (r"(\S+)", "nan")]
)
def test_what_is_no_step(pattern: str, line: str) -> None:
    assert last_step(re.compile(pattern), 0, [line]) is None


def test_only_new_lines_are_read_and_a_cut_one_waits_for_its_end(tmp_path: Path) -> None:
    reader = LogPattern(PATTERN, tmp_path)
    append(tmp_path, 0, b"step=1\nstep=2\nste")
    assert steps(reader) == [(0, 2)]
    append(tmp_path, 0, b"p=3")
    assert steps(reader) == []
    append(tmp_path, 0, b"4\n")
    assert steps(reader) == [(0, 34)]
    assert steps(reader) == []


def test_what_an_earlier_step_start_has_written_does_not_count(tmp_path: Path) -> None:
    append(tmp_path, 0, b"step=90\n")
    reader = LogPattern(PATTERN, tmp_path)
    assert steps(reader) == []
    append(tmp_path, 0, b"step=1\n")
    assert steps(reader) == [(0, 1)]


def test_new_logs_are_found_after_a_while(tmp_path: Path) -> None:
    reader = LogPattern(PATTERN, tmp_path)
    assert steps(reader, 1.0) == []
    append(tmp_path, 0, b"step=4\n")
    assert steps(reader, 2.0) == [(0, 4)]
    append(tmp_path, 3, b"step=4\n")
    assert steps(reader, 3.0) == []
    assert steps(reader, 12.0) == [(3, 4)]


def test_progress_bars_end_lines_with_carriage_returns(tmp_path: Path) -> None:
    reader = LogPattern(r"(\d+)/9", tmp_path)
    append(tmp_path, 0, b"1/9\r2/9\r3/")
    assert steps(reader) == [(0, 2)]


@pytest.mark.parametrize(
    "rubbish", [os.urandom(5000), b"\xff" * 9000 + b"\n", b"x" * 50_000 + b"\n", b"\0\n"]
)
def test_binary_bytes_and_endless_lines_do_no_harm(tmp_path: Path, rubbish: bytes) -> None:
    reader = LogPattern(PATTERN, tmp_path)
    append(tmp_path, 0, rubbish + b"\nstep=6\n")
    assert steps(reader) == [(0, 6)]


def test_of_an_endless_line_only_its_beginning_is_kept(tmp_path: Path) -> None:
    reader = LogPattern(PATTERN, tmp_path)
    for _ in range(5):
        append(tmp_path, 0, b"y" * 100_000)
        assert steps(reader) == []
    (tail,) = reader._tails.values()
    assert len(tail._cut) <= LONGEST_LINE


def test_of_a_log_that_grows_fast_the_end_is_looked_at(tmp_path: Path) -> None:
    reader = LogPattern(PATTERN, tmp_path)
    append(tmp_path, 0, b"step=1\n" + b"z\n" * AT_ONCE + b"step=2\n")
    assert steps(reader) == [(0, 2)]


def test_a_log_that_was_emptied_is_read_from_its_start(tmp_path: Path) -> None:
    reader = LogPattern(PATTERN, tmp_path)
    append(tmp_path, 0, b"step=100\n")
    steps(reader)
    (tmp_path / "rank-00000.out").write_bytes(b"step=2\n")
    assert steps(reader) == [(0, 2)]


def test_a_log_that_vanishes_or_is_none_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "rank-x.out").write_text("step=1\n")
    (tmp_path / "rank-00001.out").mkdir()
    reader = LogPattern(PATTERN, tmp_path)
    assert steps(reader) == []


def test_of_many_logs_the_first_is_read_always_and_the_others_in_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_pattern, "FILES_AT_ONCE", 3)
    reader = LogPattern(PATTERN, tmp_path)
    for rank in range(8):
        append(tmp_path, rank, b"step=1\n")
    found = [rank for _ in range(3) for rank, _ in steps(reader)]
    assert sorted(found) == list(range(8))
    append(tmp_path, 0, b"step=2\n")
    assert (0, 2) in steps(reader)


def test_a_costly_pattern_is_stopped_and_then_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_pattern, "MATCHING", 0.05)
    reader = LogPattern(r"(a+)+$", tmp_path)
    for _ in range(2):
        append(tmp_path, 0, b"a" * 40 + b"!\n")
        assert steps(reader) == []
    append(tmp_path, 0, b"a" * 40 + b"!\n")
    with pytest.raises(TooSlow):
        reader.read(0.0)
    assert reader.read(0.0) == []


def match_for_long(came: list[int]) -> None:
    with bounded(0.05):
        # To this thread: others of pytest's would take it, and those of the agent do not.
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        assert came == []
        end = time.monotonic() + 10
        while time.monotonic() < end:
            pass


def test_signals_wait_while_matching_and_none_is_lost_or_added() -> None:
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    came: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _: came.append(number))
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    try:
        with pytest.raises(TooSlow):
            match_for_long(came)
        assert came == [signal.SIGUSR1]
        assert os.read(read, 100) == bytes([signal.SIGUSR1])
    finally:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGUSR1, before)
        os.close(read)
        os.close(write)
    assert signal.getsignal(signal.SIGVTALRM) == signal.SIG_DFL
