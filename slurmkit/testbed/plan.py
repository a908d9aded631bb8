"""How every daemon of a testbed is started."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from slurmkit.testbed.daemons import Daemon
from slurmkit.testbed.requirements import SEARCH_PATH

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from slurmkit.testbed.layout import Layout

KEPT = ("HOME", "TZ", "TMPDIR", "LD_LIBRARY_PATH")


def daemon_environment(layout: Layout) -> dict[str, str]:
    """The environment of daemons and of commands run for them: nothing of the caller's Slurm gets in."""
    return {
        **{name: os.environ[name] for name in KEPT if name in os.environ},
        "PATH": SEARCH_PATH,
        "LC_ALL": "C.UTF-8",
        "SLURM_CONF": str(layout.conf),
        "MYSQL_UNIX_PORT": str(layout.database_socket),
    }


def daemon_names(nodes: tuple[str, ...], *, accounting: bool) -> list[str]:
    """All daemons in the order in which they are started."""
    return [
        "munged",
        *(["mariadbd", "slurmdbd"] if accounting else []),
        "slurmctld",
        *(f"slurmd-{n}" for n in nodes),
    ]


def plan(
    layout: Layout, programs: Mapping[str, str], ports: Mapping[str, int], names: list[str], user: str
) -> dict[str, Daemon]:
    """The daemons by name."""
    environment = daemon_environment(layout)
    return {
        name: Daemon(
            name=name,
            argv=_argv(name, layout, programs, user),
            environment=environment,
            address=_address(name, layout, ports),
            log=layout.log(name),
            output=layout.output(name),
            record=layout.record(name),
        )
        for name in names
    }


def _argv(name: str, layout: Layout, programs: Mapping[str, str], user: str) -> tuple[str, ...]:
    match name:
        case "munged":
            # --force: a directory that only its owner can enter is a warning, not an error.
            return (
                programs["munged"],
                "--foreground",
                "--force",
                f"--socket={layout.munge_socket}",
                f"--key-file={layout.munge_key}",
                f"--pid-file={layout.run / 'munged.pid'}",
                f"--log-file={layout.log('munged')}",
                f"--seed-file={layout.run / 'munged.seed'}",
            )
        case "mariadbd":
            return (
                programs["mariadbd"],
                f"--defaults-file={layout.conf.with_name('my.cnf')}",
                f"--user={user}",
                f"--log-error={layout.log('mariadbd')}",
            )
        case "slurmdbd":
            return (programs["slurmdbd"], "-D")
        case "slurmctld":
            return (programs["slurmctld"], "-D", "-f", str(layout.conf))
        case _:
            return (programs["slurmd"], "-D", "-N", name.removeprefix("slurmd-"), "-f", str(layout.conf))


def _address(name: str, layout: Layout, ports: Mapping[str, int]) -> int | Path:
    return {"munged": layout.munge_socket, "mariadbd": layout.database_socket}.get(name) or ports[name]
