"""Programs of our own on PATH in place of Slurm's, and a clock that only tests move."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class FakeClock:
    """Stands still but for its own sleeps, which it keeps."""

    def __init__(self) -> None:
        self.time = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
        self.slept: list[float] = []
        self.on_sleep: Callable[[], None] = lambda: None

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp()

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += timedelta(seconds=seconds)
        self.on_sleep()


class Stubs:
    """A folder of shell scripts that stand for Slurm's commands and write down how they were called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {"PATH": f"{folder}:/usr/bin:/bin", "STUB_CALLS": str(folder / "calls")}

    def add(self, name: str, body: str) -> None:
        path = self.folder / name
        calls = shlex.quote(f"{self.folder}/calls")
        path.write_text(
            f"#!/bin/sh\nprintf '%s\\0' {name} \"$@\" >> {calls}\necho >> {calls}\n{body}\n",
        )
        path.chmod(0o755)

    def calls(self) -> list[list[str]]:
        """The argv of every call so far."""
        file = self.folder / "calls"
        text = file.read_text() if file.exists() else ""
        return [call.split("\0") for call in text.removesuffix("\0\n").split("\0\n")] if text else []


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def stubs(tmp_path: Path) -> Stubs:
    folder = tmp_path / "bin of 'stubs' $x"
    folder.mkdir()
    return Stubs(folder)
