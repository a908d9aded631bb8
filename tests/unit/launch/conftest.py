"""The parent of a rank as it runs in a job: from launch.pyz, in the environment of a task."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from slurmkit.launch import archive

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


@pytest.fixture(scope="session")
def launch_archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("launch") / "launch.pyz"
    archive.build(path)
    return path


@dataclass
class Parent:
    """Starts parents of one rank, and reads the record that they leave."""

    archive: Path
    records: Path
    python: str = sys.executable
    environ: dict[str, str] = field(default_factory=dict)

    def start(self, program: Sequence[str | bytes], **more: Any) -> subprocess.Popen[bytes]:
        options: dict[str, Any] = {
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "env": self.environ,
            **more,
        }
        argv = [self.python, "-I", "-S", self.archive, "--", *program]
        process: subprocess.Popen[bytes] = subprocess.Popen(argv, **options)
        return process

    def run(
        self, *program: str | bytes, environ: Mapping[str, str] | None = None, **more: Any
    ) -> tuple[int, str, str]:
        """Exit code, stdout and stderr."""
        options = {"env": self.environ | dict(environ or {})} | more
        with self.start(program, **options) as process:
            out, err = process.communicate(timeout=60)
        return process.returncode, out.decode(), err.decode()

    def record(self, rank: int = 3) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.records / f"rank-{rank:05d}.json").read_bytes())
        return found


@pytest.fixture
def parent(launch_archive: Path, tmp_path: Path) -> Parent:
    records = tmp_path / "exit records"
    records.mkdir()
    environ = {
        "PATH": os.environ["PATH"],
        "SLURM_JOB_ID": "12",
        "SLURM_STEP_ID": "0",
        "SLURM_PROCID": "3",
        "SLURM_LOCALID": "1",
        "SLURM_NODEID": "1",
        "SLURM_STEP_NUM_TASKS": "4",
        "SLURM_STEP_NUM_NODES": "2",
        "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
        "SLURM_STEP_NODELIST": "n[1-2]",
        "SLURMD_NODENAME": "n2",
        "SLURMKIT_EXIT_DIRECTORY": str(records),
        "MASTER_ADDR": "n1",
        "MASTER_PORT": "23456",
    }
    return Parent(launch_archive, records, environ=environ)
