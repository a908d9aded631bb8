"""The check of nodes on demand: the same that runs before a job's first rank, as a small job of its own."""

from __future__ import annotations

import json
import secrets
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from slurmkit.errors import Refused, UsageError
from slurmkit.launch.archive import build
from slurmkit.run.fitness import Answers, Fitness, judge, read_answers
from slurmkit.slurm.probing import on_nodes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from slurmkit.slurm.clock import Clock


def check(
    nodes: Sequence[str],
    options: Sequence[str],
    *,
    directory: Path,
    programs: Sequence[str],
    gpus: Mapping[str, int],
    environment: Mapping[str, str],
    clock: Clock,
    check_time: float,
    queue_time: float,
) -> Fitness:
    """Check these nodes, each within `check_time` seconds; the job may wait `queue_time` for them.

    `directory` must be seen by the nodes: the program that checks is put beneath it, and removed.

    Raises:
        UsageError: it cannot be written.
        Refused: Slurm did not start the job in time, or not at all.
    """
    try:
        folder = tempfile.TemporaryDirectory(prefix=".slurmkit-doctor-", dir=directory)
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror}", where=str(directory)) from error
    with folder as name:
        archive = Path(name, "launch.pyz")
        build(archive)
        counts = set(gpus.values())
        token = secrets.token_hex(16)
        wanted = {
            "token": token,
            "seconds": check_time,
            "gpus": counts.pop() if len(counts) == 1 else None,
            "programs": list(programs),
        }
        answer = on_nodes(
            [f"--nodes={len(nodes)}", f"--nodelist={','.join(nodes)}", *options],
            [sys.executable, "-I", "-S", str(archive), "fitness"],
            environment=environment,
            variables={"SLURMKIT_FITNESS": json.dumps(wanted)},
            clock=clock,
            within=queue_time + check_time,
        )
    # All lines came at once, so that they tell nothing of clocks.
    answers = Answers(
        records=read_answers(((0.0, line) for line in answer.stdout.splitlines()), token).records
    )
    fitness = judge(
        nodes, answers, answer.stderr.splitlines(), within=check_time, is_late=answer.code is None
    )
    if fitness.why_not:
        raise Refused(
            f"the nodes could not be checked: {fitness.why_not}",
            hint="are they idle, up, and in a partition that you may use? --wait gives them longer",
        )
    return fitness
