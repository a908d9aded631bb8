"""The end of stderr that a record keeps: the exception is in it, whatever was written after it."""

from __future__ import annotations

import pytest

from slurmkit.launch.record import KEPT_BYTES, KEPT_LINES, LEFT_OUT, TRACEBACK, Tail, exceptions

TRACE = f'{TRACEBACK}\n  File "a.py", line 1, in <module>\n    main()\nValueError: the reason\n'
NOISE = "".join(f"teardown {number}\n" for number in range(40))


def kept(*parts: str) -> list[str]:
    tail = Tail()
    for part in parts:
        tail.add(part.encode())
    return tail.lines()


def test_an_exception_far_above_the_end_goes_before_the_last_lines() -> None:
    lines = kept(TRACE, NOISE)
    assert lines[:2] == ["ValueError: the reason", LEFT_OUT]
    assert lines[2:] == NOISE.splitlines()[-KEPT_LINES:]


@pytest.mark.parametrize("size", [7, 4096, 65536, 10 * KEPT_BYTES])
def test_an_exception_is_kept_however_much_follows_it(size: int) -> None:
    text = TRACE + "x" * 100 + "\n" + NOISE * 200
    assert kept(*(text[at : at + size] for at in range(0, len(text), size)))[0] == "ValueError: the reason"


def test_an_exception_at_the_end_is_there_once() -> None:
    assert kept(NOISE, TRACE)[-1] == "ValueError: the reason"
    assert kept(NOISE, TRACE).count("ValueError: the reason") == 1
    assert LEFT_OUT not in kept(NOISE, TRACE)


def test_of_many_exceptions_the_last_ones_are_kept() -> None:
    traces = "".join(TRACE.replace("reason", f"reason {number}") for number in range(900))
    assert kept(traces, NOISE)[:4] == [f"ValueError: the reason {number}" for number in (897, 898, 899)] + [
        LEFT_OUT
    ]


def test_memory_is_bounded() -> None:
    tail = Tail()
    for _ in range(1000):
        tail.add(b"x" * 8192)
    assert len(tail._kept) <= 2 * KEPT_BYTES


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        (TRACE, ["ValueError: the reason"]),
        # Chained: each has its own, the program died of the last.
        (
            f"{TRACE}\nDuring handling of it:\n\n{TRACE.replace('Value', 'Key')}",
            ["ValueError: the reason", "KeyError: the reason"],
        ),
        # PyTorch's own excepthook.
        (
            "".join(f"[rank0]: {line}\n" for line in TRACE.splitlines()) + "other\n",
            ["[rank0]: ValueError: the reason"],
        ),
        # Cut off before its end.
        (f'{TRACEBACK}\n  File "a.py"\n', []),
        (f"{TRACEBACK}\n  x\n\nnot the exception\n", []),
    ],
)
def test_the_line_that_ends_a_traceback_is_found(text: str, found: list[str]) -> None:
    assert exceptions(text.splitlines()) == found
