"""The check of nodes on demand: the same that runs before a job's first rank, as a small job of its own."""

from __future__ import annotations

import json
import secrets
import sys
import tempfile
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypedDict, Unpack

from slurmkit.errors import Refused, UsageError
from slurmkit.launch.archive import build
from slurmkit.run.fitness import Answers, Fitness, judge, read_answers
from slurmkit.slurm.gres import count
from slurmkit.slurm.probing import CONDUCT, on_nodes
from slurmkit.spec.units import slurm_minutes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from slurmkit.slurm.clock import Clock
    from slurmkit.slurm.records import Node


BESIDES = 20
"""Seconds that Slurm itself may take to start and end the job."""


class Verdict(NamedTuple):
    """What there is to say of a node: it is "fit", "unfit", or "unknown" where Slurm did not let us look."""

    node: str
    verdict: str
    reasons: Sequence[str] = ()


class Wanted(TypedDict):
    """How nodes are looked at, which is the same for all of them."""

    directory: Path
    """Which the nodes must see: the program that checks is put beneath it, and removed."""
    programs: Sequence[str]
    environment: Mapping[str, str]
    clock: Clock
    check_time: float
    """Seconds for each node, once the job has started."""
    queue_time: float
    """Seconds that a job may wait for its nodes."""


def examine_nodes(nodes: Sequence[Node], options: Sequence[str], **wanted: Unpack[Wanted]) -> list[Verdict]:
    """The verdict on each of these nodes, in their order.

    Raises:
        UsageError: the directory cannot be written.
        Refused: Slurm let us look at none of them.
    """
    found = {node.name: by_state(node) for node in nodes}
    able = sorted((node for node in nodes if node.state.is_available), key=free_gpus)
    # One job for each number of free GPUs: more cannot be asked for, and fewer would leave some unseen.
    for free, alike in groupby(able, free_gpus):
        group = {node.name: node for node in alike}
        try:
            fitness = check(list(group), free, options, **wanted)
        except Refused as error:
            if len(group) == len(nodes):
                raise
            found |= {name: Verdict(name, "unknown", [error.what]) for name in group}
            continue
        for name, node in group.items():
            unfit = fitness.unfit.get(name, ())
            reasons = [*unfit, *fitness.warnings.get(name, ()), *in_use(node)]
            found[name] = Verdict(name, "unfit" if unfit else "fit", reasons)
    return list(found.values())


def by_state(node: Node) -> Verdict:
    """What a node's state alone tells, where no job can start there now."""
    is_unfit = node.state.is_down or node.state.is_drained
    text = f"Slurm has it as {node.state}{f': {node.reason}' if node.reason else ''}"
    return Verdict(node.name, "unfit" if is_unfit else "unknown", [text])


def free_gpus(node: Node) -> int:
    """The GPUs that no job has."""
    return count(node.gres) - count(node.gres_used)


def in_use(node: Node) -> list[str]:
    """A word on the GPUs that other jobs have, and that could not be looked at."""
    used = count(node.gres_used)
    return [f"{used} of {count(node.gres)} GPUs are in use and were not looked at"] if used else []


def check(nodes: Sequence[str], gpus: int, options: Sequence[str], **wanted: Unpack[Wanted]) -> Fitness:
    """Check nodes with so many GPUs each, in one job.

    Raises:
        UsageError: the directory cannot be written.
        Refused: Slurm did not start the job in time, or not at all.
    """
    directory, check_time, queue_time = wanted["directory"], wanted["check_time"], wanted["queue_time"]
    try:
        folder = tempfile.TemporaryDirectory(prefix=".slurmkit-doctor-", dir=directory)
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror}", where=str(directory)) from error
    with folder as name:
        archive = Path(name, "launch.pyz")
        build(archive)
        token = secrets.token_hex(16)
        asked = {
            "token": token,
            "seconds": check_time,
            "gpus": gpus or None,
            "programs": list(wanted["programs"]),
        }
        started = wanted["clock"].now().timestamp()
        answer = on_nodes(
            [
                *CONDUCT,
                "--cpus-per-task=1",
                "--mem=256M",
                "--quiet",
                f"--nodes={len(nodes)}",
                f"--ntasks={len(nodes)}",
                f"--nodelist={','.join(nodes)}",
                *([f"--gpus-per-node={gpus}"] if gpus else []),
                # srun gives up by itself: one that is killed leaves its job in the queue.
                f"--immediate={max(1, int(queue_time))}",
                f"--time={slurm_minutes(int(check_time) + BESIDES)}",
                *options,
            ],
            [sys.executable, "-I", "-S", str(archive), "fitness"],
            environment=wanted["environment"],
            variables={"SLURMKIT_FITNESS": json.dumps(asked)},
            clock=wanted["clock"],
            within=queue_time + check_time + BESIDES,
        )
    ended = wanted["clock"].now().timestamp()
    told = read_answers(((0.0, line) for line in answer.stdout.splitlines()), token)
    # All lines came at once: a clock is surely wrong where it told a time before the start, or after the end.
    ahead = {node: time - min(max(time, started), ended) for node, time in told.ahead.items()}
    answers = Answers(ahead=ahead, records=told.records)
    fitness = judge(
        nodes, answers, answer.stderr.splitlines(), within=check_time, is_late=answer.code is None
    )
    if fitness.why_not:
        raise Refused(
            f"the nodes could not be checked: {fitness.why_not}",
            hint=f"are they free, in a partition that you may use, and do they see {directory} and "
            f"{sys.executable}? --wait gives them longer",
        )
    return fitness
