"""What a command imports is what its user waits for: each is started in an interpreter of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.conftest import Make

NEVER = {"pandas", "duckdb", "rich", "textual", "plotly", "numpy", "pytest", "hypothesis", "tree_sitter",
         "httpx2", "asyncio", "logging", "unittest", "slurmkit.slurm.rest",
         "slurmkit.spec.clusters"}  # fmt: skip
JOB_FILE = {"msgspec", "jinja2", "ClusterShell", "tomllib", "tomli_w"}
SLURM = {"subprocess", "slurmkit.slurm.commands", "slurmkit.slurm.records"}

STARTS: dict[str, tuple[list[str], set[str]]] = {
    "help": (["--help"], NEVER | JOB_FILE | SLURM | {"slurmkit.run", "slurmkit.spec", "slurmkit.slurm"}),
    "help of a command": (["submit", "--help"], NEVER | JOB_FILE | SLURM | {"slurmkit.run", "slurmkit.spec"}),
    "version": (["--version"], NEVER | JOB_FILE | SLURM),
    "render": (["render", "job.toml"], NEVER | SLURM | {"ClusterShell"}),
    "submit": (["submit", "job.toml"], NEVER | {"ClusterShell"}),
    "status of runs that have ended": (["status", "--json"], NEVER | JOB_FILE | SLURM),
    "logs": (["logs", "over"], NEVER | JOB_FILE | SLURM),
    "wait for a run that has ended": (["wait", "over"], NEVER | JOB_FILE | SLURM),
    "status that asks Slurm": (["status", "going", "--json"], NEVER | JOB_FILE),
    "following a run that has ended": (["logs", "-f", "over"], NEVER | JOB_FILE | SLURM),
    "cancel": (["cancel", "going"], NEVER | JOB_FILE),
    "show": (["show", "over"], NEVER),
    "runs": (["runs", "--json"], NEVER | JOB_FILE),
}
"""How a command is started, and what must not be imported by it."""

START = """
import sys
from slurmkit.cli.main import run
run(sys.argv[1:])
print("imported:", *sys.modules, file=sys.stderr)
"""

STUBS = {
    "sbatch": "echo 12345",
    "squeue": "",
    "sacct": 'case "$*" in *helpformat*) echo JobID State ExitCode Submit Start End User JobName;; esac',
    "scancel": "",
    "scontrol": "",
}


@pytest.fixture
def binaries(tmp_path: Path) -> Path:
    """Slurm's commands, as far as these commands call them."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, body in STUBS.items():
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)
    return folder


def imported(arguments: list[str], binaries: Path, **environment: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", START, *arguments],
        env={
            **os.environ,
            "PATH": f"{binaries}:/usr/bin:/bin",
            "TMPDIR": str(binaries.parent),
            **environment,
        },
        capture_output=True,
        text=True,
        check=True,
    )
    *said, last = done.stderr.splitlines()
    assert last.startswith("imported:"), done.stderr
    assert not [line for line in said if line.startswith("error:")], done.stderr
    return set(last.split()[1:])


@pytest.mark.parametrize("name", STARTS)
def test_a_command_imports_nothing_that_it_does_not_use(
    name: str, job: Path, add_run: Make, binaries: Path
) -> None:
    started = ("attempt-started", {"attempt": "12-0", "job_id": "12"})
    over = add_run("over", started, ("run-ended", {"exit_code": 0}))
    over.logs("12-0").mkdir(parents=True)
    over.progress("12-0").write_text('{"updated": 1800000000, "step": 3}')
    if "that asks Slurm" in name or name in {"cancel", "runs"}:
        add_run("going", job_id="12345")
    arguments, forbidden = STARTS[name]
    assert imported(arguments, binaries) & forbidden == set()


@pytest.mark.parametrize("words", ["slurmkit st", "slurmkit show o"])
def test_completion_imports_no_more_than_click_and_the_index(
    words: str, add_run: Make, binaries: Path
) -> None:
    add_run("over")
    tab = {"_SLURMKIT_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    code = "import atexit, sys\natexit.register(lambda: print('imported:', *sys.modules, file=sys.stderr))\n"
    done = subprocess.run(
        [sys.executable, "-c", code + "from slurmkit.cli.main import main\nmain()"],
        env={**os.environ, **tab},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith("plain,")
    modules = set(done.stderr.split())
    assert modules & (NEVER | JOB_FILE | SLURM | {"slurmkit.run.survey", "slurmkit.spec"}) == set()


def test_import_slurmkit_imports_nothing_else() -> None:
    code = "import sys; before = set(sys.modules); import slurmkit; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {"slurmkit", "__future__"}
