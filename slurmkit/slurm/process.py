"""The one place that runs Slurm's commands: a list of arguments, no shell, a time limit, bounded retries."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.errors import MissingRequirement
from slurmkit.slurm.refusals import STOPPED, is_passing_fault, to_error

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from slurmkit.slurm.clock import Clock


class Answer(NamedTuple):
    """What a command left behind. `code` is None where it had to be stopped at its time limit."""

    code: int | None
    stdout: str
    stderr: str

    @property
    def is_ok(self) -> bool:
        """Whether the command itself says that all went well."""
        return self.code == 0


class Retry(NamedTuple):
    """How often a passing fault is met with another try, and how long to wait in between, in seconds."""

    tries: int = 3
    first_pause: float = 1.0
    longest_pause: float = 15.0
    within: float = 15.0
    """No try begins later than about so long after the first: Slurm's commands are patient themselves."""


NEVER = Retry(tries=1)
"""For requests that must not be carried out twice."""


def run(
    argv: Sequence[str],
    *,
    environment: Mapping[str, str],
    clock: Clock,
    timeout: float = 60.0,
    retry: Retry = NEVER,
    directory: Path | None = None,
    search_path: str | None = None,
) -> Answer:
    """Run a command to its end, again while its fault is a passing one and tries are left.

    The program is looked for on `search_path`, or else on the PATH of `environment`.

    Raises:
        MissingRequirement: the program is not there, or cannot be started.
    """
    program = argv[0] if os.sep in argv[0] else find_program(argv[0], search_path or environment.get("PATH"))
    began = clock.monotonic()
    tried = 0
    while True:
        tried += 1
        answer = _once(program, argv, environment, timeout, directory)
        is_late = clock.monotonic() - began > retry.within
        if answer.is_ok or tried >= retry.tries or is_late or not is_passing_fault(answer.stderr):
            return answer
        clock.sleep(_pause(retry, tried))


def check(program: str, answer: Answer, *, repeatable: bool = True) -> Answer:
    """The answer, if the command says that all went well.

    Raises:
        SlurmkitError: of the kind that the output speaks of; `repeatable` as in `refusals.to_error`.
    """
    if answer.is_ok:
        return answer
    raise to_error(program, answer.stderr or answer.stdout, repeatable=repeatable)


def find_program(name: str, search_path: str | None) -> str:
    """The path of a program on a PATH; None stands for the system's own.

    Raises:
        MissingRequirement: there is none.
    """
    for folder in (search_path or os.defpath).split(os.pathsep):
        path = os.path.join(folder, name)  # noqa: PTH118  (a path of the PATH may be anything, also empty)
        if os.access(path, os.X_OK) and not os.path.isdir(path):  # noqa: PTH112
            return path
    raise MissingRequirement(
        f"Slurm's command {name} is not on the PATH",
        hint="run this where Slurm's commands work, such as a login node (Debian: slurm-client)",
    )


def _once(
    program: str, argv: Sequence[str], environment: Mapping[str, str], timeout: float, directory: Path | None
) -> Answer:
    import subprocess

    try:
        # A process group of its own: Ctrl-C at the terminal stops slurmkit, not a submit in flight.
        process = subprocess.Popen(
            list(argv),
            executable=program,
            env=dict(environment),
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=0,
        )
    except OSError as error:
        place = error.filename or program
        raise MissingRequirement(
            f"{argv[0]} cannot be started: {error.strerror}", where=str(place)
        ) from error
    code: int | None
    with process:
        try:
            out, err = process.communicate(timeout=timeout)
            code = process.returncode
        except subprocess.TimeoutExpired:
            _kill(process.pid)
            out, err = process.communicate()
            code, err = None, err + f"\n{argv[0]}: {STOPPED} {timeout:g} s\n".encode()
        except BaseException:
            _kill(process.pid)
            process.wait()
            raise
    return Answer(code, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))


def _kill(group: int) -> None:
    import signal

    # The group may have ended by itself in this very moment.
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def _pause(retry: Retry, tried: int) -> float:
    import random

    longest = min(retry.longest_pause, retry.first_pause * 2 ** (tried - 1))
    return random.uniform(longest / 2, longest)  # noqa: S311  (spreads the callers; keeps no secret)
