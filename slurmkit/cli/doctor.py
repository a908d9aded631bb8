"""`slurmkit doctor`: is all well on this host, and on nodes?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slurmkit.cli.context import connect, system_clock
from slurmkit.cli.output import Answer, output
from slurmkit.errors import Refused, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


MARKS = {"ok": "ok", "warning": "warning", "problem": "PROBLEM", "unreachable": "PROBLEM"}


@click.command()
@click.option("--nodes", "nodelist", metavar="LIST", help="Check these nodes instead: n[1-4], or `all`.")
@click.option("--partition", "-p", metavar="NAME", help="Only nodes of this partition.")
@click.option(
    "--check", "programs", multiple=True, metavar="PROGRAM", help="A check of the site's own; repeatable."
)
@click.option("--within", default="10s", show_default=True, metavar="TIME", help="How long a node may take.")
@click.option(
    "--wait", "queue", default="1m", show_default=True, metavar="TIME", help="How long the job may queue."
)
@output
def command(
    nodelist: str | None, partition: str | None, programs: tuple[str, ...], within: str, queue: str
) -> Answer:
    """Say whether all is well on this host: Slurm, accounting, clock, directories, network.

    With --nodes, a small job checks those nodes as a run does before its first rank: GPUs, memory, scratch.
    Exit code 1: something is wrong; 3: Slurm cannot be reached.
    """
    if nodelist is None:
        return _this_host()
    return _nodes(nodelist, partition, programs, _seconds(within, "--within"), _seconds(queue, "--wait"))


def _this_host() -> Answer:
    from slurmkit.inventory.doctor import examine
    from slurmkit.slurm.probing import controller_time

    clock = system_clock()
    lines = list(
        examine(
            connect(),
            os.environ,
            Path.cwd() / "runs",
            controller_time=lambda: controller_time(os.environ, clock),
            now=lambda: clock.now().timestamp(),
        )
    )
    verdicts = {line.verdict for line in lines}
    width = max(len(line.what) for line in lines)
    text = []
    for line in lines:
        text.append(f"{MARKS[line.verdict]:<8} {line.what:<{width}}  {line.text}")
        text += [f"{'':<8} {'':<{width}}  try: {line.advice}"] if line.advice else []
    code = 3 if "unreachable" in verdicts else int("problem" in verdicts)
    return Answer(data=[line._asdict() for line in lines], text="\n".join(text), exit_code=code)


def _nodes(
    nodelist: str, partition: str | None, programs: tuple[str, ...], within: float, queue: float
) -> Answer:
    from slurmkit.inventory.nodes_check import check
    from slurmkit.launch.hostlist import expand
    from slurmkit.slurm.gres import count

    try:
        names = None if nodelist == "all" else list(dict.fromkeys(expand(nodelist)))
    except ValueError as error:
        raise UsageError(f"--nodes: {error}", hint="write n[1-4] or n1,n3") from error
    known = [node for node in connect().nodes(names) if partition is None or partition in node.partitions]
    absent = [name for name in names or () if name not in {node.name for node in known}]
    if absent or not known:
        raise UsageError(f"Slurm has no node {', '.join(absent) or 'there'}", hint="sinfo -N lists them")
    able = [node for node in known if node.state.is_available]
    found = {node.name: [f"Slurm has it as {node.state}"] for node in known if node not in able}
    warnings: Mapping[str, Sequence[str]] = {}
    if able:
        gpus = {node.name: count(node.gres) for node in able}
        fitness = check(
            list(gpus),
            _options(partition, gpus),
            directory=Path.cwd(),
            programs=programs,
            gpus=gpus,
            environment=os.environ,
            clock=system_clock(),
            check_time=within,
            queue_time=queue,
        )
        found |= {node: list(why) for node, why in fitness.unfit.items()}
        warnings = fitness.warnings
    elif not found:
        raise Refused("no node to check")
    rows = [
        {
            "node": node.name,
            "verdict": "unfit" if node.name in found else "fit",
            "reason": "; ".join([*found.get(node.name, ()), *warnings.get(node.name, ())]),
        }
        for node in known
    ]
    return Answer(data=rows, columns=("node", "verdict", "reason"), exit_code=int(bool(found)))


def _options(partition: str | None, gpus: Mapping[str, int]) -> list[str]:
    """Of the srun: all GPUs of the nodes, where all have as many."""
    counts = set(gpus.values())
    per_node = counts.pop() if len(counts) == 1 else 0
    options = [f"--partition={partition}"] if partition else []
    return [*options, f"--gpus-per-node={per_node}"] if per_node else options


def _seconds(text: str, option: str) -> float:
    from slurmkit.spec.units import parse_duration

    try:
        return float(parse_duration(text))
    except ValueError as error:
        raise UsageError(f"{option}: {error}", hint=f"{option} 30s") from error
