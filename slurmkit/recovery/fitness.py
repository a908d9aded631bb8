"""Are the nodes fit to start on? One step checks them all at once, and is ended where it takes too long."""

from __future__ import annotations

import json
import os
import secrets
import select
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurmkit.recovery import step
from slurmkit.run.fitness import Answers, Fitness, judge, read_answers
from slurmkit.slurm.environment import strip
from slurmkit.slurm.probing import CONDUCT
from slurmkit.spec.gres import gpu_count
from slurmkit.spec.units import parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from slurmkit.recovery.setting import Setting
    from slurmkit.slurm.clock import Clock
    from slurmkit.spec.model import JobSpec

BESIDES = 3.0
"""Seconds that Slurm itself may take to start and end the step of the checks."""
LOOK = 0.1
WRITTEN, ALL_WRITE, LEAST_WRITTEN = 16 << 20, 256 << 20, 64 << 10
"""Bytes that a node writes where checkpoints go: all of them together write no flood, but each a little."""
LINGER = 0.5
"""Seconds that srun may take to end once every node has answered."""


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


def check_nodes(
    setting: Setting, nodes: Sequence[str], meeting: tuple[str, str] | None
) -> tuple[Fitness, bool]:
    """Check these nodes of the allocation, within `[launch] check_time`; the ranks are to meet at `meeting`.

    All of `WATCHED` must be blocked; a signal that comes meanwhile is left waiting. The second value says
    whether one of them was SIGTERM, so that nothing is to be started any more.
    """
    within = float(parse_duration(setting.spec.launch.check_time))
    folder = setting.paths.checks(setting.attempt.name)
    folder.mkdir(parents=True, exist_ok=True)
    token = secrets.token_hex(16)
    wanted = requirements(setting.spec, setting.environ) | {
        "token": token,
        "seconds": within,
        "output": str(folder),
        "run": {
            "id": setting.paths.run_id,
            "job": str(setting.attempt.number) if setting.attempt.array_job_id else None,
        },
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
    began = setting.clock.monotonic()
    heard = _ask(setting, wanted, nodes, within)
    answers, said = read_answers(heard.lines, token), heard.said
    silent = [node for node in nodes if node not in answers.records]
    left = within - (setting.clock.monotonic() - began)
    if answers.records and silent and left > 1 and not (heard.is_late or heard.told_to_end):
        # A task that dies can take others with it that have not started yet: each is asked once more, alone.
        heard = _ask(setting, wanted | {"seconds": left, "rendezvous": None}, silent, left)
        late = read_answers(heard.lines, token)
        answers = Answers(ahead={**late.ahead, **answers.ahead}, records={**late.records, **answers.records})
        said = [_relabelled(line, nodes, silent) for line in heard.said]
    return judge(nodes, answers, said, within=within, is_late=heard.is_late), heard.told_to_end


def _ask(setting: Setting, wanted: Mapping[str, Any], nodes: Sequence[str], within: float) -> Heard:
    """One round of questions to nodes of the allocation."""
    # Nothing by which srun would shape this step as the job's own, or as the user likes it.
    environ, _ = strip(setting.environ, keep=("SLURM_JOB_ID",))
    environ |= {"SLURMKIT_FITNESS": json.dumps(wanted)}
    is_all = len(nodes) == len(setting.attempt.nodes)
    program, *words = step.on_every_node(setting, "fitness", () if is_all else nodes)
    argv = [program, *CONDUCT, *gpu_options(setting.spec), *words]
    output, end = os.pipe()
    try:
        srun, stderr = step.start(argv, setting.srun, environ, setting.mask, stdout=end)
    except BaseException:
        os.close(output)
        raise
    finally:
        os.close(end)
    token = wanted["token"]

    def are_all_in(lines: Sequence[tuple[float, str]]) -> bool:
        # Two lines from each, at least: most of the time there is nothing to read yet.
        return len(lines) >= 2 * len(nodes) and len(read_answers(lines, token).records) >= len(nodes)

    return listen(srun, output, stderr, within + BESIDES, setting.clock, are_all_in=are_all_in)


def _relabelled(line: str, nodes: Sequence[str], some: Sequence[str]) -> str:
    """A line of a step on some nodes, labelled as a step on all of them would."""
    label, colon, text = line.partition(": ")
    if colon and label.strip().isdecimal() and int(label) < len(some):
        return f"{nodes.index(some[int(label)])}: {text}"
    return line


def gpu_options(spec: JobSpec) -> list[str]:
    """What gives the one task on each node all of the job's GPUs there.

    By `gpus_per_node` and `gres` Slurm does so unasked; by `gpus_per_task` it gives one task's share. Where
    it spreads the GPUs over nodes as it likes, a step of one task on each can have no more than one.
    """
    count = gpu_count(spec)
    if not count or any(spec.resources.get(name) is not None for name in ("gpus_per_node", "gres")):
        return []
    return [f"--gres=gpu:{count.per_node or 1}"]


def requirements(spec: JobSpec, environ: Mapping[str, str]) -> dict[str, Any]:
    """What a node must have for this job, as SLURMKIT_FITNESS says it."""
    memory = environ.get("SLURM_MEM_PER_NODE", "")
    directories = []
    # Inside a container a path may be another one.
    if spec.checkpoint is not None and spec.container is None:
        path = str(Path(spec.checkpoint.path).absolute())
        share = ALL_WRITE // int(environ.get("SLURM_JOB_NUM_NODES") or 1)
        size = max(LEAST_WRITTEN, min(WRITTEN, share))
        directories.append({"what": "the checkpoint directory", "path": path, "size": size})
    return {
        "gpus": gpu_count(spec).per_node,
        "memory": int(memory) if memory.isdigit() and int(memory) else None,
        "directories": directories,
        "programs": list(spec.launch.checks),
    }


def listen(
    srun: int,
    output: int,
    stderr: int,
    within: float,
    clock: Clock,
    *,
    are_all_in: Callable[[Sequence[tuple[float, str]]], bool] = lambda _: False,
) -> Heard:
    """Take down what the nodes and srun say until srun has ended; end it where it is late, or told to.

    Once `are_all_in` says that no further line is awaited, little more time is left to srun.
    """
    heard = Heard()
    rest = {output: b"", stderr: b""}
    ready = select.poll()
    for source in rest:
        ready.register(source, select.POLLIN)
    deadline = clock.monotonic() + within
    ended = 0
    closed = 0
    while not ended:
        # With both pipes closed srun is about to end, and the job's first step waits for that.
        for source, _ in ready.poll(LOOK * 1000 if closed < len(rest) else 1):
            data = os.read(source, 65536)
            if not data:
                ready.unregister(source)
                closed += 1
            *lines, rest[source] = (rest[source] + data).split(b"\n")
            for line in (one.decode("utf-8", "replace") for one in lines):
                if source == output:
                    heard.lines.append((clock.now().timestamp(), line))
                else:
                    heard.said.append(line)
            if source == output and are_all_in(heard.lines):
                deadline = min(deadline, clock.monotonic() + LINGER)
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
