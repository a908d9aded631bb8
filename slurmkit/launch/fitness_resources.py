"""Disks and memory of a node, before a program needs them."""

from __future__ import annotations

import os
import time

from slurmkit.launch.fitness_found import Found, amount

MEBIBYTE = 1 << 20
CHUNK = MEBIBYTE
WRITE_SECONDS = 2.0
TOLERATED = 0.9
"""Of the memory asked for, what a step must be let use."""
SLOW = 10 * MEBIBYTE
NOTICED = 0.4
"""Bytes per second below which a directory is called slow, and seconds that this must have taken: a few
bytes are written no faster than the disk turns."""


def check_directory(what: str, path: str, size: int, *, must_exist: bool = False, space: int = 0) -> Found:
    """Write a few MiB and force them to disk; a directory yet to be made is judged by the one above it."""
    place = os.path.abspath(path)
    while not must_exist and not os.path.lexists(place) and place != os.path.dirname(place):
        place = os.path.dirname(place)
    where = "%s %s" % (what, path) if place == os.path.abspath(path) else "%s %s, in %s" % (what, path, place)
    file = os.path.join(place, ".slurmkit-check-%s-%x" % (os.uname().nodename, _number()))
    try:
        status = os.statvfs(place)
        written, seconds = write(file, size)
    except OSError as error:
        return Found(["%s cannot be written: %s" % (where, error.strerror)])
    free = status.f_bavail * status.f_frsize
    facts = {what: {"path": path, "free": free, "written": written, "seconds": round(seconds, 4)}}
    if free < space:
        return Found(["%s has %s free, %s are wanted" % (where, amount(free), amount(space))], facts=facts)
    speed = written / max(seconds, 1e-6)
    is_slow = speed < SLOW and seconds >= NOTICED
    slow = [] if not is_slow else ["%s is slow: %.1f MB/s" % (where, speed / 1e6)]
    return Found(warnings=slow, facts=facts)


def _number() -> int:
    """One for each check that is made, on this host and on others that have its name."""
    return int.from_bytes(os.urandom(8), "big")


def write(file: str, size: int) -> tuple[int, float]:
    """Write up to `size` bytes to a new file and remove it; bytes written, and seconds."""
    data = memoryview(os.urandom(min(size, CHUNK)))
    began = time.monotonic()
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        written = 0
        while written < size and time.monotonic() - began < WRITE_SECONDS:
            written += os.write(descriptor, data[: size - written])
        os.fsync(descriptor)
        return written, time.monotonic() - began
    finally:
        os.close(descriptor)
        os.unlink(file)


def check_memory(
    asked: int | None, cgroup: str = "/proc/self/cgroup", meminfo: str = "/proc/meminfo"
) -> Found:
    """The memory of the node, and what this step may use of it, against the MiB that were asked for."""
    total = memory_total(meminfo)
    limit = memory_limit(cgroup)
    facts = {"memory": {"total": total, "limit": limit}}
    wanted = (asked or 0) * MEBIBYTE
    if total is not None and total < wanted:
        # Slurm was told to take its configuration for the truth: the program may do with less.
        text = "the node has %s of memory, %s were asked for" % (amount(total), amount(wanted))
        return Found(warnings=[text], facts=facts)
    # A site may keep back some of it (AllowedRAMSpace).
    if limit is not None and limit < wanted * TOLERATED:
        return Found(
            ["the step may use %s of memory, %s were asked for" % (amount(limit), amount(wanted))],
            facts=facts,
        )
    return Found(facts=facts)


def memory_total(meminfo: str) -> int | None:
    """Bytes of memory of this node."""
    for line in read(meminfo).splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return None


def memory_limit(cgroup: str, root: str = "/sys/fs/cgroup") -> int | None:
    """The least limit of the cgroups that this process is in, in bytes; None where there is none."""
    limits = []
    for line in read(cgroup).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            base, name = root, "memory.max"
        elif "memory" in controllers.split(","):
            base, name = os.path.join(root, "memory"), "memory.limit_in_bytes"
        else:
            continue
        while path:
            text = read(base + path.rstrip("/") + "/" + name).strip()
            # Version 1 writes "no limit" as a number near 2**63.
            if text.isdigit() and int(text) < 1 << 60:
                limits.append(int(text))
            path = path.rpartition("/")[0]
    return min(limits) if limits else None


def read(path: str) -> str:
    """The text of a file; empty where it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
