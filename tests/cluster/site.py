"""The `slurmkit` command on a testbed, in a directory of its own, as a user would run it."""

from __future__ import annotations

import getpass
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurmkit.launch.files import write_atomically

if TYPE_CHECKING:
    from collections.abc import Callable

    from slurmkit.testbed.testbed import Testbed

BINARIES = Path(sys.executable).parent
BOUND = 90.0


def until(condition: Callable[[], object], what: str, bound: float = BOUND) -> None:
    """Wait for a condition, and fail with `what` where it does not come true."""
    end = time.monotonic() + bound
    while not condition():
        assert time.monotonic() < end, f"{what}: not within {bound:g} s"
        time.sleep(0.05)


def is_sbatch_at_work(place: Path) -> bool:
    """Whether an sbatch of a script in this directory, left by one who was killed, has not ended."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            argv = (process / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if b"sbatch" in argv.split(b"\0")[0] and str(place).encode() in argv:
            return True
    return False


class Site:
    """A user of a testbed: a working directory with a hostile name, runs, commands that can be wrapped."""

    def __init__(self, testbed: Testbed, directory: Path) -> None:
        self.testbed = testbed
        self.work = directory / "work of 'ada' $HOME é"
        self.wrappers = directory / "wrappers"
        self.work.mkdir()
        self.wrappers.mkdir()
        self.started: list[subprocess.Popen[str]] = []
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "SBATCH"))},
            **testbed.environment,
            "PATH": f"{self.wrappers}:{BINARIES}:{os.environ['PATH']}",
            "XDG_STATE_HOME": str(directory / "state"),
            "XDG_CONFIG_HOME": str(directory / "config"),
            "XDG_RUNTIME_DIR": str(directory),
        }

    def job(self, command: str, *, name: str = "tiny", **resources: object) -> Path:
        """A job file for a line of bash; values of `resources` are written as JSON, which TOML reads."""
        lines = [
            f"name = {json.dumps(name)}",
            f'command = ["bash", "-c", {json.dumps(command)}]',
            "[resources]",
        ]
        options = {"nodes": 1, "ntasks": 1, "mem": "100M", "time": "10m", **resources}
        lines += [f"{option} = {json.dumps(value)}" for option, value in options.items() if value is not None]
        file = self.work / f"{name}.toml"
        file.write_text("\n".join(lines) + "\n")
        return file

    def wrap(self, program: str, script: str) -> None:
        """Put a bash script in the place of a Slurm command; `$REAL` is the command itself."""
        real = next(
            path for folder in os.environ["PATH"].split(":") if (path := Path(folder, program)).is_file()
        )
        text = f"#!/bin/bash\nREAL={real}\n{script}\n".encode()
        write_atomically(self.wrappers / program, text, mode=0o755)

    def unwrap(self, program: str) -> None:
        """Give a Slurm command its place back."""
        (self.wrappers / program).unlink()

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start the command."""
        process = subprocess.Popen(
            [BINARIES / "slurmkit", *arguments],
            cwd=self.work,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def close(self) -> None:
        """End what was started and still runs, and cancel what is left in the queue."""
        for process in self.started:
            with process:
                process.kill()
        self.testbed.command(["scancel", f"--user={getpass.getuser()}"])

    def run(self, *arguments: str, code: int = 0) -> str:
        """Run the command; its stdout. Fails where the exit code is another."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=BOUND)
        assert process.returncode == code, (
            f"slurmkit {' '.join(arguments)}: {process.returncode}\n{out}\n{err}"
        )
        return out

    def json(self, *arguments: str, code: int = 0) -> Any:
        """What the command prints with `--json`."""
        return json.loads(self.run(*arguments, "--json", code=code))

    def submit(self, *arguments: str) -> str:
        """Submit a job file; the run id."""
        return self.run("submit", *arguments).strip()

    def state(self, run: str) -> str:
        """The state of a run as `status` tells it."""
        state: str = self.json("status", run)[0]["state"]
        return state
