"""A part of the machine's cgroup v1 trees for one testbed, and links that lead its slurmds there.

slurmd names its cgroup after the node alone, so two testbeds with a node n1 would share one. Each testbed has
its own directory in every tree, and its CgroupMountpoint holds one link per controller to that directory.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from slurmkit.slurm.scontrol import parse_version
from slurmkit.testbed.requirements import search_path

if TYPE_CHECKING:
    from slurmkit.testbed.layout import Layout

MOUNTPOINT = Path("/sys/fs/cgroup")
CONTROLLERS = ("freezer", "memory", "devices", "cpuset", "cpuacct")
PARENT = "slurmkit-testbed"


def is_usable(mountpoint: Path = MOUNTPOINT) -> bool:
    """Whether this user can make cgroups and set limits in every tree that Slurm needs."""
    return os.geteuid() == 0 and all(_accepts_children(mountpoint / name) for name in CONTROLLERS)


def can_be_switched_off() -> bool:
    """Whether this slurmd knows `CgroupPlugin=disabled` (since 24.05, by its man page); 22.05 ends at it."""
    slurmd = shutil.which("slurmd", path=search_path())
    if slurmd is None:
        return False
    told = subprocess.run(
        [slurmd, "-V"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    return told.returncode == 0 and parse_version(told.stdout) >= (24, 5, 0)


def _accepts_children(tree: Path) -> bool:
    if not (tree / "cgroup.procs").exists():
        return False
    probe = tree / f"{PARENT}-probe-{os.getpid()}"
    try:
        probe.mkdir()
        probe.rmdir()
    except OSError:
        return False
    return True


def directories(cluster: str, mountpoint: Path = MOUNTPOINT) -> list[Path]:
    """The testbed's directory in each tree."""
    return [mountpoint / name / f"{PARENT}-{cluster}" for name in CONTROLLERS]


def make(layout: Layout, cluster: str) -> None:
    """Make the testbed's cgroups and the links to them; those that exist stay."""
    for directory in directories(cluster):
        directory.mkdir(exist_ok=True)
        if directory.parent.name == "cpuset":
            for file in ("cpuset.cpus", "cpuset.mems"):
                (directory / file).write_text((directory.parent / file).read_text())
        link = layout.cgroup / directory.parent.name
        with contextlib.suppress(FileExistsError):
            link.symlink_to(directory)


def members(cluster: str) -> set[int]:
    """The pids of all processes in the testbed's cgroups."""
    return {int(pid) for directory in _below(cluster) for pid in _read(directory / "cgroup.procs").split()}


def thaw(cluster: str) -> None:
    """Let frozen processes run, so that a signal can end them."""
    for directory in _below(cluster):
        if (directory / "freezer.state").exists():
            with contextlib.suppress(OSError):
                (directory / "freezer.state").write_text("THAWED")


def remove(cluster: str) -> bool:
    """Remove the testbed's cgroups, deepest first; False while one of them is still in use."""
    for directory in _below(cluster):
        with contextlib.suppress(OSError):
            directory.rmdir()
    return not any(directory.exists() for directory in directories(cluster))


def _below(cluster: str) -> list[Path]:
    return [
        Path(directory) for top in directories(cluster) for directory, _, _ in os.walk(top, topdown=False)
    ]


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""
