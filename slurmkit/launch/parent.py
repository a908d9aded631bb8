"""The parent of one rank: `python3 -I -S launch.pyz -- PROGRAM ARGUMENT...`.

It tells the program who it is, passes signals on, copies its stderr to the rank's log and keeps the last of
it, leaves an exit record and ends as the program ended. Its own exit codes: 127 and 126 as a shell has them,
125 where it cannot do its work, 98 where the rendezvous port is taken.
"""

from __future__ import annotations

import os
import select
import time

from slurmkit.launch import record
from slurmkit.launch.environment import as_started, rank_environment
from slurmkit.launch.frameworks import is_torchrun
from slurmkit.launch.memory import oom_kills

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing itself costs a rank milliseconds
    import signal
    from collections.abc import Callable, Iterable
    from types import FrameType
    from typing import Any, NoReturn
else:
    import _signal as signal  # `signal` itself costs a rank 6 ms, for enum

CANNOT_LAUNCH = 125
PORT_TAKEN = 98
STDERR = 2
LOOK_AT_PARENT = 1000
"""Milliseconds between two looks at whether slurmstepd is there."""
OWN_COPY = 0.5
"""Seconds in which a signal that Slurm sent to the whole step reaches the parent after the program."""
TOLD_TO_END = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})
"""By which Slurm or a user asks a program to end."""
FULL_PIPE = 1 << 20
"""No pipe holds more: what is left in it after the program's end is read up to here."""

KEPT_FROM_THE_PROGRAM = frozenset(
    {
        signal.SIGKILL,
        signal.SIGSTOP,
        signal.SIGCHLD,
        signal.SIGPIPE,
        signal.SIGTTIN,
        signal.SIGTTOU,
        # A fault of the parent's own.
        signal.SIGSEGV,
        signal.SIGBUS,
        signal.SIGFPE,
        signal.SIGILL,
        signal.SIGXFSZ,
    }
)


class CannotStart(Exception):
    """Nothing was started. `fields` go into the exit record."""

    def __init__(self, why: str, exit_code: int, **fields: bool) -> None:
        super().__init__(why)
        self.fields: dict[str, Any] = {**fields, "exit_code": exit_code}


def main(argv: list[str]) -> NoReturn:
    """Run the program after `--` as this task's rank, and end as it does."""
    started = time.time()
    environ = as_started(os.environ)
    stderr = record.Tail()
    try:
        fields = run(*prepare(argv, environ, stderr), stderr)
    except CannotStart as error:
        fields = error.fields
        _say(str(error), stderr)
    ended = time.time()
    _tell(environ, ended, fields)
    fields = {**fields, "started": started, "ended": ended}
    try:
        record.write(environ, fields, stderr)
    except OSError as error:
        _say(f"no exit record: {error}", stderr)
    _end(fields)


def prepare(
    argv: list[str], environ: dict[str, str], stderr: record.Tail
) -> tuple[list[str], dict[str, str]]:
    """The program's command line, and its environment with all that this rank is to know.

    Raises:
        CannotStart: there is no program, this is no rank, or rank 0 finds its port taken.
    """
    command = argv[argv.index("--") + 1 :] if "--" in argv else []
    if not any(command[:1]):
        raise CannotStart("usage: launch.pyz -- PROGRAM [ARGUMENT...]", CANNOT_LAUNCH)
    try:
        variables, said = rank_environment(environ, command)
    except ValueError as error:
        raise CannotStart(str(error), CANNOT_LAUNCH) from error
    for line in said:
        _say(line, stderr)
    rank = variables.get("RANK", "")
    if rank == "0":
        _check_port(variables.get("MASTER_PORT"))
    if environ.get("SLURMKIT_PARALLEL") and rank and not is_torchrun(environ, command):
        from slurmkit.launch import mesh

        try:
            variables["SLURMKIT_MESH"] = mesh.variables(environ["SLURMKIT_PARALLEL"], int(rank))
        except ValueError as error:
            raise CannotStart(f"no place in the mesh: {error}", CANNOT_LAUNCH) from error
    program = {**environ, **variables}
    # The agent's own file of hosts has placed this step; no srun of the program is to follow it.
    if environ.get("SLURM_HOSTFILE", "").startswith(environ.get("SLURMKIT_RUN_DIRECTORY") or "\0"):
        del program["SLURM_HOSTFILE"]
    return command, program


def run(command: list[str], environ: dict[str, str], stderr: record.Tail) -> dict[str, Any]:
    """Start the program and attend to it until it has ended; `stderr` gathers the last that it wrote there.

    Raises:
        CannotStart: it was not started.
    """
    passes_on = environ.get("SLURMKIT_SIGNALS") != "all"
    source, end = os.pipe()
    # Blocked until there is somebody to pass them on to: none is lost, none ends the parent.
    passed = signal.valid_signals() - KEPT_FROM_THE_PROGRAM
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, passed | {signal.SIGCHLD})
    missed = set() if passes_on else passed & signal.sigpending()
    child = _start(command, environ, end, mask, own_group=passes_on)
    os.close(end)
    _tell(environ, time.time())
    killed_before = oom_kills()
    for number in missed:  # sent to all when the program was not yet one of them
        _pass_on(child, number)
    received: list[int] = []
    at_work: list[int] = []

    def receive(number: int, _frame: FrameType | None) -> None:
        if number not in received:
            received.append(number)
        if number == signal.SIGTERM and environ.get("SLURMKIT_CHECKPOINT_SIGNAL"):
            if at_work:  # in the midst of the first one, and of its import
                return
            at_work.append(number)
            from slurmkit.launch.told import at_sigterm

            at_sigterm(child, environ, is_alone=passes_on)
            at_work.clear()
        elif passes_on:
            _pass_on(child, number)

    wakeup = _handle(passed, receive, mask)
    status = _attend(child, source, wakeup, stderr)
    fields: dict[str, Any] = {"pid": child}
    if os.WIFSIGNALED(status):
        fields["signal"] = os.WTERMSIG(status)
        _take_own_copy(fields["signal"], received)
    else:
        fields["exit_code"] = os.WEXITSTATUS(status)
    if received:
        fields["received"] = received
    if status and oom_kills() > killed_before:
        fields["oom_killed"] = True
    return fields


def _tell(environ: dict[str, str], at: float, fields: dict[str, Any] | None = None) -> None:
    """Let the agent know of the program's start, or with `fields` of its end."""
    if "SLURMKIT_PROGRESS" in environ:
        from slurmkit.launch.notice import send

        send("rank-started" if fields is None else "rank-ended", environ, at, fields or {})


def _check_port(text: str | None) -> None:
    """On rank 0's host, where the program is about to listen: only here can the port be tried."""
    if not text or not text.isdigit():
        return
    from slurmkit.launch.port import is_free

    if not is_free(int(text)):
        raise CannotStart(
            f"port {text} of this host is taken by another program", PORT_TAKEN, port_taken=True
        )


def _start(
    command: list[str], environ: dict[str, str], stderr: int, mask: Iterable[int], *, own_group: bool
) -> int:
    """Start the program with `stderr` as its own; its other files, its limits and its CPUs are the task's."""
    # A group of its own: `kill 0` in the program does not reach the parent, which is to tell of its end.
    group: dict[str, Any] = {"setpgroup": 0} if own_group else {}
    try:
        return os.posix_spawnp(
            command[0],
            command,
            environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, stderr, STDERR)],
            setsigmask=mask,
            # Python ignores these two; the program is to find them as it would without a parent.
            setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),
            **group,
        )
    except OSError as error:
        raise CannotStart(*_why_not(command[0], error)) from error


def _why_not(program: str, error: OSError) -> tuple[str, int]:
    """Why the program does not start, and the exit code that a shell would end with."""
    if isinstance(error, FileNotFoundError):
        if "/" not in program:
            return f"{program!r} is not on the PATH of the job (modules, venv, conda?)", 127
        if os.path.lexists(program):
            return f"{program!r} cannot start: the interpreter of its first line is not on this node", 127
        return f"{program!r} does not exist on this node", 127
    if isinstance(error, PermissionError):
        return f"{program!r} is not executable (chmod +x, or name its interpreter in the command)", 126
    return f"{program!r} cannot start: {error.strerror}", 126


def _handle(
    passed: Iterable[int], receive: Callable[[int, FrameType | None], None], mask: Iterable[int]
) -> int:
    """Let signals come, now that the program runs; returns what becomes readable at each of them."""
    wakeup, alarm = os.pipe()
    os.set_blocking(wakeup, False)
    os.set_blocking(alarm, False)
    signal.set_wakeup_fd(alarm, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in passed:
        if signal.getsignal(number) != signal.SIG_IGN:  # ignored from the start: the program ignores it too
            signal.signal(number, receive)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return wakeup


def _attend(child: int, source: int, wakeup: int, kept: record.Tail) -> int:
    """Copy stderr until the program has ended; its wait status.

    Without its slurmstepd it is out of Slurm's reach: no limit, no cancel and no time limit ends it any more,
    and it holds what the next start needs. It is killed then.
    """
    slurmstepd = os.getppid()
    ready = select.poll()
    ready.register(source, select.POLLIN)
    ready.register(wakeup, select.POLLIN)
    while True:
        if slurmstepd and os.getppid() != slurmstepd:
            slurmstepd = 0
            _say("the slurmstepd of this task is gone: the program is killed", kept)
            _pass_on(child, signal.SIGKILL)
        for descriptor, _ in ready.poll(LOOK_AT_PARENT):
            if descriptor == source:
                data = os.read(source, 65536)
                if not data:
                    ready.unregister(source)
                _copy(data, kept)
                continue
            os.read(wakeup, 4096)
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                _drain(source, kept)
                return status


def _take_own_copy(number: int, received: list[int]) -> None:
    """Wait for the signal that ended the program, where Slurm sent it to both and the program was first.

    Without it the rank would look as if it had failed by itself.
    """
    if number not in TOLD_TO_END:
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, {number})  # what came before is in `received` now
    if number not in received and signal.sigtimedwait({number}, OWN_COPY):
        received.append(number)


def _drain(source: int, kept: record.Tail) -> None:
    """Copy what the program left in the pipe, without waiting for others that still hold it open."""
    os.set_blocking(source, False)
    left = FULL_PIPE
    while left > 0:
        try:
            data = os.read(source, 65536)
        except BlockingIOError:
            return
        if not data:
            return
        _copy(data, kept)
        left -= len(data)


def _copy(data: bytes, kept: record.Tail) -> None:
    kept.add(data)
    while data:
        try:
            data = data[os.write(STDERR, data) :]
        except BlockingIOError:
            select.select([], [STDERR], [])
        except OSError:  # the log is full or gone: the program goes on, and the record still tells
            return


def _say(text: str, kept: record.Tail) -> None:
    _copy(f"slurmkit: {text}\n".encode("utf-8", "surrogateescape"), kept)


def _pass_on(child: int, number: int) -> None:
    try:
        os.kill(child, number)
    except ProcessLookupError:  # it ended in this moment
        return


def _end(fields: dict[str, Any]) -> NoReturn:
    """End as the program did, so that srun and sacct report its exit code or its signal."""
    if "exit_code" in fields:
        os._exit(fields["exit_code"])
    number = fields["signal"]
    import resource

    resource.setrlimit(
        resource.RLIMIT_CORE, (0, 0)
    )  # a core of the program tells something, this one would not
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    os._exit(128 + number)
