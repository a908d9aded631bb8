"""From the start of a step to the first line of every rank: slurmkit, bare srun and torchrun in turn.

All in one allocation of a testbed, with 8 ranks on each of 2 nodes, one for each GPU, and the same program.
"""

from __future__ import annotations

import os
import secrets
import sys
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from slurmkit.launch.archive import build
from slurmkit.launch.port import ephemeral_range
from slurmkit.recovery import step
from slurmkit.recovery.attempt import Attempt
from slurmkit.recovery.monitor import open_socket
from slurmkit.recovery.rendezvous import claim_port
from slurmkit.run.paths import RunPaths
from slurmkit.slurm.environment import strip
from slurmkit.spec.model import JobSpec, Launch
from slurmkit.testbed import native
from slurmkit.testbed.daemons import wait_for
from slurmkit.testbed.options import Options
from tests.bench.measure import Comparison, Program

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from slurmkit.testbed.testbed import Testbed

NODES, PER_NODE = 2, 8
RANKS = NODES * PER_NODE
TORCHRUN = Path(__file__).parents[2] / ".venv-frameworks" / "bin" / "torchrun"
SHAPE = (f"--nodes={NODES}", f"--ntasks-per-node={PER_NODE}", f"--gpus-per-node={PER_NODE}")

FIRST_LINE = """\
import time
now = time.time()
import os, sys
rank = os.environ.get("RANK") or os.environ["SLURM_PROCID"]
with open(os.path.join(sys.argv[1], rank), "w") as file:
    file.write(str(now))
"""


@contextmanager
def comparisons(directory: Path) -> Iterator[list[Comparison]]:
    """Against bare srun and against torchrun."""
    program, moments = directory / "first.py", directory / "moments"
    program.write_text(FIRST_LINE)
    moments.mkdir()
    with ExitStack() as stack:
        testbed = native.up(Options(nodes=NODES, gpus=f"a100:{PER_NODE}"), directory / "testbed")
        stack.callback(native.down, testbed.root)
        job = allocate(testbed)
        clean, _ = strip(os.environ)
        environ = {**clean, **testbed.environment, "SLURM_JOB_ID": job}
        command = [str(program), str(moments)]

        def timed(name: str, argv: list[str], environment: Mapping[str, str]) -> Program:
            return Program(name=name, argv=argv, environment=environment, moments=moments, expected=RANKS)

        slurmkit = timed(
            "slurmkit's step",
            *as_the_agent(stack, directory / "runs" / "bench", job, environ, [sys.executable, *command]),
        )
        srun = timed("bare srun", ["srun", "--overlap", *SHAPE[:2], sys.executable, *command], environ)
        found = [Comparison(ours=slurmkit, other=srun, budget=1.5, runs=15)]
        if TORCHRUN.exists():
            line = f'exec "$0" --nnodes={NODES} --nproc-per-node={PER_NODE} --node-rank="$SLURM_NODEID" "$@"'
            meeting = ["--master-addr=n1", "--master-port=29400"]
            argv = ["srun", "--overlap", f"--nodes={NODES}", f"--ntasks={NODES}", "--ntasks-per-node=1"]
            torchrun = timed(
                "torchrun", [*argv, "bash", "-c", line, str(TORCHRUN), *meeting, *command], environ
            )
            found.append(Comparison(ours=slurmkit, other=torchrun, budget=0.25, runs=5))
        yield found


def allocate(testbed: Testbed) -> str:
    """A job that holds all nodes until the testbed goes; its id."""
    done = testbed.command(
        [
            "sbatch",
            "--parsable",
            *SHAPE,
            "--cpus-per-task=1",
            "--mem=0",
            "--output=/dev/null",
            "--wrap",
            "sleep 3600",
        ]
    )
    job = done.stdout.strip()
    asked = ["squeue", "--noheader", f"--jobs={job}", "--states=RUNNING"]
    if not wait_for(lambda: bool(testbed.command(asked).stdout.strip()), 60):
        raise RuntimeError(f"job {job} does not start: {done.stderr}")
    return job


def as_the_agent(
    stack: ExitStack, root: Path, job: str, environ: Mapping[str, str], command: list[str]
) -> tuple[list[str], dict[str, str]]:
    """The command line and the variables by which the agent starts a step."""
    paths = RunPaths(root)
    nodes = tuple(f"n{number}" for number in range(1, NODES + 1))
    attempt = Attempt(
        name=f"{job}-0", job_id=job, array_job_id=None, number=int(job), restart=0, nodes=nodes, host=nodes[0]
    )
    for folder in (paths.logs(attempt.name), paths.exit(attempt.name, 0)):
        folder.mkdir(parents=True)
    build(paths.launch_archive)
    spec = JobSpec(
        name="bench",
        command=tuple(command),
        resources={"nodes": NODES, "gpus_per_node": PER_NODE, "cpus_per_task": 1},
        launch=Launch(ntasks_per_node=PER_NODE, srun=("--overlap",)),
    )
    port, claim = claim_port(int(job), 0, 0, ephemeral_range())
    stack.enter_context(claim)
    listening = stack.enter_context(closing(open_socket()))
    environment = step.step_environment(
        environ, paths, attempt, 0, address=nodes[0], port=str(port)
    ) | step.telling_environment(
        environ,
        "127.0.0.1",
        listening.getsockname()[1],
        token=secrets.token_hex(16),
        stacks=paths.stacks(attempt.name, 0),
    )
    return step.srun_command(spec, paths, attempt.name), environment
