from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from slurmkit.run.tail import REACH, tail

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"one\ntwo", ["one", "two"]),
        (b"one\ntwo\n", ["one", "two"]),
        (b"1\n2\n3\n4\n", ["2", "3", "4"]),
        (b"\n\n", ["", ""]),
        (b"\x1b[1;31mred\x1b[0m \x1b]0;title\x07text\x1b(B\x1b7", ["red text"]),
        (b"\x1b]0;title\x1b\\text \x1b[?25l\x1b[2K", ["text "]),
        (b"cut \x1b[3", ["cut "]),
        (b" 10%|#\r 50%|##\r100%|###\r\nnext", ["100%|###", "next"]),
        (b"a\tb", ["a   b"]),
        ("é\n".encode() + b"\xff", ["é", "\ufffd"]),
    ],
)
def test_the_last_lines_are_as_they_were_seen(tmp_path: Path, data: bytes, lines: list[str]) -> None:
    log = tmp_path / "log"
    log.write_bytes(data)
    assert tail(log, 3) == lines


def test_of_a_long_log_only_the_end_is_read_and_no_half_line_shown(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"x" * (3 * REACH) + b"\n" + b"y" * 100 + b"\nend\n")
    assert tail(log, 10) == ["y" * 100, "end"]


def test_no_log_is_no_line(tmp_path: Path) -> None:
    assert tail(tmp_path / "nothing", 3) == []
