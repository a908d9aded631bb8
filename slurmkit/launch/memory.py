"""Whether the kernel has killed something here because memory ran out: the counter of this cgroup."""

from __future__ import annotations

MOUNTED = "/sys/fs/cgroup"
OF_VERSION = {
    # The version's own mount, and the files that count, best first.
    1: ("/memory", ("memory.oom_control",)),
    2: ("", ("memory.events.local", "memory.events")),
}


def oom_kills(cgroups: str = "/proc/self/cgroup", mounted: str = MOUNTED) -> int:
    """How many processes of this cgroup the kernel has killed so far; 0 where nothing tells."""
    for line in _lines(cgroups):
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if "memory" not in controllers.split(",") and controllers:
            continue
        tree, files = OF_VERSION[1 if controllers else 2]
        for name in files:
            for entry in _lines(f"{mounted}{tree}{path}/{name}"):
                key, _, count = entry.partition(" ")
                if key == "oom_kill" and count.strip().isdigit():
                    return int(count)
    return 0


def _lines(path: str) -> list[str]:
    try:
        with open(path, "rb") as file:
            return file.read().decode("utf-8", "surrogateescape").splitlines()
    except OSError:
        return []
