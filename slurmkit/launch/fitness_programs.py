"""Programs that a check of a node runs: bounded in time, and ended with all that they started."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.launch.fitness_found import Found, in_seconds, one_line

if TYPE_CHECKING:
    from collections.abc import Mapping


class Ran(NamedTuple):
    """How a program ended. `code` is None where it did not answer in time."""

    code: int | None
    text: str


def check_program(command: str, environ: Mapping[str, str], within: float) -> Found:
    """A site's own check: any exit code but 0 makes the node unfit, for the reason of its last line."""
    try:
        # A path may hold blanks; what is no file is a command with arguments.
        argv = [command] if os.path.exists(command) else shlex.split(command)
        ran = run(argv, environ, within)
    except (OSError, ValueError) as error:
        return Found(["%s cannot be run: %s" % (command, getattr(error, "strerror", None) or error)])
    if ran.code is None:
        return Found(["%s did not answer within %s" % (command, in_seconds(within))])
    if ran.code == 0:
        return Found()
    how = "exit code %d" % ran.code if ran.code > 0 else "signal %d" % -ran.code
    last = last_line(ran.text)
    return Found(["%s: %s" % (command, "%s (%s)" % (last, how) if last else how)])


def run(argv: list[str], environ: Mapping[str, str], within: float) -> Ran:
    """Run a program to its end or to its time limit; what it printed, stderr with stdout.

    Raises:
        OSError: it cannot be started.
    """
    import subprocess

    program = argv[0] if os.sep in argv[0] else shutil.which(argv[0], path=environ.get("PATH"))
    process = subprocess.Popen(
        argv,
        executable=program or argv[0],
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        out, _ = process.communicate(timeout=within)
        return Ran(process.returncode, out.decode("utf-8", "replace"))
    except subprocess.TimeoutExpired:
        # What hangs in the kernel does not end even so.
        with suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate(timeout=0.1)
        return Ran(None, "")


def last_line(text: str) -> str:
    """The last line that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return one_line(lines[-1]) if lines else ""
