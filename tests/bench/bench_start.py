"""From the start of a step to the first line of every rank: slurmkit, bare srun and torchrun in turn.

All in one allocation of a testbed of 2 nodes, with the same program.
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

NODES, GPUS = 2, 8
ROOMY = max(1, min(GPUS, (os.cpu_count() or 1) // NODES))
"""So few ranks of a node that each has a core, as on a cluster: the budget is for these."""
TORCHRUN = Path(__file__).parents[2] / ".venv-frameworks" / "bin" / "torchrun"

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
    """Against bare srun with a core for each rank and with one for each GPU, and against torchrun."""
    program, moments = directory / "first.py", directory / "moments"
    program.write_text(FIRST_LINE)
    moments.mkdir()
    command = [str(program), str(moments)]
    with ExitStack() as stack:
        testbed = native.up(Options(nodes=NODES, gpus=f"a100:{GPUS}"), directory / "testbed")
        stack.callback(native.down, testbed.root)
        job = allocate(testbed)
        clean, _ = strip(os.environ)
        environ = {**clean, **testbed.environment, "SLURM_JOB_ID": job}

        def timed(name: str, count: int, argv: list[str], environment: Mapping[str, str]) -> Program:
            name = f"{name}, {count} ranks"
            return Program(name=name, argv=argv, environment=environment, moments=moments, expected=count)

        def ours(per_node: int) -> Program:
            root = directory / "runs" / f"bench-{per_node}"
            started = as_the_agent(stack, root, job, environ, [sys.executable, *command], per_node=per_node)
            return timed("slurmkit's step", NODES * per_node, *started)

        def srun(per_node: int) -> Program:
            return timed("bare srun", NODES * per_node, [*bare(per_node), sys.executable, *command], environ)

        found = [
            Comparison(ours=ours(ROOMY), other=srun(ROOMY), budget=1.5, runs=25),
            Comparison(ours=ours(GPUS), other=srun(GPUS)),
        ]
        if TORCHRUN.exists():
            line = f'exec "$0" --nnodes={NODES} --nproc-per-node={GPUS} --node-rank="$SLURM_NODEID" "$@"'
            meeting = ["--master-addr=n1", "--master-port=29400"]
            argv = [*bare(1), "bash", "-c", line, str(TORCHRUN), *meeting, *command]
            other = timed("torchrun", NODES * GPUS, argv, environ)
            found.append(Comparison(ours=found[1].ours, other=other, budget=0.25, runs=5))
        yield found


def bare(per_node: int) -> list[str]:
    """What a person would type for so many ranks on each node."""
    return ["srun", "--overlap", f"--nodes={NODES}", f"--ntasks-per-node={per_node}"]


def allocate(testbed: Testbed) -> str:
    """A job that holds all nodes until the testbed goes; its id."""
    shape = [f"--nodes={NODES}", f"--ntasks-per-node={GPUS}", f"--gpus-per-node={GPUS}", "--mem=0"]
    done = testbed.command(["sbatch", "--parsable", *shape, "--output=/dev/null", "--wrap", "sleep 3600"])
    job = done.stdout.strip()
    asked = ["squeue", "--noheader", f"--jobs={job}", "--states=RUNNING"]
    if not wait_for(lambda: bool(testbed.command(asked).stdout.strip()), 60):
        raise RuntimeError(f"job {job} does not start: {done.stderr}")
    return job


def as_the_agent(
    stack: ExitStack, root: Path, job: str, environ: Mapping[str, str], command: list[str], *, per_node: int
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
        resources={"nodes": NODES, "gpus_per_node": GPUS, "cpus_per_task": 1},
        launch=Launch(ntasks_per_node=per_node, srun=("--overlap",)),
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
        launcher="srun",
        token=secrets.token_hex(16),
        stacks=paths.stacks(attempt.name, 0),
    )
    return step.srun_command(spec, paths, attempt.name), environment
