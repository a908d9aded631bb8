"""`slurmkit mesh`: which rank of a job would be where, and with whom. Asks nothing of Slurm."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import click

from slurmkit.cli.output import Answer, note, output
from slurmkit.errors import UsageError
from slurmkit.launch.mesh import AXES, ORDER, crossing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from slurmkit.launch.mesh import Mesh
    from slurmkit.spec.model import JobSpec

NODES_SHOWN = 64
"""Of one axis; all axes are drawn only where they need no more lines than that together."""
BLACK = 16
COLOURS = (117, 222, 150, 216, 183, 152, 229, 174, 109, 180, 146, 187, 211, 120, 75, 214)
"""Of the 256 of a terminal: 16 is black in every theme; the others are light, and neighbours differ."""


@click.command()
@click.argument("job", metavar="JOB.toml", type=click.Path())
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a key: parallel.tensor=4."
)
@click.option("--axis", type=click.Choice(AXES), help="Draw the groups of this axis alone.")
@click.option("--all", "every", is_flag=True, help=f"Draw every node, not only the first {NODES_SHOWN}.")
@output
def command(*, job: str, overrides: tuple[str, ...], axis: str | None, every: bool) -> Answer:
    """Draw the mesh of a job: nodes as rows, ranks as cells, groups by letter and colour.

    Ranks with the same letter form a group: they exchange data along that axis. The world is what the job
    file asks for: `--set resources.nodes=8` draws another.
    """
    from slurmkit.spec import load

    loaded = load(job, overrides)
    for warning in loaded.warnings:
        note(f"warning: {warning}")
    mesh, nodes = laid_out(loaded.spec)
    rows: list[list[int]] = [[] for _ in range(max(nodes) + 1)]
    for rank, node in enumerate(nodes):
        rows[node].append(rank)
    drawn = [axis] if axis else axes_to_draw(mesh, len(rows))
    data = {
        "world_size": mesh.world_size,
        "order": mesh.order,
        "sizes": mesh.sizes,
        "nodes": rows,
        "groups": {name: mesh.groups(name) for name in ([axis] if axis else AXES)},
    }
    return Answer(data=data, text="\n".join(drawing(mesh, nodes, rows, drawn, every=every)))


def laid_out(spec: JobSpec) -> tuple[Mesh, list[int]]:
    """The mesh of a job, and the node of each rank.

    Raises:
        UsageError: the job file leaves one of them open.
    """
    from slurmkit.spec.mesh import mesh_of, node_of_rank, world_size
    from slurmkit.spec.model import Parallel

    size = world_size(spec)
    if size is None:
        raise UsageError(
            "the job file does not say how many ranks there are",
            hint="--set resources.nodes=2 --set resources.gpus_per_node=8",
        )
    nodes = node_of_rank(spec, size)
    if nodes is None:
        raise UsageError(
            f"which of the {size} ranks are on which node is open until Slurm has placed them",
            hint="say nodes, launch.ntasks_per_node, and a distribution of block, cyclic or plane",
        )
    return mesh_of(spec.parallel or Parallel(), size), nodes


def axes_to_draw(mesh: Mesh, nodes: int) -> list[str]:
    """Those of more than one rank, the fastest varying first; only one where all would take many lines."""
    wanted = [axis for axis in (*mesh.order, "expert") if mesh.sizes[axis] > 1] or [mesh.order[0]]
    return wanted if len(wanted) * nodes <= NODES_SHOWN else wanted[:1]


def drawing(
    mesh: Mesh, nodes: Sequence[int], rows: Sequence[Sequence[int]], axes: Sequence[str], *, every: bool
) -> Iterator[str]:
    """The lines of the picture."""
    sizes = ", ".join(f"{axis} {mesh.sizes[axis]}" for axis in mesh.order)
    world = f"{_count(mesh.world_size, 'rank')} on {_count(len(rows), 'node')}"
    yield f"{world}; from neighbours outwards: {sizes}"
    if mesh.sizes["expert"] > 1:
        yield f"experts: {mesh.sizes['expert']}, dealt over context and data"
    for axis in axes:
        groups = mesh.groups(axis)
        yield ""
        yield click.style(_headline(axis, groups, len(crossing(mesh, axis, nodes))), bold=_is_coloured())
        shown = rows if every else rows[:NODES_SHOWN]
        yield from grid(groups, shown)
        if len(shown) < len(rows):
            yield f"and {_count(len(rows) - len(shown), 'node')} more (--all)"
    others = [axis for axis in (*ORDER, "expert") if mesh.sizes[axis] > 1 and axis not in axes]
    if others:
        yield ""
        yield f"not drawn: {', '.join(others)} (--axis)"


def grid(groups: Sequence[Sequence[int]], rows: Sequence[Sequence[int]]) -> Iterator[str]:
    """A line for each node, or several where it has more ranks than a line holds."""
    group_of = {rank: number for number, group in enumerate(groups) for rank in group}
    letters = len(letter(len(groups) - 1))
    digits = len(str(len(group_of) - 1))
    label = len(f"node {len(rows) - 1}")
    fitting = max(1, (shutil.get_terminal_size().columns - label - 2) // (letters + digits + 3))
    # Eight at a time: that is how GPUs come, and the eye finds its column again.
    per_line = fitting // 8 * 8 or fitting
    for number, row in enumerate(rows):
        cells = [
            _cell(f" {letter(group_of[rank]):<{letters}} {rank:>{digits}} ", group_of[rank]) for rank in row
        ]
        for start in range(0, len(cells), per_line):
            head = "" if start else f"node {number}"
            yield f"{head:<{label}}  {''.join(cells[start : start + per_line])}"


def letter(number: int) -> str:
    """A, B ... Z, AA, AB ...: the name of a group."""
    text = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        text = chr(ord("A") + rest) + text
    return text


def _headline(axis: str, groups: Sequence[Sequence[int]], crossed: int) -> str:
    size = len(groups[0])
    if size == 1:
        return f"{axis}: every rank by itself"
    where = "each within a node" if not crossed else f"{crossed} of them across nodes"
    if crossed == len(groups):
        where = "all across nodes" if crossed > 1 else "across nodes"
    if len(groups) == 1:
        where = where.removeprefix("each ")
    return f"{axis}: {_count(len(groups), 'group')} of {_count(size, 'rank')}, {where}"


def _cell(text: str, group: int) -> str:
    return click.style(text, fg=BLACK, bg=COLOURS[group % len(COLOURS)]) if _is_coloured() else text


def _is_coloured() -> bool:
    """`click.echo` takes colours out again where it prints into a pipe."""
    return not os.environ.get("NO_COLOR")


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
