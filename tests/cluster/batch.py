"""Rendered scripts on a testbed: submitted as they stand, waited for, and read afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurmkit.script import render
from slurmkit.spec.model import JobSpec
from tests.cluster.site import until

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slurmkit.script import Rendered
    from slurmkit.testbed.testbed import Testbed

FINAL = frozenset({"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"})
TEXTS = frozenset(
    {"Command", "WorkDir", "StdErr", "StdIn", "StdOut", "Comment", "TRES", "TresPerNode", "Dependency"}
)
DUMP = """\
import json, os, sys
told = {
    "argv": [os.fsencode(word).hex() for word in sys.argv[1:]],
    "environ": {name.decode(): value.hex() for name, value in os.environb.items() if b"%" not in name},
}
name = f"rank-{os.environ['SLURM_PROCID']}.json"
with open(f"{name}.tmp", "w") as file:
    json.dump(told, file)
os.rename(f"{name}.tmp", name)
"""


@dataclass(frozen=True, slots=True)
class Told:
    """What a rank saw: its arguments and its variables, as bytes."""

    argv: list[bytes]
    environ: dict[str, bytes]

    def text(self, name: str) -> str:
        """A variable as text; empty where it is not set."""
        return self.environ.get(name, b"").decode()


class Batch:
    """A directory with a hostile name, from which scripts are submitted to a testbed."""

    def __init__(self, testbed: Testbed, directory: Path) -> None:
        self.testbed = testbed
        self.directory = directory / "work of 'ada' $HOME (é) 100%"
        self.run_directory = self.directory / "runs" / "r-1"
        (self.run_directory / "logs").mkdir(parents=True)
        self.program = self.directory / "dump it.py"
        self.program.write_text(DUMP)

    def spec(self, *words: str, command: str | tuple[str, ...] | None = None, **sections: Any) -> JobSpec:
        """A small job; without `command` it dumps what it sees, with `words` as its arguments."""
        resources = {"nodes": 1, "mem": "100M", "time": "0:10:00", **sections.pop("resources", {})}
        return JobSpec(
            name=sections.pop("name", "job"),
            command=command or (sys.executable, str(self.program), *words),
            resources={name: value for name, value in resources.items() if value is not None},
            **sections,
        )

    def render(self, spec: JobSpec, template: str = "plain", **options: Any) -> Rendered:
        """The script of a job of this directory."""
        places = {"run_directory": self.run_directory, "run_id": "r-1", "directory": self.directory}
        return render(spec, template=template, **{**places, **options})

    def submit(self, rendered: Rendered, environment: Mapping[str, str] | None = None) -> str:
        """Hand a script to sbatch; the job id."""
        script = self.run_directory / "job.sbatch"
        script.write_bytes(rendered.text.encode("utf-8", "surrogateescape"))
        extra = rendered.environment if environment is None else environment
        return self.sbatch(*rendered.arguments, str(script), environment=extra).strip()

    def sbatch(self, *arguments: str, environment: Mapping[str, str] | None = None) -> str:
        """Call sbatch here; what it printed, which must be a job id."""
        done = subprocess.run(
            ["sbatch", "--parsable", *arguments],
            env={**os.environ, **self.testbed.environment, **(environment or {})},
            cwd=self.directory,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def show(self, job: str) -> dict[str, str]:
        """The fields of a job as scontrol has them."""
        return fields(self.testbed.command(["scontrol", "show", "job", job]).stdout)

    def wait(self, job: str) -> dict[str, str]:
        """Wait for a job's end; its fields then."""
        until(lambda: self.show(job).get("JobState") in FINAL, f"job {job} ends")
        return self.show(job)

    def run(self, spec: JobSpec, template: str = "plain", **options: Any) -> dict[str, str]:
        """Render, submit and wait; the job's fields."""
        environment = options.pop("environment", None)
        return self.wait(self.submit(self.render(spec, template, **options), environment))

    def log(self) -> str:
        """What the only batch script so far has written."""
        (log,) = (self.run_directory / "logs").glob("*.out")
        return log.read_text(errors="replace")

    def told(self) -> list[Told]:
        """What the ranks saw, by rank."""
        return read_told(self.directory)


def read_told(directory: Path) -> list[Told]:
    """What the ranks that ran in a directory saw, by rank."""
    found = sorted(directory.glob("rank-*.json"), key=lambda path: int(path.stem[5:]))
    texts = [json.loads(path.read_text()) for path in found]
    return [
        Told(
            [bytes.fromhex(word) for word in text["argv"]],
            {name: bytes.fromhex(value) for name, value in text["environ"].items()},
        )
        for text in texts
    ]


def fields(text: str) -> dict[str, str]:
    """What `scontrol show job` says: several fields on a line, except where a text has one to itself."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        others, is_first, name = line.strip().partition(" JobName=")
        if is_first:
            found["JobName"] = name
        field, _, rest = others.partition("=")
        if field in TEXTS:
            found[field] = rest.removesuffix(" ")
        else:
            words = (word.partition("=") for word in others.split())
            found |= {name: value for name, equals, value in words if equals}
    return found
