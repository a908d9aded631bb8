"""What commands share: the RUN argument, where the user's runs are, and the client of Slurm.

All of it is imported late: a completion, which runs at each press of TAB, must cost no more than click does.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from slurmkit.run.paths import RunPaths
    from slurmkit.run.watch import Watch
    from slurmkit.slurm.clock import Clock
    from slurmkit.slurm.protocol import Slurm
    from slurmkit.spec import Profile


def complete_run(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """The ids of runs that start so, newest first; from the index alone."""
    from slurmkit.run.index import LAST, names

    return [name for name in [LAST, *names(runs_index())] if name.startswith(incomplete)]


def run_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the argument RUN."""
    return click.argument("run", metavar="RUN", shell_complete=complete_run)(function)


def runs_argument(*, required: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the argument RUN..., as `runs`."""
    return click.argument(
        "runs",
        metavar="RUN..." if required else "[RUN]...",
        nargs=-1,
        required=required,
        shell_complete=complete_run,
    )


def runs_index() -> Path:
    """The folder of links to this user's runs."""
    from slurmkit.run.index import index_of

    return index_of(os.environ)


def find_run(name: str) -> RunPaths:
    """The run that a name stands for.

    Raises:
        RunNotFound: none, or more than one.
    """
    from slurmkit.run.index import resolve

    return resolve(name, runs_index())


def find_runs(names: tuple[str, ...]) -> list[RunPaths]:
    """The runs that names stand for, each once, in their order.

    Raises:
        RunNotFound: for the first name that stands for none, or for more than one.
    """
    return list(dict.fromkeys(map(find_run, names)))


@functools.cache
def connect(cluster: str | None = None) -> Slurm:
    """The client of Slurm for a cluster, or for what the profiles say.

    Raises:
        JobFileError: a profile is wrong.
        UsageError: a profile does not say which cluster.
        MissingRequirement: the client that a profile names cannot be used here.
    """
    from slurmkit.run import clients

    return clients.connect(profile(), cluster, clock=system_clock())


@functools.cache
def connect_to_watch(cluster: str | None = None) -> Slurm:
    """As `connect`, but every question is put once: who watches asks again anyway.

    Raises:
        JobFileError: a profile is wrong.
        UsageError: a profile does not say which cluster.
        MissingRequirement: the client that a profile names cannot be used here.
    """
    from slurmkit.run import clients
    from slurmkit.slurm.process import NEVER

    return clients.connect(profile(), cluster, clock=system_clock(), retry=NEVER)


@functools.cache
def profile() -> Profile:
    """The settings of the site and the user.

    Raises:
        JobFileError: a profile is wrong.
    """
    from slurmkit.spec.profile import read_profile

    return read_profile()


@functools.cache
def system_clock() -> Clock:
    """The machine's clock."""
    from slurmkit.slurm.clock import SystemClock

    return SystemClock()


def watch_runs(runs: Sequence[RunPaths]) -> Watch:
    """A watch on runs at the pace that the profiles allow."""
    from slurmkit.run.watch import Pace, Watch

    def pace() -> Pace:
        return Pace(profile().least_interval, profile().greatest_interval)

    return Watch(runs, connect_to_watch, system_clock(), pace)
