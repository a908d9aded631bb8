"""Starting and ending one daemon, and knowing which process it is."""

from __future__ import annotations

import signal
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slurmkit.errors import SlurmError
from slurmkit.testbed.ports import listens
from slurmkit.testbed.process import identify, read_record, write_record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from slurmkit.testbed.process import Process

# The shell prints the pid that the daemon will have, then becomes the daemon: in a session of its own, with
# no descriptor of ours.
BECOME = 'cd /; output=$1; shift; echo $$; exec "$@" </dev/null >>"$output" 2>&1'
TAIL_LINES = 15


@dataclass(frozen=True, slots=True)
class Daemon:
    """How one daemon is started, in the foreground, and how to tell that it serves."""

    name: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    address: int | Path
    log: Path
    output: Path
    record: Path

    def process(self) -> Process | None:
        """The process that it runs as, if it runs."""
        return read_record(self.record)

    def start(self) -> None:
        """Start it unless it runs; it may not serve yet."""
        if self.process():
            return
        answer = subprocess.run(
            ["setsid", "--fork", "sh", "-c", BECOME, "sh", str(self.output), *self.argv],
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        process = identify(int(answer.stdout)) if answer.stdout.strip() else None
        if process is None:
            raise self.failure(
                "ended at once" if answer.stdout else f"was not started: {answer.stderr.strip()}"
            )
        write_record(self.record, process)

    def wait_until_serving(self, timeout: float) -> None:
        """Wait until it listens.

        Raises:
            SlurmError: it ended, or does not listen in time; with the tail of its log.
        """

        def serves() -> bool:
            if not self.process():
                raise self.failure("ended")
            return listens(self.address)

        if not wait_for(serves, timeout):
            raise self.failure(f"does not listen after {timeout:.0f} s")

    def stop(self, timeout: float = 20) -> None:
        """End it in its orderly way, and with SIGKILL where that takes longer than `timeout` seconds."""
        process = self.process()
        if process:
            process.kill(signal.SIGTERM)
            if not process.wait(timeout):
                process.kill(signal.SIGKILL)
                process.wait(timeout)
        self.record.unlink(missing_ok=True)

    def failure(self, how: str) -> SlurmError:
        """The error that says how this daemon failed, with the last lines that it wrote."""
        lines = [line for file in (self.log, self.output) for line in _tail(file)]
        return SlurmError(
            "\n".join([f"{self.name} {how}; its last lines:", *(f"  | {line}" for line in lines)]),
            where=str(self.log.resolve()),
        )


def wait_for(condition: Callable[[], bool], timeout: float, interval: float = 0.03) -> bool:
    """Poll `condition` until it holds; False if it does not within `timeout` seconds."""
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(interval)
    return True


def _tail(file: Path) -> list[str]:
    try:
        return file.read_text(errors="replace").splitlines()[-TAIL_LINES:]
    except FileNotFoundError:
        return []
