"""How every daemon of a testbed is started."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from slurmkit.testbed import namespace
from slurmkit.testbed.daemons import Daemon
from slurmkit.testbed.process import user_name
from slurmkit.testbed.requirements import search_path

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from slurmkit.testbed.layout import Layout
    from slurmkit.testbed.testbed import Testbed

NOBODY = "65534"
KEPT = ("HOME", "TZ", "TMPDIR", "LD_LIBRARY_PATH")


def daemon_environment(layout: Layout) -> dict[str, str]:
    """The environment of daemons and of commands run for them: nothing of the caller's Slurm gets in."""
    return {
        **{name: os.environ[name] for name in KEPT if name in os.environ},
        "PATH": search_path(),
        "LC_ALL": "C.UTF-8",
        "SLURM_CONF": str(layout.conf),
        "MYSQL_UNIX_PORT": str(layout.database_socket),
    }


def plan(testbed: Testbed, programs: Mapping[str, str]) -> dict[str, Daemon]:
    """The testbed's daemons by name, in the order in which they are started."""
    layout = testbed.layout
    environment = daemon_environment(layout)
    return {
        name: Daemon(
            name=name,
            argv=_argv(name, testbed, programs),
            environment=environment | _for_rest() if name == "slurmrestd" else environment,
            address=_address(name, testbed),
            log=layout.log(name),
            output=layout.output(name),
            record=layout.record(name),
        )
        for name in testbed.options.daemons()
    }


def _argv(name: str, testbed: Testbed, programs: Mapping[str, str]) -> tuple[str, ...]:
    layout = testbed.layout
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
                f"--user={user_name()}",
                f"--log-error={layout.log('mariadbd')}",
            )
        case "slurmdbd":
            return (programs["slurmdbd"], "-D")
        case "slurmctld":
            return (programs["slurmctld"], "-D", "-f", str(layout.conf))
        case "slurmrestd":
            # By token alone: over rest_auth/local whoever has its own uid would need none.
            listen = (f"127.0.0.1:{testbed.ports[name]}", f"unix:{layout.rest_socket}")
            return (*_as_nobody(), programs[name], "-f", str(layout.conf), "-a", "rest_auth/jwt", *listen)
        case _:
            node = name.removeprefix("slurmd-")
            slurmd = (programs["slurmd"], "-D", "-N", node, "-f", str(layout.conf))
            return namespace.as_node(layout.hosts, node, slurmd) if testbed.named else slurmd


def _for_rest() -> dict[str, str]:
    """Slurmrestd may not run as SlurmUser: where nobody else can be had, it is told that this is a test."""
    security = ["disable_unshare_sysv", "disable_unshare_files"]  # a container does not let it
    if os.geteuid() != 0:
        security.append("disable_user_check")
    return {"SLURMRESTD_SECURITY": ",".join(security), "SLURM_JWT": "daemon"}


def _as_nobody() -> tuple[str, ...]:
    """Another user than SlurmUser, who sees the testbed's files all the same."""
    if os.geteuid() != 0:
        return ()
    capabilities = ("--inh-caps=+dac_override", "--ambient-caps=+dac_override")
    return ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *capabilities)


def _address(name: str, testbed: Testbed) -> int | Path:
    sockets = {"munged": testbed.layout.munge_socket, "mariadbd": testbed.layout.database_socket}
    return sockets.get(name) or testbed.ports[name]
