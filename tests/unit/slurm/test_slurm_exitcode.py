from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmkit.slurm.exitcode import ExitCode


@pytest.mark.parametrize(
    ("text", "code", "signal", "status"),
    [
        ("0:125", 0, 125, 1),
        ("0:9", 0, 9, 137),
        ("3:0", 3, 0, 3),
        ("0:15", 0, 15, 143),
        ("0:0", 0, 0, 0),
        ("0:53", 0, 53, 181),
    ],
)
def test_trap_019_code_and_signal_are_kept_apart(text: str, code: int, signal: int, status: int) -> None:
    parsed = ExitCode.parse(text)
    assert (parsed.code, parsed.signal, parsed.status) == (code, signal, status)


@pytest.mark.parametrize("text", ["", "0", "0:", ":0", "a:b", "-1:0", "0:0:0", "²:0"])
def test_what_is_no_exit_code_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="not an exit code"):
        ExitCode.parse(text)


def test_only_zero_and_no_signal_is_success() -> None:
    assert [ExitCode.parse(text).is_success for text in ("0:0", "0:125", "1:0")] == [True, False, False]


@given(st.builds(ExitCode, st.integers(0, 255), st.integers(0, 127)))
def test_exit_codes_read_back_what_they_print(exit_code: ExitCode) -> None:
    assert ExitCode.parse(str(exit_code)) == exit_code
