"""A user of a cluster of containers: files in a home on the shared folder, commands on the login node."""

from __future__ import annotations

import json
import secrets
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.docker.conftest import SOURCE

if TYPE_CHECKING:
    from collections.abc import Callable

    from slurmkit.testbed.compose import ComposeTestbed

PYTHON = "/opt/slurmkit/bin/python"
TRAIN = f"{SOURCE}/examples/resume/train.py"


def until(condition: Callable[[], object], what: str, bound: float = 90) -> None:
    """Wait for a condition, and fail with `what` where it does not come true."""
    end = time.monotonic() + bound
    while not condition():
        assert time.monotonic() < end, f"{what}: not within {bound:g} s"
        time.sleep(0.5)


class User(NamedTuple):
    """Somebody with a home in /shared."""

    cluster: ComposeTestbed
    name: str

    def call(self, *argv: str, timeout: float = 120) -> tuple[int, str]:
        """The exit code of a command on the login node, and all that it printed."""
        done = self.cluster.command(argv, user=self.name, timeout=timeout)
        return done.returncode, done.stdout + done.stderr

    def run(self, *argv: str, timeout: float = 120) -> str:
        """What a command printed on stdout; it must succeed."""
        done = self.cluster.command(argv, user=self.name, timeout=timeout)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def write(self, name: str, text: str) -> None:
        """Put a file into the user's home."""
        self.run("sh", "-c", 'printf %s "$1" >"$2"', "sh", text, name)

    def submit(self, job: str) -> str:
        """Submit a job file that has this text; the run id."""
        self.write("job.toml", job)
        return self.run("slurmkit", "submit", "job.toml").split()[0]

    def events(self, run: str, kind: str) -> list[dict[str, Any]]:
        """The events of a kind in a run's directory."""
        lines = self.run("cat", f"runs/{run}/events.jsonl").splitlines()
        return [event for event in map(json.loads, lines) if event["event"] == kind]

    def state(self, run: str) -> str:
        """The run's state as `status` tells it."""
        (status,) = json.loads(self.run("slurmkit", "status", run, "--json"))
        state: str = status["state"]
        return state

    def sees_completed(self, run: str, bound: float) -> None:
        """Wait until a run has completed; else its events, the queue and the daemons' logs are told."""
        end = time.monotonic() + bound
        while self.state(run) != "completed":
            if time.monotonic() > end:
                story = self.run("sh", "-c", f"cat runs/{run}/events.jsonl; squeue; sinfo -N -o '%n %T %E'")
                story += self.cluster.compose("logs", "--no-color", "--timestamps", "--tail=100").stdout
                raise AssertionError(f"the run has not completed within {bound:g} s:\n{story}")
            time.sleep(0.5)

    def nodes(self, job: str) -> list[str]:
        """The nodes of a job that runs; none while it does not."""
        hosts = self.run("squeue", "--noheader", "--states=RUNNING", f"--jobs={job}", "--format=%N").strip()
        return self.run("scontrol", "show", "hostnames", hosts).split() if hosts else []


def training(*lines: str, steps: int = 400) -> str:
    """A job file: two ranks on two nodes, whose steps take a tenth of a second; they save every tenth."""
    command = [PYTHON, TRAIN, "--steps", str(steps), "--step-time", "0.1", "--save-every", "10"]
    return "\n".join(
        [
            'name = "training"',
            f"command = {json.dumps(command)}",
            *("[resources]", "nodes = 2", "ntasks_per_node = 1", 'mem = "100M"', 'time = "20m"'),
            *lines,
            *("[progress]", f"total = {steps}"),
            *(
                "[checkpoint]",
                f'path = "checkpoints-{secrets.token_hex(4)}"',
                'resume = ["--resume", "{checkpoint}"]',
                "",
            ),
        ]
    )
