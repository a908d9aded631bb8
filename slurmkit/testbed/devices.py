"""Character devices that stand for GPUs: Slurm wants one file per GPU, and constrains jobs by its numbers."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from slurmkit.errors import UsageError

EXPERIMENTAL_MAJORS = range(240, 255)
MINORS_PER_NODE = 1024
BORROWED = "/dev/tty"


def free_major() -> int:
    """A device number that no driver answers to: opening such a file fails and harms nothing."""
    characters = Path("/proc/devices").read_text().partition("Block devices:")[0]
    taken = {int(line.split()[0]) for line in characters.splitlines() if line.strip()[:1].isdigit()}
    return next((major for major in EXPERIMENTAL_MAJORS if major not in taken), EXPERIMENTAL_MAJORS[0])


def make_devices(directory: Path, nodes: tuple[str, ...], count: int) -> dict[str, list[str]]:
    """Device files named nvidia0... for each node, made under `directory`; needs root.

    Raises:
        PermissionError: this user, or this container, may not make devices.
    """
    major = free_major()
    files: dict[str, list[str]] = {}
    for position, node in enumerate(nodes):
        (directory / node).mkdir(parents=True, exist_ok=True)
        files[node] = [str(directory / node / f"nvidia{number}") for number in range(count)]
        for number, file in enumerate(files[node]):
            if not os.path.lexists(file):
                os.mknod(file, 0o666 | stat.S_IFCHR, os.makedev(major, position * MINORS_PER_NODE + number))
                Path(file).chmod(0o666)
    return files


def borrow_devices(count: int) -> list[str]:
    """Device files of this machine that stand for GPUs where none can be made: /dev/tty0 and so on.

    Raises:
        UsageError: the machine has fewer.
    """
    named = (f"{BORROWED}{number}" for number in range(64))
    found = [file for file in named if _is_character_device(file)][:count]
    if len(found) < count:
        found = [str(file) for file in sorted(Path("/dev").iterdir()) if _is_character_device(str(file))][
            :count
        ]
    if len(found) < count:
        raise UsageError(
            f"{count} GPUs per node need as many character devices, and /dev has {len(found)}",
            hint="ask for fewer GPUs, or run the testbed as root",
        )
    return found


def _is_character_device(file: str) -> bool:
    try:
        return stat.S_ISCHR(os.stat(file).st_mode)  # noqa: PTH116
    except OSError:
        return False
