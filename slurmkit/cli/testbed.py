"""`slurmkit testbed`: private, real Slurm clusters on this machine."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Any

import click

from slurmkit.cli.output import Answer, note, output
from slurmkit.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from slurmkit.testbed.testbed import Testbed

CANNOT_EXECUTE, NOT_FOUND = 126, 127


def named(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the option that says which testbed it is about."""
    return click.option(
        "--name",
        "-n",
        default="default",
        show_default=True,
        help="The testbed: a name, or a directory (with a '/').",
    )(function)


@click.group()
def command() -> None:
    """Start, use and remove private Slurm clusters on this machine.

    A testbed is a real slurmctld and slurmdbd with one slurmd per node, all on the loopback address and under
    one directory. Its GPUs are fake: Slurm allocates them, and nothing computes on them.
    """


@command.command()
@named
@click.option("--nodes", type=int, default=4, show_default=True, help="How many nodes.")
@click.option(
    "--gpus", default="a100:8", show_default=True, metavar="TYPE:COUNT", help="Per node, or `none`."
)
@click.option("--cpus", type=int, default=64, show_default=True, help="Per node, as Slurm is told.")
@click.option(
    "--memory", type=int, default=256_000, show_default=True, help="MiB per node, as Slurm is told."
)
@click.option("--prefix", default="n", show_default=True, help="What node names start with.")
@click.option(
    "--partition",
    "partitions",
    multiple=True,
    metavar="NAME=NODES [KEY=VALUE ...]",
    help="One more partition, such as 'short=n[1-2] MaxTime=10 PriorityTier=2'.",
)
@click.option("--feature", "features", multiple=True, metavar="NAME[=NODES]", help="A feature of nodes.")
@click.option(
    "--topology", default="", metavar="tree[:WIDTH]", help="Leaf switches of WIDTH nodes under a spine."
)
@click.option(
    "--cred-expire", type=int, default=5, show_default=True, help="Seconds; a requeued job waits as long."
)
@click.option(
    "--min-job-age", type=int, default=300, show_default=True, help="Seconds an ended job is known."
)
@click.option(
    "--config", multiple=True, metavar="KEY=VALUE", help="A line of slurm.conf; it replaces ours of that key."
)
@click.option("--no-accounting", is_flag=True, help="Without slurmdbd, as some sites are.")
def up(name: str, gpus: str, no_accounting: bool, **shape: Any) -> None:  # noqa: ANN401 - click's values
    """Start a testbed, or start again what has ended of it; ready when every node is idle."""
    from slurmkit.testbed import native
    from slurmkit.testbed.options import Options

    options = Options(gpus="" if gpus == "none" else gpus, accounting=not no_accounting, **shape)
    testbed = native.up(options, native.root_of(name))
    note(f"testbed {name} is up: {len(testbed.nodes)} nodes, cluster {testbed.cluster}")
    option = "" if name == "default" else f" --name {shlex.quote(name)}"
    note(f'use it in this shell: eval "$(slurmkit testbed env{option})"')


@command.command()
@named
def down(name: str) -> None:
    """End all processes of a testbed and remove its files."""
    from slurmkit.testbed import native

    root = native.root_of(name)
    note(f"testbed {name} is gone" if native.down(root) else f"there is no testbed at {root}")


@command.command()
@named
@output
def status(name: str) -> Answer:
    """Show the daemons and nodes of a testbed; exit code 1 unless all run."""
    from slurmkit.testbed import native
    from slurmkit.testbed.starting import node_states

    testbed = native.find(name)
    pids = {daemon: testbed.pid(daemon) for daemon in testbed.daemons()}
    is_up = all(pids.values())
    nodes = node_states(testbed)
    data = {
        "root": str(testbed.root),
        "cluster": testbed.cluster,
        "slurm_conf": str(testbed.conf),
        "up": is_up,
        "cgroups": testbed.cgroup,
        "daemons": [{"name": daemon, "pid": pid} for daemon, pid in pids.items()],
        "nodes": [{"name": node, "state": nodes.get(node)} for node in testbed.nodes],
    }
    rows = [
        *((daemon, f"up, pid {pid}" if pid else "down") for daemon, pid in pids.items()),
        *((node, nodes.get(node, "unknown")) for node in testbed.nodes),
    ]
    width = max(len(label) for label, _ in rows)
    lines = [f"{testbed.root} (cluster {testbed.cluster})", *(f"{a:<{width}}  {b}" for a, b in rows)]
    return Answer(data=data, text="\n".join(lines), exit_code=0 if is_up else 1)


@command.command()
@named
def env(name: str) -> None:
    """Print the shell line that leads Slurm's commands to a testbed, for eval."""
    for variable, value in _find(name).environment.items():
        click.echo(f"export {variable}={shlex.quote(value)}")


@command.command(
    name="exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
@named
@click.argument("argv", nargs=-1, required=True, type=click.UNPROCESSED, metavar="COMMAND...")
def execute(name: str, argv: tuple[str, ...]) -> None:
    """Run a command with Slurm's commands led to a testbed; its exit code is passed on."""
    environment = {**os.environ, **_find(name).environment}
    try:
        os.execvpe(argv[0], argv, environment)  # noqa: S606 - a shell is what is not wanted
    except FileNotFoundError:
        note(f"error: there is no command {argv[0]!r}")
        click.get_current_context().exit(NOT_FOUND)
    except PermissionError:
        note(f"error: {argv[0]!r} cannot be executed")
        click.get_current_context().exit(CANNOT_EXECUTE)


def _find(name: str) -> Testbed:
    from slurmkit.testbed import native

    testbed = native.find(name)
    if testbed.pid("slurmctld") is None:
        raise UsageError(f"testbed {name!r} is down", where=str(testbed.root), hint="slurmkit testbed up")
    return testbed
