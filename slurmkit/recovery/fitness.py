"""Are the nodes fit to start on? One step checks them all at once, and is ended where it takes too long."""

from __future__ import annotations

import json
import os
import re
import secrets
import select
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurmkit.recovery import step
from slurmkit.run.fitness import Fitness, judge, read_answers
from slurmkit.spec.gres import gpu_count
from slurmkit.spec.units import parse_duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slurmkit.recovery.setting import Setting
    from slurmkit.slurm.clock import Clock
    from slurmkit.spec.model import JobSpec

BESIDES = 3.0
"""Seconds that Slurm itself may take to start and end the step of the checks."""
LOOK = 0.1
WRITTEN = 16 << 20
"""Bytes that are written where checkpoints go."""
SHAPES = re.compile(
    r"SLURM_(?:GPUS|GPUS_PER_\w+|GPU_BIND|GRES|NTASKS\w*|NPROCS|TRES_\w+|CPUS_PER_\w+|MEM_\w+|DISTRIBUTION|"
    r"HOSTFILE|CPU_BIND\w*|TASKS_PER_NODE|EXCLUSIVE|EXACT|OVERCOMMIT)"
)
"""Variables by which srun would shape this step as the job's own."""


@dataclass(slots=True)
class Heard:
    """What came of the step that checks the nodes."""

    lines: list[tuple[float, str]] = field(default_factory=list)
    """The nodes' lines, each with the time of its arrival."""
    said: list[str] = field(default_factory=list)
    """srun's own."""
    is_late: bool = False
    told_to_end: bool = False
    """Whether SIGTERM came meanwhile; it is still to be received."""


def check_nodes(setting: Setting, meeting: tuple[str, str] | None) -> tuple[Fitness, bool]:
    """Check all nodes of the allocation, within `[launch] check_time`; the ranks are to meet at `meeting`.

    All of `WATCHED` must be blocked; a signal that comes meanwhile is left waiting. The second value says
    whether one of them was SIGTERM, so that nothing is to be started any more.
    """
    nodes = setting.attempt.nodes
    within = float(parse_duration(setting.spec.launch.check_time))
    folder = setting.paths.checks(setting.attempt.name)
    folder.mkdir(parents=True, exist_ok=True)
    token = secrets.token_hex(16)
    wanted = requirements(setting.spec, setting.environ) | {
        "token": token,
        "seconds": within,
        "output": str(folder),
    }
    if meeting is not None:
        host, port = meeting
        wanted["rendezvous"] = {
            "host": host,
            "port": port,
            "first": nodes[0],
            "peers": len(nodes) - 1,
            "token": token,
        }
    environ = {name: value for name, value in setting.environ.items() if not SHAPES.fullmatch(name)}
    environ |= {"SLURM_EXPORT_ENV": "ALL", "SLURMKIT_FITNESS": json.dumps(wanted)}
    output, end = os.pipe()
    try:
        srun, stderr = step.start(
            step.on_every_node(setting, "fitness"), setting.srun, environ, setting.mask, stdout=end
        )
    except BaseException:
        os.close(output)
        raise
    finally:
        os.close(end)
    heard = listen(srun, output, stderr, within + BESIDES, setting.clock)
    answers = read_answers(heard.lines, token)
    return judge(nodes, answers, heard.said, within=within, is_late=heard.is_late), heard.told_to_end


def requirements(spec: JobSpec, environ: Mapping[str, str]) -> dict[str, Any]:
    """What a node must have for this job, as SLURMKIT_FITNESS says it."""
    memory = environ.get("SLURM_MEM_PER_NODE", "")
    directories = []
    if spec.checkpoint is not None:
        path = str(Path(spec.checkpoint.path).absolute())
        directories.append({"what": "the checkpoint directory", "path": path, "size": WRITTEN})
    return {
        "gpus": gpu_count(spec).per_node,
        "memory": int(memory) if memory.isdigit() and int(memory) else None,
        "directories": directories,
        "programs": list(spec.launch.checks),
    }


def listen(srun: int, output: int, stderr: int, within: float, clock: Clock) -> Heard:
    """Take down what the nodes and srun say until srun has ended; end it where it is late, or told to."""
    heard = Heard()
    rest = {output: b"", stderr: b""}
    ready = select.poll()
    for source in rest:
        ready.register(source, select.POLLIN)
    deadline = clock.monotonic() + within
    ended = 0
    while not ended:
        for source, _ in ready.poll(LOOK * 1000):
            data = os.read(source, 65536)
            if not data:
                ready.unregister(source)
            *lines, rest[source] = (rest[source] + data).split(b"\n")
            for line in (one.decode("utf-8", "replace") for one in lines):
                if source == output:
                    heard.lines.append((clock.now().timestamp(), line))
                else:
                    heard.said.append(line)
        ended, _ = os.waitpid(srun, os.WNOHANG)
        told = signal.SIGTERM in signal.sigpending()
        if clock.monotonic() >= deadline or (told and not heard.told_to_end):
            # The first time srun is asked to kill the step; if it does not, it is killed itself.
            is_asked = heard.is_late or heard.told_to_end
            heard.told_to_end, heard.is_late = told, heard.is_late or not told
            deadline = clock.monotonic() + BESIDES
            if not ended:
                os.kill(srun, signal.SIGKILL if is_asked else signal.SIGTERM)
    _read_rest(output, stderr, rest, heard, clock)
    return heard


def _read_rest(output: int, stderr: int, rest: dict[int, bytes], heard: Heard, clock: Clock) -> None:
    """What stands in the pipes when srun has ended; the nodes' clocks are told by lines that came before."""
    for source in (output, stderr):
        os.set_blocking(source, False)
        with os.fdopen(source, "rb") as file:
            lines = (rest[source] + (file.read() or b"")).decode("utf-8", "replace").splitlines()
        if source == output:
            heard.lines += [(clock.now().timestamp(), line) for line in lines]
        else:
            heard.said += lines
