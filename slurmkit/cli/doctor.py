"""`slurmkit doctor`: is all well on this host, and on nodes?"""

from __future__ import annotations

import os
from pathlib import Path

import click

from slurmkit.cli.context import connect, profile, system_clock
from slurmkit.cli.output import Answer, output
from slurmkit.errors import UsageError

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

    With --nodes, a small job checks those nodes as a run does before its first rank: GPUs, scratch, whether
    they see the current directory. Exit code 1: something is wrong; 3: Slurm cannot be reached.

    --json gives: what, verdict (ok, warning, problem, unreachable), text, advice; with --nodes: node, verdict
    (fit, unfit, unknown), reason.
    """
    if nodelist is None:
        return _this_host()
    return _nodes(nodelist, partition, programs, _seconds(within, "--within"), _seconds(queue, "--wait"))


def _this_host() -> Answer:
    from slurmkit.inventory.doctor import examine
    from slurmkit.slurm.client import choose
    from slurmkit.slurm.probing import controller_time

    clock = system_clock()
    settings = profile()
    lines = list(
        examine(
            connect(),
            os.environ,
            Path.cwd() / "runs",
            controller_time=lambda: controller_time(os.environ, clock),
            now=lambda: clock.now().timestamp(),
            choice=choose(settings.client, clusters=settings.clusters, clock=clock, environ=os.environ),
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
    from slurmkit.inventory.nodes_check import examine_nodes
    from slurmkit.launch.hostlist import expand

    try:
        names = None if nodelist == "all" else list(dict.fromkeys(expand(nodelist)))
    except ValueError as error:
        raise UsageError(f"--nodes: {error}", hint="write n[1-4] or n1,n3") from error
    known = [node for node in connect().nodes(names) if partition is None or partition in node.partitions]
    absent = [name for name in names or () if name not in {node.name for node in known}]
    if absent or not known:
        raise UsageError(f"Slurm has no node {', '.join(absent) or 'there'}", hint="sinfo -N lists them")
    found = examine_nodes(
        known,
        [f"--partition={partition}"] if partition else [],
        directory=Path.cwd(),
        programs=programs,
        environment=os.environ,
        clock=system_clock(),
        check_time=within,
        queue_time=queue,
    )
    rows = [{"node": one.node, "verdict": one.verdict, "reason": "; ".join(one.reasons)} for one in found]
    verdicts = {one.verdict for one in found}
    is_well = "unfit" not in verdicts and "fit" in verdicts
    return Answer(data=rows, columns=("node", "verdict", "reason"), exit_code=int(not is_well))


def _seconds(text: str, option: str) -> float:
    from slurmkit.spec.units import parse_duration

    try:
        return float(parse_duration(text))
    except ValueError as error:
        raise UsageError(f"{option}: {error}", hint=f"{option} 30s") from error
