"""Bringing a testbed of native processes up and down."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from slurmkit.errors import SlurmError, UsageError
from slurmkit.testbed import cgroup, namespace
from slurmkit.testbed.daemons import wait_for
from slurmkit.testbed.layout import (
    STATE_FILE,
    Layout,
    cluster_name,
    default_root,
    links_to,
    remove_link,
    short_base,
)
from slurmkit.testbed.leftovers import belonging, end_all
from slurmkit.testbed.options import Options
from slurmkit.testbed.ports import free_ports, is_free
from slurmkit.testbed.requirements import find_programs
from slurmkit.testbed.starting import answers, start
from slurmkit.testbed.testbed import Testbed, load

if TYPE_CHECKING:
    from collections.abc import Iterator

DRAWS = 3


def up(options: Options | None = None, root: Path | None = None) -> Testbed:
    """Bring a testbed up and wait until every node is idle and sacct answers.

    One that is up with the same options is returned as it is; where some of its daemons ended, they are
    started again, and jobs and accounting data are kept. On failure nothing keeps running, and the logs stay.

    Raises:
        UsageError: there is one with other options, or the directory holds something else.
        MissingRequirement: programs are not installed.
        SlurmError: a daemon does not come up; the message ends with its log.
    """
    options = options or Options()
    root = (root or default_root()).resolve()
    find_programs(accounting=options.accounting, rest=options.rest)
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
        if not is_up(testbed):
            testbed = _bring_up(testbed)
    return testbed


def down(root: Path | None = None) -> bool:
    """End all processes of a testbed and remove its files; False if there was none.

    Where somebody has removed the files, what they had started goes all the same.

    Raises:
        SlurmError: something cannot be ended or removed.
    """
    root = (root or default_root()).resolve()
    if not root.exists():
        return _end_forgotten(root)
    with _locked(root):
        testbed = load(root)
        if testbed is None:
            _refuse_unless_empty(root)
            found = _end_forgotten(root)
            root.rmdir()
            return found
        _end(testbed)
        for entry in root.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            elif entry.name != STATE_FILE:
                entry.unlink()
        # Last: as long as it stands, an interrupted `down` can be repeated.
        (root / STATE_FILE).unlink()
        root.rmdir()
    return True


def _end_forgotten(root: Path) -> bool:
    """End what a testbed started whose files somebody has removed; False if there was nothing."""
    found = [_end(_shape(Options(), root, base)) for base in (root, *links_to(root))]
    return any(found)


def _end(testbed: Testbed) -> bool:
    """End the processes, and remove what is not under the root; False if there was nothing."""
    found = bool(belonging(testbed)) or any(map(Path.exists, cgroup.directories(testbed.cluster)))
    if not end_all(testbed) or not wait_for(lambda: cgroup.remove(testbed.cluster), 10):
        raise SlurmError("a process of the testbed cannot be ended", where=str(testbed.root))
    return remove_link(testbed.layout.base) or found


def root_of(name: str | Path) -> Path:
    """The directory of the testbed of this name; a name with a "/" is the directory."""
    return (Path(name) if os.sep in str(name) else default_root(str(name))).resolve()


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


def is_up(testbed: Testbed) -> bool:
    """Whether all daemons run and the controller and, with accounting, slurmdbd answer."""
    return not testbed.missing() and answers(testbed)


def _new(options: Options, root: Path) -> Testbed:
    _refuse_unless_empty(root)
    _end_forgotten(root)
    testbed = replace(
        _shape(options, root, short_base(root, options.node_names()[-1])),
        ports=free_ports(options.daemons_with_port()),
        cgroup=cgroup.is_usable(),
        named=namespace.is_usable(),
    )
    testbed.save()
    return testbed


def _shape(options: Options, root: Path, base: Path) -> Testbed:
    """A testbed as far as its place and its options say."""
    return Testbed(root, Layout(base), options, cluster_name(root), ports={}, cgroup=False, named=False)


def _bring_up(testbed: Testbed) -> Testbed:
    """Start it; where another process took one of its ports meanwhile, with other ports."""
    for draw in range(DRAWS):
        if not testbed.running():
            end_all(testbed)
            testbed = _renewed(testbed)
        try:
            start(testbed)
        except BaseException as error:
            end_all(testbed)
            if isinstance(error, SlurmError) and draw + 1 < DRAWS and not _ports_are_free(testbed):
                continue
            raise
        break
    return testbed


def _renewed(testbed: Testbed) -> Testbed:
    """The testbed with what a reboot, or another process, took from it: its short name, its ports."""
    options = testbed.options
    if testbed.layout.base != testbed.root and not testbed.layout.base.is_symlink():
        base = short_base(testbed.root, options.node_names()[-1])
        testbed = replace(testbed, layout=Layout(base))
    if not _ports_are_free(testbed):
        testbed = replace(testbed, ports=free_ports(options.daemons_with_port()))
    testbed.save()
    return testbed


def _ports_are_free(testbed: Testbed) -> bool:
    return all(map(is_free, testbed.ports.values()))


def _refuse_unless_empty(root: Path) -> None:
    if any(root.iterdir()):
        raise UsageError("this directory is not empty, and not a testbed", where=str(root))


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
