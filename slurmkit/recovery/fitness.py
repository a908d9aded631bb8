"""Are the nodes fit to start on? One step checks them all at once; what it found is judged here."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from slurmkit.launch.environment import as_started
from slurmkit.recovery import step
from slurmkit.spec.gres import gpu_count
from slurmkit.spec.units import parse_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from slurmkit.recovery.setting import Setting
    from slurmkit.spec.model import JobSpec

BESIDES = 3.0
"""Seconds that Slurm itself may take to start and end the step of the checks."""
SHAPES = re.compile(
    r"SLURM_(?:GPUS|GPUS_PER_\w+|GPU_BIND|GRES|NTASKS\w*|NPROCS|TRES_\w+|CPUS_PER_\w+|MEM_\w+|DISTRIBUTION|HOSTFILE|"
    r"CPU_BIND\w*|TASKS_PER_NODE|EXCLUSIVE|EXACT|OVERCOMMIT)"
)
"""Variables by which srun would shape this step as the job's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitness:
    """What is known of the nodes before the start."""

    unfit: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    warnings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    topology: Mapping[str, str] = field(default_factory=dict)
    """Each node's SLURM_TOPOLOGY_ADDR."""
    seconds: float = 0.0
    why_not: str | None = None
    """Why nothing could be checked, where that is so: no fault of any node."""
    told_to_end: bool = False
    """Whether SIGTERM came meanwhile; it is still to be received."""


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


def judge(
    nodes: Iterable[str], records: Mapping[str, Mapping[str, Any]], said: Sequence[str], late: float | None
) -> Fitness:
    """Which nodes are unfit. `said` is srun's stderr; `late`: the seconds after which the step was ended.

    Where not one node has answered, it is the check that failed, not they.
    """
    nodes = list(nodes)
    if not any(node in records for node in nodes):
        last = next((line for line in reversed(said) if line.strip()), "")
        return Fitness(
            why_not=last or (f"no node answered within {late:g} s" if late else "no node answered")
        )
    unfit: dict[str, tuple[str, ...]] = {}
    for node in nodes:
        if node in records:
            problems = tuple(map(str, records[node].get("problems") or ()))
        else:
            named = [
                line.strip() for line in said if re.search(rf"(?<![\w-]){re.escape(node)}(?![\w-])", line)
            ]
            problems = tuple(named[-1:]) or (f"no answer within {late:g} s" if late else "no answer",)
        if problems:
            unfit[node] = problems
    return Fitness(
        unfit=unfit,
        warnings={
            node: tuple(map(str, records[node]["warnings"]))
            for node in nodes
            if node in records and records[node].get("warnings")
        },
        topology={
            node: str(records[node]["topology"])
            for node in nodes
            if node in records and records[node].get("topology")
        },
    )


def read_records(folder: Path) -> dict[str, dict[str, Any]]:
    """What the nodes wrote, by name; what is no record is passed over."""
    records = {}
    for path in folder.glob("*.json"):
        try:
            record = json.loads(path.read_bytes())
            records[str(record["node"])] = record
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return records


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
