"""`slurmkit fabric-check`: which node or path of the network is slow."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slurmkit.cli.context import complete_run, connect, find_run, runs_index, system_clock, watch_runs
from slurmkit.cli.output import Answer, cell, note, output
from slurmkit.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from slurmkit.run.paths import RunPaths


@click.command()
@click.option("--nodes", type=click.IntRange(1), help="How many nodes. [default: those of --nodelist, or 2]")
@click.option("--partition", "-p", help="Partition to check.")
@click.option("--nodelist", "-w", help="The nodes to check, such as n[1-8].")
@click.option("--gpus-per-node", metavar="GPUS", help="GPUs of each node, with one rank each: for NCCL.")
@click.option("--time", "time_limit", help="Time limit of the job. [default: 15m]")
@click.option("--account", "-A", help="Account that pays.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Any key of a job file.")
@click.option("--python", default=sys.executable, help="Python that measures; torch is used where it has it.")
@click.option(
    "--transport",
    type=click.Choice(["auto", "nccl", "gloo", "sockets"]),
    default="auto",
    show_default=True,
    help="What to measure with.",
)
@click.option("--size", default="64M", show_default=True, help="Largest message over all ranks.")
@click.option("--pair-size", default="16M", show_default=True, help="Message between two nodes.")
@click.option("--timeout", default="60s", show_default=True, help="Silence after which a path is dead.")
@click.option("--html", metavar="FILE", help="Write a page with heat maps.")
@click.option("--no-wait", is_flag=True, help="Print the run id and leave; --run shows the result later.")
@click.option("--run", metavar="RUN", shell_complete=complete_run, help="Show an earlier check.")
@output
def command(*, run: str | None, html: str | None, no_wait: bool, **options: object) -> Answer:
    """Measure the network between nodes and name what is slow in it.

    A job like any other: all-reduce over all ranks, then every pair of nodes once, as many at a time as share
    no node. Exit code 0 where nothing stands out, 1 where something does or the job failed.

    --json gives: run, transport, why, torch, nodes, ranks, lanes, pair_bytes, world (bytes, seconds,
    algorithm_bandwidth, bus_bandwidth), links (nodes, seconds, latency, bandwidth, lane, again, error),
    is_complete, measuring, world_error, adds_up, started, findings (kind, nodes, measure, factor, sentence).
    Times are seconds, bandwidths bytes per second. With --no-wait: id, job_id, directory.
    """
    if run is not None:
        if no_wait:
            raise UsageError("--run shows a check that was submitted before; --no-wait submits one")
        return _report(find_run(run), html)
    paths, job_id = _submit(options)
    if no_wait:
        data = {"id": paths.run_id, "job_id": job_id, "directory": str(paths.root)}
        return Answer(data=data, text=paths.run_id)
    from slurmkit.cli.waiting import wait_for

    state = wait_for(watch_runs([paths]), [paths])[0]
    answer = _report(paths, html)
    return answer if state.is_success else answer._replace(exit_code=1)


def _submit(options: Mapping[str, object]) -> tuple[RunPaths, str]:
    from slurmkit.inventory.fabric import check_job
    from slurmkit.run.submit import Place, submit

    nodes, nodelist = options["nodes"], options["nodelist"]
    resources = {
        "nodes": _count(str(nodelist)) if nodes is None and nodelist is not None else nodes,
        "nodelist": nodelist,
        "partition": options["partition"],
        "gpus_per_node": options["gpus_per_node"],
        "time": options["time_limit"],
        "account": options["account"],
    }
    overrides = options["overrides"]
    assert isinstance(overrides, tuple)  # noqa: S101
    loaded = check_job(resources, overrides, python=str(options["python"]), arguments=_arguments(options))
    place = Place(directory=Path.cwd(), environ=os.environ, runs=runs_index(), clock=system_clock())
    clusters = loaded.spec.resources.get("clusters")
    receipt = submit(loaded, place, slurm=connect(None if clusters is None else str(clusters)))
    paths = receipt.prepared.paths
    note(f"{paths.run_id}: submitted as job {receipt.submitted.id}")
    return paths, str(receipt.submitted.id)


def _arguments(options: Mapping[str, object]) -> Sequence[str]:
    """What the program is told."""
    from slurmkit.spec.units import parse_duration, parse_memory

    try:
        sizes = [parse_memory(str(options[name])) << 20 for name in ("size", "pair_size")]
        timeout = parse_duration(str(options["timeout"]), bare="s")
    except ValueError as error:
        raise UsageError(str(error)) from error
    if not (all(sizes) and timeout):
        raise UsageError("--size, --pair-size and --timeout must be more than nothing")
    return [
        f"--transport={options['transport']}",
        f"--largest={sizes[0]}",
        f"--pair-bytes={sizes[1]}",
        f"--timeout={timeout}",
    ]


def _count(nodelist: str) -> int:
    from slurmkit.slurm.hostlist import expand_set

    try:
        return len(expand_set(nodelist))
    except ValueError as error:
        raise UsageError(f"--nodelist: {error}", where=nodelist) from error


def _report(paths: RunPaths, html: str | None) -> Answer:
    from slurmkit.inventory import fabric_page
    from slurmkit.inventory.fabric import read
    from slurmkit.inventory.fabric_verdict import findings

    fabric = read(paths)
    found = findings(fabric)
    if html is not None:
        from slurmkit.cli.files import write_file

        write_file(html, fabric_page.html(fabric, found, run=paths.run_id))
    data = {"run": paths.run_id, **asdict(fabric), "findings": [asdict(one) for one in found]}
    text = "\n".join(map(cell, fabric_page.lines(fabric, found)))
    return Answer(data=data, text=text, exit_code=1 if found else 0)
