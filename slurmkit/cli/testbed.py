"""`slurmkit testbed`: private, real Slurm clusters on this machine."""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING, Any

import click

from slurmkit.cli.output import Answer, note, output
from slurmkit.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from slurmkit.testbed.compose import ComposeTestbed
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
    one directory; with --docker, a container for each. Its GPUs are fake: Slurm allocates them, and nothing
    computes on them.
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
@click.option("--rest", is_flag=True, help="With slurmrestd, on a loopback port and on a unix socket.")
@click.option("--docker", is_flag=True, help="A container for each daemon and each node.")
@click.option("--slurm", metavar="VERSION", help="With --docker: 22.05, 24.11 (if none is named), 26.05.")
def up(
    name: str,
    gpus: str,
    no_accounting: bool,
    docker: bool,
    slurm: str | None,
    **shape: Any,  # noqa: ANN401 - click's values
) -> None:
    """Start a testbed, or start again what has ended of it; ready when every node is idle."""
    from slurmkit.testbed import compose, native
    from slurmkit.testbed.options import Options

    if slurm and not docker:
        raise UsageError("--slurm chooses an image: a testbed without --docker has this machine's Slurm")
    options = Options(gpus="" if gpus == "none" else gpus, accounting=not no_accounting, **shape)
    root = native.root_of(name)
    option = "" if name == "default" else f" --name {shlex.quote(name)}"
    if docker:
        cluster = compose.up(options, root, slurm=slurm or compose.DEFAULT_SLURM).cluster
        use = f"use it: slurmkit testbed exec{option} bash"
    else:
        if compose.load(root):
            raise UsageError(f"testbed {name!r} is one of containers", hint="add --docker, or take it down")
        cluster = native.up(options, root).cluster
        use = f'use it in this shell: eval "$(slurmkit testbed env{option})"'
    note(f"testbed {name} is up: {options.nodes} nodes, cluster {cluster}")
    note(use)


@command.command()
@named
def down(name: str) -> None:
    """End all processes of a testbed and remove its files."""
    from slurmkit.testbed import compose, native

    root = native.root_of(name)
    gone = compose.down(root) if compose.load(root) else native.down(root)
    note(f"testbed {name} is gone" if gone else f"there is no testbed at {root}")


@command.command()
@named
@output
def status(name: str) -> Answer:
    """Show the daemons and nodes of a testbed; exit code 1 unless all run."""
    from slurmkit.testbed import compose, native
    from slurmkit.testbed.starting import node_states

    if containers := compose.load(native.root_of(name)):
        return _container_status(containers)
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
        "daemons": [{"name": daemon, "up": bool(pid), "pid": pid} for daemon, pid in pids.items()],
        "nodes": [{"name": node, "state": nodes.get(node)} for node in testbed.nodes],
    }
    rows = [
        *((daemon, f"up, pid {pid}" if pid else "down") for daemon, pid in pids.items()),
        *((node, nodes.get(node, "unknown")) for node in testbed.nodes),
    ]
    return _status(data, rows)


def _container_status(testbed: ComposeTestbed) -> Answer:
    from slurmkit.testbed.starting import node_states

    running = testbed.running()
    nodes = node_states(testbed) if "login" in running else {}
    services = {service: service in running for service in testbed.services}
    data = {
        "root": str(testbed.root),
        "cluster": testbed.cluster,
        "slurm_conf": None,
        "up": all(services.values()),
        "cgroups": False,
        "daemons": [{"name": service, "up": runs, "pid": None} for service, runs in services.items()],
        "nodes": [{"name": node, "state": nodes.get(node)} for node in testbed.nodes],
    }
    rows = [
        *((service, "up" if runs else "down") for service, runs in services.items()),
        *((f"{node} in Slurm", nodes.get(node, "unknown")) for node in testbed.nodes),
    ]
    return _status(data, rows)


def _status(data: dict[str, Any], rows: list[tuple[str, str]]) -> Answer:
    width = max(len(label) for label, _ in rows)
    lines = [f"{data['root']} (cluster {data['cluster']})", *(f"{a:<{width}}  {b}" for a, b in rows)]
    return Answer(data=data, text="\n".join(lines), exit_code=0 if data["up"] else 1)


@command.command()
@named
def env(name: str) -> None:
    """Print the shell line that leads Slurm's commands to a testbed, for eval."""
    if _containers(name):
        raise UsageError(
            f"testbed {name!r} is one of containers: its commands are run on its login node",
            hint="slurmkit testbed exec COMMAND...",
        )
    for variable, value in _find(name).environment.items():
        click.echo(f"export {variable}={shlex.quote(value)}")


@command.command(
    name="exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
@named
@click.option("--user", help="Of containers: root (if none is named), alice or bob.")
@click.argument("argv", nargs=-1, required=True, type=click.UNPROCESSED, metavar="COMMAND...")
def execute(name: str, user: str | None, argv: tuple[str, ...]) -> None:
    """Run a command with Slurm's commands led to a testbed; its exit code is passed on.

    In a testbed of containers it runs on the login node, in /shared or the user's home.
    """
    if containers := _containers(name):
        environment = containers.variables()
        argv = tuple(containers.exec_argv(argv, user=user or "root", terminal=sys.stdin.isatty()))
    elif user:
        raise UsageError("--user is for testbeds of containers: others have one user, you")
    else:
        environment = {**os.environ, **_find(name).environment}
    try:
        os.execvpe(argv[0], argv, environment)  # noqa: S606 - a shell is what is not wanted
    except FileNotFoundError:
        note(f"error: there is no command {argv[0]!r}")
        click.get_current_context().exit(NOT_FOUND)
    except PermissionError:
        note(f"error: {argv[0]!r} cannot be executed")
        click.get_current_context().exit(CANNOT_EXECUTE)


def _containers(name: str) -> ComposeTestbed | None:
    from slurmkit.testbed import compose, native

    return compose.load(native.root_of(name))


def _find(name: str) -> Testbed:
    from slurmkit.testbed import native

    testbed = native.find(name)
    if testbed.pid("slurmctld") is None:
        raise UsageError(f"testbed {name!r} is down", where=str(testbed.root), hint="slurmkit testbed up")
    return testbed
