"""The agent on the batch host: the script exec's `python -E -P -m slurmkit.recovery.agent RUN_DIRECTORY`.

It starts the step, watches it, finds out why it ended, decides what follows, and sees to that. Killed at any
moment, it leaves a log of events that says how far it came: the next attempt, or the supervisor, goes on from
there. It ends as the rank that failed first, else as srun does.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from slurmkit.errors import SlurmkitError, UsageError
from slurmkit.launch.environment import as_started
from slurmkit.recovery import report
from slurmkit.recovery.attempt import current_attempt
from slurmkit.recovery.judging import past_allows, what_follows
from slurmkit.recovery.requeue import move_on
from slurmkit.recovery.setting import Setting
from slurmkit.recovery.start import StepEnd
from slurmkit.recovery.starting import Course, start_once
from slurmkit.recovery.watching import WATCHED
from slurmkit.run import events
from slurmkit.run.history import fold
from slurmkit.run.paths import RunPaths
from slurmkit.spec.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from slurmkit.recovery.policy import Decision

TOLD_TO_END = StepEnd(128 + signal.SIGTERM, [signal.SIGTERM])
"""Where Slurm ended the attempt while no step ran."""
ENDING = frozenset(
    {
        signal.SIGHUP,
        signal.SIGINT,
        signal.SIGQUIT,
        signal.SIGILL,
        signal.SIGTRAP,
        signal.SIGABRT,
        signal.SIGBUS,
        signal.SIGFPE,
        signal.SIGKILL,
        signal.SIGUSR1,
        signal.SIGSEGV,
        signal.SIGUSR2,
        signal.SIGPIPE,
        signal.SIGALRM,
        signal.SIGTERM,
        signal.SIGXCPU,
        signal.SIGXFSZ,
        signal.SIGSYS,
    }
)
"""Signals that end a process that does nothing about them."""


def main(argv: Sequence[str]) -> int:
    """Carry one attempt of the run through; returns the exit code of the batch script."""
    # Blocked from here to the end and taken one by one where the step is waited for: none is lost.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        if len(argv) != 1:
            raise UsageError("usage: python -m slurmkit.recovery.agent RUN_DIRECTORY")
        setting = prepare(RunPaths(Path(argv[0])), as_started(os.environ), mask)
        return attempt(setting)
    except SlurmkitError as error:
        report.say(str(error))
        return error.exit_code


def prepare(paths: RunPaths, environ: Mapping[str, str], mask: Iterable[int]) -> Setting:
    """Everything that the attempt needs to know.

    Raises:
        UsageError: this is no batch script, or the run directory's job file cannot be read.
        MissingRequirement: there is no srun.
    """
    from slurmkit.slurm import process
    from slurmkit.slurm.clock import SystemClock
    from slurmkit.slurm.commands import Commands
    from slurmkit.spec import load_resolved

    clock = SystemClock()
    return Setting(
        paths=paths,
        spec=load_resolved(paths.job_toml),
        attempt=current_attempt(environ, {one.name for one in fold(events.read(paths)).attempts}),
        environ=environ,
        mask=mask,
        srun=process.find_program("srun", environ.get("PATH")),
        clock=clock,
        # It asks again itself, where that is of use.
        connect=partial(Commands, environment=environ, timeout=20.0, retry=process.NEVER, clock=clock),
        began=clock.now().timestamp(),
    )


def attempt(setting: Setting) -> int:
    """One start of the run by Slurm: the step is started until its work is done, or something else follows.

    Nothing is done without an event that says why.
    """
    begin(setting)
    course = Course()
    end, decision = StepEnd(status=1), past_allows(setting)
    while decision is None or decision.action == "restart":
        end = start_once(setting, course)
        decision = what_follows(setting, course, end)
        if decision.action == "restart" and is_told_to_end(within=decision.delay):
            end = TOLD_TO_END
            decision = what_follows(setting, course, end)
    return finish(setting, course, end, decision)


def begin(setting: Setting) -> None:
    """The first event of the attempt."""
    this = setting.attempt
    setting.note(
        "attempt-started",
        job_id=this.job_id,
        array_job_id=this.array_job_id,
        restart=this.restart,
        nodes=this.nodes,
        host=this.host,
    )
    report.attempt_started(this, setting.spec)


def is_told_to_end(*, within: float) -> bool:
    """Wait so many seconds; whether SIGTERM came. All signals are blocked where no step runs."""
    return signal.sigtimedwait([signal.SIGTERM], within) is not None


def finish(setting: Setting, course: Course, end: StepEnd, decision: Decision) -> int:
    """The last events of the attempt, and what has to be done for the next one; the agent's exit code."""
    was_told = signal.SIGTERM in end.received
    reason = f"hung: no progress for {format_duration(int(end.hung.after))}" if end.hung else None
    setting.note(
        "attempt-ended",
        exit_code=end.exit_code,
        signal=int(signal.SIGTERM) if was_told else None,
        reason=end.error.what if end.error else reason,
        next=decision.action,
    )
    if end.error:
        report.say(str(end.error))
    outcome = course.outcome(decision)
    # Other tasks of an array go on.
    if outcome is not None and setting.attempt.array_job_id is None:
        why = decision.reason if decision.action == "stop" else None
        setting.note("run-ended", outcome=outcome, exit_code=end.exit_code, reason=why)
    if decision.action in {"requeue", "resubmit"}:
        move_on(setting, decision)
    report.attempt_ended(end.exit_code, was_told=was_told, outcome=outcome, follows=decision.action)
    return end.exit_code


def leave(exit_code: int) -> NoReturn:
    """End with an exit code; one that stands for a signal ends by that signal.

    Slurm shows an exit code of 139 as `11:0`, and the signal as what it is, `0:11`.
    """
    if exit_code - 128 in ENDING:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if exit_code - 128 != signal.SIGKILL:
            signal.signal(exit_code - 128, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {exit_code - 128})
        os.kill(os.getpid(), exit_code - 128)
    sys.exit(exit_code)


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
