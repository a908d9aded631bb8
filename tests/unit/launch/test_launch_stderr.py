"""The copy of stderr: all of it reaches the log in its order, the last of it reaches the record."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slurmkit.launch.record import KEPT_LINES, LONGEST_LINE, last_lines

if TYPE_CHECKING:
    from tests.unit.launch.conftest import Parent


def test_ten_megabytes_arrive_whole_and_in_order_and_the_record_has_the_end(
    parent: Parent, tmp_path: Path
) -> None:
    write = (
        "import sys\nfor n in range(200_000): sys.stderr.write(f'line {n:06d} {\"x\" * 40}\\n')\nsys.exit(3)"
    )
    log = tmp_path / "log"
    with log.open("wb") as file, parent.start([sys.executable, "-c", write], stderr=file) as process:
        process.communicate(timeout=60)
    lines = log.read_text().splitlines()
    assert process.returncode == 3
    assert [line.split()[1] for line in lines] == [f"{number:06d}" for number in range(200_000)]
    assert parent.record()["stderr_tail"] == lines[-KEPT_LINES:]


def test_what_the_program_wrote_before_it_was_killed_is_not_lost(parent: Parent) -> None:
    _, _, err = parent.run("bash", "-c", "printf 'no newline at the end' >&2; kill -9 $$")
    assert err == "no newline at the end"
    assert parent.record()["stderr_tail"] == ["no newline at the end"]


def test_a_grandchild_that_keeps_stderr_open_does_not_hold_the_parent(parent: Parent) -> None:
    with parent.start(["bash", "-c", "sleep 300 & echo $! ; echo words >&2; exit 4"]) as process:
        assert process.stdout is not None
        grandchild = int(process.stdout.readline())
        try:
            assert process.wait(timeout=30) == 4
        finally:
            os.kill(grandchild, 9)
    assert parent.record()["stderr_tail"] == ["words"]


def test_a_grandchild_that_writes_without_end_does_not_hold_the_parent(parent: Parent) -> None:
    with parent.start(["bash", "-c", "yes >&2 & echo $!; exit 4"], stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        grandchild = int(process.stdout.readline())
        assert process.wait(timeout=30) == 4
        # Without a parent to read, it dies of the broken pipe by itself.
        assert grandchild > 0


def test_a_program_that_closes_its_stderr_is_waited_for(parent: Parent) -> None:
    assert parent.run("bash", "-c", "echo words >&2; exec 2>&-; sleep 0.3; echo end; exit 6") == (
        6,
        "end\n",
        "words\n",
    )


def test_a_full_log_does_not_end_the_program(parent: Parent) -> None:
    with (
        Path("/dev/full").open("wb") as full,
        parent.start(["bash", "-c", "echo why >&2; exit 9"], stderr=full) as process,
    ):
        process.communicate(timeout=60)
    assert process.returncode == 9
    assert parent.record()["stderr_tail"] == ["why"]


def test_a_log_that_takes_no_more_for_a_while_gets_the_rest_later(parent: Parent) -> None:
    """A pipe that somebody made non-blocking, and that nobody reads until it is full."""
    end, start = os.pipe()
    os.set_blocking(start, False)
    write = "import sys; sys.stderr.write('x' * 300_000)"
    with parent.start([sys.executable, "-c", write], stderr=start) as process:
        os.close(start)
        with os.fdopen(end, "rb") as file:
            assert len(file.read()) == 300_000
        assert process.wait(timeout=30) == 0


@pytest.mark.parametrize(
    ("stderr", "lines"),
    [
        (b"", []),
        (b"\n \n", []),
        (b"one\ntwo\n\n", ["one", "two"]),
        (b"windows\r\nlines\r\n", ["windows", "lines"]),
        (b" 10%\r 50%\r100%\nTraceback\n", ["100%", "Traceback"]),
        (b" 99%\r", [" 99%"]),
        (b"caf\xe9\n", ["caf\ufffd"]),
        (b"x" * 1000, ["x" * LONGEST_LINE]),
        (b"\n".join(b"%d" % number for number in range(100)), [str(number) for number in range(80, 100)]),
    ],
)
def test_the_last_lines_are_those_that_a_terminal_would_show(stderr: bytes, lines: list[str]) -> None:
    assert last_lines(stderr) == lines
