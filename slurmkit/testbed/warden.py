"""Runs the daemon of a container, and does to it what a test asks for, from whichever container it asks.

The way in is a socket in the folder that all containers share; root alone can open it. What is asked for is
"start", "stop", or the number of a signal; the answer is a line: empty, or what went wrong.
"""

from __future__ import annotations

import os
import pwd
import select
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

from slurmkit.errors import SlurmError, UsageError
from slurmkit.testbed.daemons import wait_for
from slurmkit.testbed.ports import listens

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PORTS = {"slurmctld": 6817, "slurmd": 6818, "slurmdbd": 6819}
PATIENCE = 60.0
ENDING = frozenset({signal.SIGTERM, signal.SIGKILL})


def socket_of(root: Path, name: str) -> Path:
    """Where the daemon of this name is asked."""
    return root / "control" / name


def ask(root: Path, name: str, request: str) -> None:
    """Ask for something to be done to a daemon, and wait until it is.

    Raises:
        UsageError: no daemon of this name can be asked.
        SlurmError: it was not done.
    """
    path = socket_of(root, name)
    with socket.socket(socket.AF_UNIX) as line:
        try:
            line.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError) as error:
            raise UsageError(f"there is no daemon {name!r} to {request}", where=str(path)) from error
        line.sendall(f"{request}\n".encode())
        answer = line.makefile(encoding="utf-8").readline().strip()
    if answer:
        raise SlurmError(f"{name}: {request}: {answer}")


def run(root: Path, name: str, argv: Sequence[str], user: str) -> int:
    """Run a daemon until it ends without having been asked to; its exit code."""
    path = socket_of(root, name)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.unlink(missing_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    child: subprocess.Popen[bytes] | None = _start(argv, user)
    try:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(path))
            path.chmod(0o600)
            listening.listen()
            while _is_asked(listening, child):
                line, _ = listening.accept()
                with line:
                    request = line.makefile(encoding="utf-8").readline().strip()
                    if request == "start":
                        running = child or _start(argv, user)
                        child, answer = running, _wait_until_serving(running, PORTS[argv[0]])
                    else:
                        child, answer = _send(child, request)
                    line.sendall(f"{answer}\n".encode())
            return child.returncode if child else 0
    finally:
        if child and child.poll() is None:
            child.terminate()
            child.wait()


def _start(argv: Sequence[str], user: str) -> subprocess.Popen[bytes]:
    groups = os.getgrouplist(user, pwd.getpwnam(user).pw_gid)
    return subprocess.Popen(list(argv), user=user, group=groups[0], extra_groups=groups)


def _is_asked(listening: socket.socket, child: subprocess.Popen[bytes] | None) -> bool:
    """Wait for a request; False where the daemon ends first. One that was asked to end is not waited for."""
    if child is None:
        select.select([listening], [], [])
        return True
    descriptor = os.pidfd_open(child.pid)
    try:
        ready, _, _ = select.select([listening.fileno(), descriptor], [], [])
    finally:
        os.close(descriptor)
    if descriptor in ready:
        child.wait()
    return descriptor not in ready


def _send(child: subprocess.Popen[bytes] | None, request: str) -> tuple[subprocess.Popen[bytes] | None, str]:
    """Send the daemon a signal; the daemon as it is afterwards, and what went wrong."""
    number = signal.SIGTERM if request == "stop" else int(request)
    if child is None:
        return None, ""
    child.send_signal(number)
    if number not in ENDING:
        return child, ""
    try:
        child.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        return child, f"has not ended after {PATIENCE:.0f} s"
    return None, ""


def _wait_until_serving(child: subprocess.Popen[bytes], port: int) -> str:
    """Wait until the daemon listens; what went wrong."""
    if not wait_for(lambda: child.poll() is not None or listens(port), PATIENCE):
        return f"does not listen after {PATIENCE:.0f} s"
    return "" if child.poll() is None else f"ended with {child.returncode}"
