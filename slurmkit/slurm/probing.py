"""What only doctor asks of Slurm: the controller's clock, and a step of its own on chosen nodes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from slurmkit.slurm import process
from slurmkit.slurm.environment import for_reading

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from slurmkit.slurm.clock import Clock
    from slurmkit.slurm.process import Answer

CONDUCT = (
    "--job-name=slurmkit-check",
    "--no-kill",
    "--mpi=none",
    "--cpu-bind=none",
    "--disable-status",
    "--label",
)
"""Of every srun that checks nodes: whatever befalls one of them, the others answer, each under its number."""


def controller_time(environment: Mapping[str, str], clock: Clock) -> float | None:
    """The time of slurmctld in seconds since 1970, to the second, as sdiag tells it; None where not."""
    answer = process.run(["sdiag"], environment=for_reading(environment), clock=clock, timeout=20.0)
    return parse_controller_time(answer.stdout) if answer.is_ok else None


def parse_controller_time(text: str) -> float | None:
    """The time in the first lines of sdiag's answer."""
    found = re.search(r"^sdiag output at .*\((\d+)\)", text, re.MULTILINE)
    return float(found[1]) if found else None


def on_nodes(
    options: Sequence[str],
    program: Sequence[str],
    *,
    environment: Mapping[str, str],
    variables: Mapping[str, str],
    clock: Clock,
    within: float,
) -> Answer:
    """Run a program once on each of several nodes, in an allocation of its own; `within` holds the queue too.

    Raises:
        MissingRequirement: there is no srun.
    """
    argv = ["srun", "--ntasks-per-node=1", "--kill-on-bad-exit=0", *options, *program]
    return process.run(
        argv, environment={**for_reading(environment), **variables}, clock=clock, timeout=within
    )
