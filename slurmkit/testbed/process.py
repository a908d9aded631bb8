"""Processes by pid, start time and boot: a recycled pid is never taken for the old process."""

from __future__ import annotations

import json
import os
import pwd
import select
import signal
from dataclasses import asdict, dataclass
from pathlib import Path

from slurmkit.launch.files import write_atomically

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Process:
    """One process of one boot; `started` is its start time in clock ticks since the boot."""

    pid: int
    started: int
    boot: str

    def is_alive(self) -> bool:
        """Whether it still runs; a zombie does not."""
        if self.boot != boot_id():
            return False
        stat = read_stat(self.pid)
        return stat is not None and stat.started == self.started and not stat.is_dead

    def kill(self, number: int = signal.SIGKILL) -> bool:
        """Send a signal; False if the process is no more, whoever has its pid now."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return False
        try:
            # The pidfd pins the process: identity checked after it was opened holds until the signal is sent.
            if not self.is_alive():
                return False
            signal.pidfd_send_signal(descriptor, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(descriptor)
        return True

    def wait(self, timeout: float) -> bool:
        """Wait for its end at most `timeout` seconds; True if it has ended."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return True
        try:
            if not self.is_alive():
                return True
            poller = select.poll()
            poller.register(descriptor, select.POLLIN)
            return bool(poller.poll(timeout * 1000))
        finally:
            os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Stat:
    """What /proc/PID/stat says that matters here."""

    state: str
    parent: int
    started: int

    @property
    def is_dead(self) -> bool:
        """Ended, and only waiting to be collected."""
        return self.state in "ZXx"


def user_name() -> str:
    """The user who runs this process."""
    return pwd.getpwuid(os.geteuid()).pw_name


def write_record(file: Path, process: Process) -> None:
    """Write down which process something is."""
    write_atomically(file, json.dumps(asdict(process)).encode())


def read_record(file: Path) -> Process | None:
    """The process that `write_record` wrote down, if it is alive."""
    try:
        process = Process(**json.loads(file.read_bytes()))
    except (FileNotFoundError, ValueError, TypeError):
        return None
    return process if process.is_alive() else None


def boot_id() -> str:
    """The id of this boot of the kernel."""
    return BOOT_ID.read_text().strip()


def read_stat(pid: int) -> Stat | None:
    """The state of a process, or None if there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    words = text[text.rindex(")") + 2 :].split()
    return Stat(words[0], int(words[1]), int(words[19]))


def identify(pid: int) -> Process | None:
    """The process that has this pid now."""
    stat = read_stat(pid)
    return None if stat is None or stat.is_dead else Process(pid, stat.started, boot_id())


def all_pids() -> list[int]:
    """The pids of all processes that /proc shows."""
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def read_items(pid: int, file: str) -> list[str]:
    """The NUL-separated items of /proc/PID/cmdline or environ; empty where they cannot be read."""
    try:
        data = Path(f"/proc/{pid}/{file}").read_bytes()
    except OSError:
        return []
    return [os.fsdecode(item) for item in data.split(b"\0") if item]


def ancestors(pid: int) -> set[int]:
    """The process itself, its parent, and so on up."""
    line: set[int] = set()
    while pid and pid not in line:
        line.add(pid)
        stat = read_stat(pid)
        pid = stat.parent if stat else 0
    return line


def with_descendants(roots: set[int]) -> set[int]:
    """The processes of these pids and all that descend from them, as /proc shows it now."""
    children: dict[int, list[int]] = {}
    for pid in all_pids():
        stat = read_stat(pid)
        if stat:
            children.setdefault(stat.parent, []).append(pid)
    found: set[int] = set()
    queue = list(roots)
    while queue:
        pid = queue.pop()
        if pid not in found:
            found.add(pid)
            queue += children.get(pid, ())
    return found
