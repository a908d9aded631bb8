from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("exit_code", "ends"),
    [
        (0, 0),
        (7, 7),
        (139, -11),
        (137, -9),
        (143, -15),
        (128, 128),
        (145, 145),
        (147, 147),
        (200, 200),
        (255, 255),
    ],
)
def test_an_exit_code_that_stands_for_a_signal_ends_by_it(exit_code: int, ends: int, tmp_path: Path) -> None:
    """145 and 147 stand for SIGCHLD and SIGSTOP: they end nothing."""
    code = f"from slurmkit.recovery.agent import leave; leave({exit_code})"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False)
    assert done.returncode == ends
    assert not list(tmp_path.iterdir()), "it leaves no core"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "slurmkit: usage: python -m slurmkit.recovery.agent RUN_DIRECTORY\n"),
        (["/nonexistent/run"], "/nonexistent/run/job.toml"),
    ],
)
def test_what_the_agent_cannot_use_is_said_without_a_traceback(arguments: list[str], text: str) -> None:
    argv = [sys.executable, "-E", "-P", "-m", "slurmkit.recovery.agent", *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "")
    assert text in done.stdout
