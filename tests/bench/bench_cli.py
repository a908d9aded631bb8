"""Start-up of the command line: submit against its peers, the others against the import of click."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from slurmkit.testbed import native
from slurmkit.testbed.options import Options
from tests.bench.measure import Comparison, Program

if TYPE_CHECKING:
    from collections.abc import Iterator

JOB = """\
name = "bench"
command = ["python", "train.py", "--epochs", "3"]

[resources]
nodes = 1
gpus_per_node = 1
cpus_per_task = 1
mem = "1G"
time = "10m"

[environment]
variables = { NCCL_DEBUG = "WARN" }

[retry]
without_progress = 2
"""

STUB = """\
#!/bin/sh
case " $* " in *" --parsable "*) echo 12345 ;; *) echo Submitted batch job 12345 ;; esac
"""
"""Answers as sbatch does and costs next to nothing: what remains is the caller."""

SUBMITIT = """\
import submitit
executor = submitit.SlurmExecutor(folder="submitit")
executor.update_parameters(nodes=1, gpus_per_node=1, cpus_per_task=1, mem="1G", time=10)
executor.submit(print, 1)
"""

SIMPLE_SLURM = """\
from simple_slurm import Slurm
slurm = Slurm(nodes=1, gpus_per_node=1, cpus_per_task=1, mem="1G", time="0:10:00")
slurm.sbatch("python train.py", shell="/bin/bash")
"""


@contextmanager
def comparisons(directory: Path) -> Iterator[list[Comparison]]:
    """With a sbatch that only answers, then with a real one."""
    (directory / "job.toml").write_text(JOB)
    stub = _stub(directory)
    testbed = native.up(Options(nodes=1, gpus="a100:1"), directory / "testbed")
    try:
        real = {**testbed.environment, "XDG_STATE_HOME": str(directory / "real")}
        yield [
            *_submits(directory, stub, "stub sbatch"),
            *_submits(directory, real, "real sbatch"),
            *_readers(directory, stub),
        ]
    finally:
        native.down(testbed.root)


def _stub(directory: Path) -> dict[str, str]:
    binaries = directory / "bin"
    binaries.mkdir()
    for name in ("sbatch", "srun"):
        (binaries / name).write_text(STUB)
        (binaries / name).chmod(0o755)
    return {"PATH": f"{binaries}:/usr/bin:/bin", "XDG_STATE_HOME": str(directory / "stub")}


def _slurmkit(*arguments: str) -> list[str]:
    return [str(Path(sys.executable).with_name("slurmkit")), *arguments]


def _submits(directory: Path, environment: dict[str, str], suffix: str) -> list[Comparison]:
    ours = Program(
        name=f"slurmkit submit, {suffix}",
        argv=_slurmkit("submit", "job.toml"),
        environment=environment,
        directory=directory,
    )
    peers = [("submitit", SUBMITIT, 0.8), ("simple_slurm", SIMPLE_SLURM, None)]
    return [
        Comparison(
            ours=ours,
            other=Program(
                name=name, argv=[sys.executable, "-c", program], environment=environment, directory=directory
            ),
            budget=budget if suffix.startswith("stub") else None,
        )
        for name, program, budget in peers
    ]


def _readers(directory: Path, environment: dict[str, str]) -> list[Comparison]:
    """Commands that only look, on a run that has ended: what they cost is their own start."""
    from slurmkit.run import events
    from slurmkit.run.paths import RunPaths

    done = subprocess.run(
        _slurmkit("submit", "job.toml"),
        cwd=directory,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    paths = RunPaths(directory / "runs" / done.stdout.split()[0])
    attempt = "12345-0"
    log = paths.rank_log(attempt, 0)
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("hello\n")
    events.append(
        paths, "attempt-started", attempt=attempt, job_id="12345", restart=0, nodes=["n1"], host="n1"
    )
    events.append(paths, "attempt-ended", attempt=attempt, exit_code=0)
    events.append(paths, "run-ended", outcome="completed", exit_code=0)
    tab = {"_SLURMKIT_COMPLETE": "bash_complete", "COMP_WORDS": "slurmkit st", "COMP_CWORD": "1"}
    lines = {
        "slurmkit status RUN": (["status", paths.run_id], {}),
        "slurmkit logs RUN": (["logs", paths.run_id], {}),
        "slurmkit wait RUN": (["wait", paths.run_id], {}),
        "completion": ([], tab),
        "slurmkit --help": (["--help"], {}),
    }
    click = Program(name="import click", argv=[sys.executable, "-c", "import click"])
    return [
        Comparison(
            ours=Program(name=name, argv=_slurmkit(*words), environment={**environment, **more}),
            other=click,
            budget=1.3,
            runs=25,
        )
        for name, (words, more) in lines.items()
    ]
