"""Bringing a testbed of native processes up and down."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from slurmkit.errors import SlurmError, UsageError
from slurmkit.testbed import cgroup, database, namespace
from slurmkit.testbed.configuration import write_configuration
from slurmkit.testbed.daemons import wait_for
from slurmkit.testbed.layout import STATE_FILE, Layout, default_root, short_base
from slurmkit.testbed.leftovers import end_all
from slurmkit.testbed.options import Options
from slurmkit.testbed.plan import daemon_environment, daemon_names
from slurmkit.testbed.ports import free_ports
from slurmkit.testbed.process import user_name
from slurmkit.testbed.requirements import find_programs
from slurmkit.testbed.testbed import Testbed, load

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE = 120.0


def up(options: Options | None = None, root: Path | None = None) -> Testbed:
    """Bring a testbed up and wait until every node is idle and sacct answers.

    One that is up with the same options is returned as it is; one whose daemons ended is started again, with
    its accounting data. On failure nothing keeps running, and the files stay for a look at the logs.

    Raises:
        UsageError: there is one with other options, or the directory holds something else.
        MissingRequirement: programs are not installed.
        SlurmError: a daemon does not come up; the message ends with its log.
    """
    options = options or Options()
    root = (root or default_root()).absolute()
    find_programs(accounting=options.accounting)
    with _locked(root):
        testbed = load(root)
        if testbed is None:
            testbed = _new(options, root)
        elif differences := options.differences(testbed.options):
            raise UsageError(
                f"a testbed with other options is there: {'; '.join(differences)}",
                where=str(root),
                hint="take it down first (slurmkit testbed down), or choose another name",
            )
        if is_up(testbed):
            return testbed
        try:
            _start(testbed)
        except BaseException:
            end_all(testbed.layout, testbed.cluster)
            raise
    return testbed


def down(root: Path | None = None) -> bool:
    """End all processes of a testbed and remove its files; False if there was none.

    Raises:
        SlurmError: something cannot be ended or removed.
    """
    root = (root or default_root()).absolute()
    if not root.exists():
        return False
    with _locked(root):
        testbed = load(root)
        if testbed is None:
            if any(root.iterdir()):
                raise UsageError("this directory is not a testbed", where=str(root))
            root.rmdir()
            return False
        layout = testbed.layout
        ended = end_all(layout, testbed.cluster)
        if not ended or not wait_for(lambda: cgroup.remove(testbed.cluster), 10):
            raise SlurmError("a process of the testbed cannot be ended", where=str(root))
        for entry in root.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            elif entry.name != STATE_FILE:
                entry.unlink()
        if layout.base != root:
            shutil.rmtree(layout.base.parent, ignore_errors=True)
        (root / STATE_FILE).unlink()
        root.rmdir()
    return True


def is_up(testbed: Testbed) -> bool:
    """Whether all daemons run and the controller and, with accounting, slurmdbd answer."""
    return all(daemon.process() for daemon in testbed.daemons().values()) and _answers(testbed)


def _new(options: Options, root: Path) -> Testbed:
    if any(root.iterdir()):
        raise UsageError("this directory is not empty, and not a testbed", where=str(root))
    names = daemon_names(options.node_names(), accounting=options.accounting)
    word = re.sub(r"[^a-z0-9]", "", root.name.lower())[:20] or "testbed"
    layout = Layout(short_base(root, options.node_names()[-1]))
    testbed = Testbed(
        root=root,
        layout=layout,
        options=options,
        cluster=f"{word}-{hashlib.sha256(os.fsencode(root)).hexdigest()[:6]}",
        ports=free_ports([name for name in names if name.startswith("slurm")]),
        cgroup=cgroup.is_usable(),
        named=namespace.is_usable(),
    )
    testbed.save()
    return testbed


def _start(testbed: Testbed) -> None:
    layout = testbed.layout
    end_all(layout, testbed.cluster)
    _relink(testbed)
    layout.make_directories(testbed.nodes)
    if testbed.cgroup:
        cgroup.make(layout, testbed.cluster)
    if testbed.named:
        namespace.write_hosts(layout, testbed.nodes)
    write_configuration(testbed)
    daemons = testbed.daemons()
    daemons["munged"].start()
    if testbed.options.accounting:
        programs = find_programs(accounting=True)
        environment = daemon_environment(layout)
        database.install(layout, programs["mariadb-install-db"], user_name(), environment)
        for name in ("mariadbd", "munged", "slurmdbd"):
            daemons[name].start()
            daemons[name].wait_until_serving(PATIENCE)
        database.make_accounts(programs["sacctmgr"], testbed.cluster, user_name(), environment)
    rest = [daemon for daemon in daemons.values() if not daemon.process()]
    for daemon in rest:
        daemon.start()
    for daemon in rest:
        daemon.wait_until_serving(PATIENCE)
    if not wait_for(lambda: _is_ready(testbed), PATIENCE, 0.1):
        raise daemons["slurmctld"].failure(f"is up, but not every node is idle:\n{node_states(testbed)}")


def _relink(testbed: Testbed) -> None:
    base = testbed.layout.base
    if base != testbed.root and not base.is_symlink():
        base.parent.mkdir(mode=0o755, exist_ok=True)
        base.symlink_to(testbed.root)


def _is_ready(testbed: Testbed) -> bool:
    states = node_states(testbed)
    return states == dict.fromkeys(testbed.nodes, "idle") and _answers(testbed)


def node_states(testbed: Testbed) -> dict[str, str]:
    """The state of each node as sinfo has it; empty where the controller does not answer."""
    answer = testbed.command(["sinfo", "--noheader", "--Node", "--format=%N %T"]).stdout
    return dict(words for line in answer.splitlines() if len(words := line.split()) == 2)


def _answers(testbed: Testbed) -> bool:
    if testbed.command(["scontrol", "ping"]).returncode:
        return False
    return not testbed.options.accounting or testbed.command(["sacct", "--noheader"]).returncode == 0


@contextlib.contextmanager
def _locked(root: Path) -> Iterator[None]:
    """Hold the testbed's directory: one `up` or `down` at a time, and no lock file to leave behind."""
    while True:
        root.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # While we waited, a `down` may have removed the directory that we opened.
            if root.exists() and os.path.samestat(os.fstat(descriptor), root.stat()):
                yield
                return
        finally:
            os.close(descriptor)


def root_of(name: str | Path) -> Path:
    """The directory of the testbed of this name; a name with a "/" is the directory."""
    return (Path(name) if os.sep in str(name) else default_root(str(name))).absolute()


def find(name: str | Path) -> Testbed:
    """The testbed of this name, or in this directory; up or down.

    Raises:
        UsageError: there is none.
    """
    root = root_of(name)
    testbed = load(root)
    if testbed is None:
        raise UsageError(f"there is no testbed {str(name)!r}", where=str(root), hint="slurmkit testbed up")
    return testbed
