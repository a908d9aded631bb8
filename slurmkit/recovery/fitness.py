"""Are the nodes fit to start on? One step checks them all at once; what it found is judged here."""

from __future__ import annotations

import json
import os
import re
import signal
from typing import TYPE_CHECKING, Any

from slurmkit.launch.environment import as_started
from slurmkit.recovery import step
from slurmkit.run.fitness import Fitness, judge, read_records
from slurmkit.spec.gres import gpu_count
from slurmkit.spec.units import parse_duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from slurmkit.recovery.setting import Setting
    from slurmkit.spec.model import JobSpec

BESIDES = 3.0
"""Seconds that Slurm itself may take to start and end the step of the checks."""
SHAPES = re.compile(
    r"SLURM_(?:GPUS|GPUS_PER_\w+|GPU_BIND|GRES|NTASKS\w*|NPROCS|TRES_\w+|CPUS_PER_\w+|MEM_\w+|DISTRIBUTION|HOSTFILE|"
    r"CPU_BIND\w*|TASKS_PER_NODE|EXCLUSIVE|EXACT|OVERCOMMIT)"
)
"""Variables by which srun would shape this step as the job's own."""


def check_nodes(setting: Setting, place: str | None) -> Fitness:
    """Check all nodes of the allocation, within `[launch] check_time`; the ranks will meet at `place`.

    All of `WATCHED` must be blocked; a signal that comes meanwhile is left waiting.
    """
    this, launch = setting.attempt, setting.spec.launch
    within = float(parse_duration(launch.check_time))
    folder = setting.paths.checks(this.name)
    folder.mkdir(parents=True, exist_ok=True)
    environ = {name: value for name, value in setting.environ.items() if not SHAPES.fullmatch(name)}
    wanted = requirements(setting.spec, this.nodes, setting.environ, within)
    wanted |= {"meeting": place, "output": str(folder)}
    environ |= {"SLURM_EXPORT_ENV": "ALL", "SLURMKIT_FITNESS": json.dumps(wanted)}
    began = setting.clock.monotonic()
    srun, stderr = step.start(
        step.on_every_node(setting, "fitness"), setting.srun, as_started(environ), setting.mask
    )
    is_late, told_to_end = _await(setting, srun, within + BESIDES)
    with os.fdopen(stderr, "rb") as file:
        said = file.read().decode("utf-8", "replace").splitlines()
    records = read_records(folder)
    fitness = judge(this.nodes, records, said, within if is_late else None)
    return Fitness(
        unfit=fitness.unfit,
        warnings=fitness.warnings,
        topology=fitness.topology,
        seconds=round(setting.clock.monotonic() - began, 3),
        why_not=fitness.why_not,
        told_to_end=told_to_end,
    )


def requirements(
    spec: JobSpec, nodes: Sequence[str], environ: Mapping[str, str], within: float
) -> dict[str, Any]:
    """What each node is to be asked for, as SLURMKIT_FITNESS has it."""
    directories = {"scratch": environ.get("TMPDIR") or "/tmp"}  # noqa: S108 - where programs go without TMPDIR
    if spec.checkpoint is not None:
        directories["checkpoints"] = os.path.abspath(spec.checkpoint.path)  # noqa: PTH100
    per_node = environ.get("SLURM_MEM_PER_NODE", "")
    return {
        "gpus": gpu_count(spec).per_node,
        "memory": int(per_node) if per_node.isdigit() else None,
        "directories": directories,
        "programs": list(spec.launch.checks),
        "first": nodes[0],
        "others": len(nodes) - 1,
        "within": within,
    }


def _await(setting: Setting, srun: int, within: float) -> tuple[bool, bool]:
    """Wait for srun's end, and end it where it is late or Slurm ends the job; which of the two it was."""
    deadline = setting.clock.monotonic() + within
    is_late = told_to_end = False
    while True:
        ended, _ = os.waitpid(srun, os.WNOHANG)
        if ended:
            if told_to_end:
                os.kill(os.getpid(), signal.SIGTERM)  # blocked: it waits for whoever asks next
            return is_late, told_to_end
        left = deadline - setting.clock.monotonic()
        if left <= 0:
            # The first time srun is asked to kill the step; if it does not, it is killed itself.
            os.kill(srun, signal.SIGKILL if is_late or told_to_end else signal.SIGTERM)
            is_late = is_late or not told_to_end
            deadline = setting.clock.monotonic() + BESIDES
            continue
        came = signal.sigtimedwait({signal.SIGCHLD, signal.SIGTERM}, left)
        if came is not None and came.si_signo == signal.SIGTERM:
            told_to_end = True
            os.kill(srun, signal.SIGTERM)
            deadline = setting.clock.monotonic() + BESIDES
