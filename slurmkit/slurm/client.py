"""Which client a command speaks to Slurm with: `[slurm] client` of the profiles, and what is there.

Nothing of pyslurm is imported to decide: its import ends the process where Slurm's library finds no
configuration, or was built for another Slurm. An interpreter of its own tries it, once an hour.
"""

from __future__ import annotations

import os
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.errors import MissingRequirement, SlurmkitError
from slurmkit.slurm import commands as by_commands

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slurmkit.slurm.clock import Clock
    from slurmkit.slurm.process import Answer, Retry
    from slurmkit.slurm.protocol import Slurm

CONFIGURATIONS = (
    "/etc/slurm/slurm.conf",
    "/run/slurm/conf/slurm.conf",  # of a configless slurmd or sackd
    "/etc/slurm-llnl/slurm.conf",
    "/usr/local/etc/slurm.conf",
)
"""Where Slurm's library may find one without SLURM_CONF; a lookup in the DNS is not waited for."""

BUILT_FOR = "slurm-version"
"""A file in pyslurm's dist-info that docker/pyslurm leaves: the Slurm that it was built for."""

HOUR = 3600.0
_IMPORT = "import pyslurm"


class Choice(NamedTuple):
    """A client by its name, and why it is this one."""

    client: str
    reason: str


def open_client(
    wanted: str,
    *,
    clusters: str | None,
    clock: Clock,
    retry: Retry | None = None,
    environ: Mapping[str, str] | None = None,
) -> Slurm:
    """The client for the process's own environment, of a cluster that Slurm's library here reaches.

    Raises:
        MissingRequirement: pyslurm was asked for by name, and cannot be used here.
    """
    environ = os.environ if environ is None else environ
    commands = by_commands.Commands(
        environment=environ, clusters=clusters, clock=clock, retry=retry or by_commands.READ
    )
    if choose(wanted, clusters=clusters, clock=clock, environ=environ).client != "pyslurm":
        return commands
    from slurmkit.slurm.pyslurm import PySlurm

    return PySlurm(commands, clock=clock)


def choose(wanted: str, *, clusters: str | None, clock: Clock, environ: Mapping[str, str]) -> Choice:
    """Which client it is, and why.

    Raises:
        MissingRequirement: pyslurm was asked for by name, and cannot be used here.
    """
    if wanted in {"commands", "rest"}:
        return Choice(wanted, f'asked for by [slurm] client = "{wanted}"')
    hindrance = _hindrance(clusters, clock, environ)
    if hindrance is None:
        return Choice("pyslurm", "is installed, can be imported, and was built for this Slurm")
    if wanted == "pyslurm":
        raise MissingRequirement(
            f'[slurm] client = "pyslurm", but {hindrance}',
            hint='set client = "auto", or see docs/howto/pyslurm.md',
        )
    return Choice("commands", hindrance)


def built_for(package: str) -> str | None:
    """The Slurm that an installed pyslurm was built for, as "25.11"; `package` is its folder.

    It is the one of pyslurm's own number, unless a note says otherwise.
    """
    site = os.path.dirname(package)  # noqa: PTH120
    for name in os.listdir(site):  # noqa: PTH208
        if name.startswith("pyslurm-") and name.endswith(".dist-info"):
            note = os.path.join(site, name, BUILT_FOR)  # noqa: PTH118
            if os.path.exists(note):  # noqa: PTH110
                with open(note, encoding="ascii") as file:  # noqa: PTH123
                    return file.read().strip()
            return ".".join(name.removeprefix("pyslurm-").split(".")[:2])
    return None


def _hindrance(clusters: str | None, clock: Clock, environ: Mapping[str, str]) -> str | None:
    """Why pyslurm cannot be used; None where it can."""
    found = PathFinder.find_spec("pyslurm")
    if found is None or not found.submodule_search_locations:
        return "pyslurm is not installed"
    if clusters:
        return "other clusters are asked for, which pyslurm cannot reach"
    conf = _configuration(environ)
    if conf is None:
        return "no slurm.conf is where Slurm's library would look, and pyslurm's import would end the process"
    package = next(iter(found.submodule_search_locations))
    return _tried(package, conf, clock, environ)


def _configuration(environ: Mapping[str, str]) -> str | None:
    """The slurm.conf, or the server that has one; None where the library would have to search the network."""
    conf = environ.get("SLURM_CONF")
    if conf:
        return conf if os.path.exists(conf) else None  # noqa: PTH110
    return environ.get("SLURM_CONF_SERVER") or next(filter(os.path.exists, CONFIGURATIONS), None)


def _tried(package: str, conf: str, clock: Clock, environ: Mapping[str, str]) -> str | None:
    """What came out when an interpreter of its own tried pyslurm; for an hour, until something changes."""
    import sys

    from slurmkit.slurm.process import Answer, find_program
    from slurmkit.slurm.sharing import Shared, default_folder, shared_answer

    try:
        scontrol = find_program("scontrol", environ.get("PATH"))
    except SlurmkitError as error:
        return error.what
    # Not the folder, which changes as soon as Python has left its bytecode there.
    files = (os.path.join(package, "__init__.py"), conf, scontrol)  # noqa: PTH118
    state = [f"{path}:{_changed(path)}" for path in files]
    answer = shared_answer(
        Shared(default_folder(environ), clock),
        [sys.executable, _IMPORT, *state],
        conf,
        HOUR,
        lambda: Answer(0, _try(package, scontrol, clock, environ), ""),
    )
    return answer.stdout or None


def _try(package: str, scontrol: str, clock: Clock, environ: Mapping[str, str]) -> str:
    """Why pyslurm cannot be used; empty where it can."""
    import sys

    from slurmkit.slurm import process
    from slurmkit.slurm.scontrol import parse_version

    def run(*argv: str) -> Answer:
        return process.run(argv, environment=environ, clock=clock, timeout=20.0)

    try:
        here = "{}.{:02}".format(*parse_version(run(scontrol, "--version").stdout))
    except ValueError as error:
        return str(error)
    theirs = built_for(package)
    if theirs != here:
        return f"pyslurm was built for Slurm {theirs}, and this is {here}"
    answer = run(sys.executable, "-P", "-c", _IMPORT)
    if answer.is_ok:
        return ""
    said = answer.stderr.strip().splitlines()
    return f"pyslurm cannot be imported: {said[-1] if said else f'exit code {answer.code}'}"


def _changed(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116
    except OSError:
        return 0
