"""The agent on the batch host: the script exec's `python -E -P -m slurmkit.recovery.agent RUN_DIRECTORY`.

It starts the step, passes signals on, waits, and writes down how it ended. Killed at any moment, it leaves a
log of events that says how far it came. It ends as the rank that failed first, else as srun does.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from slurmkit.errors import SlurmError, SlurmkitError, UsageError
from slurmkit.launch.environment import as_started
from slurmkit.recovery import report
from slurmkit.recovery.attempt import current_attempt
from slurmkit.recovery.fitness import check_nodes
from slurmkit.recovery.placing import choose, place
from slurmkit.recovery.rendezvous import choose_address
from slurmkit.recovery.setting import Setting
from slurmkit.recovery.start import StepEnd, rendezvous_port, run_step
from slurmkit.recovery.watching import WATCHED
from slurmkit.run import events
from slurmkit.run.fitness import Fitness
from slurmkit.run.paths import RunPaths
from slurmkit.spec.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

STARTS_FOR_A_PORT = 5
"""A port that is taken between the trial and rank 0's start is met with the next one, so often."""


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
    from slurmkit.slurm.clock import SystemClock
    from slurmkit.slurm.process import find_program
    from slurmkit.spec import load_resolved

    return Setting(
        paths=paths,
        spec=load_resolved(paths.job_toml),
        attempt=current_attempt(environ),
        environ=environ,
        mask=mask,
        srun=find_program("srun", environ.get("PATH")),
        clock=SystemClock(),
    )


def attempt(setting: Setting) -> int:
    """One start of the run by Slurm, from its first event to its last."""
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
    try:
        end = run_steps(setting)
    except SlurmkitError as error:
        setting.note("attempt-ended", exit_code=error.exit_code, reason=error.what)
        raise
    was_told = signal.SIGTERM in end.received
    setting.note(
        "attempt-ended",
        exit_code=end.exit_code,
        signal=int(signal.SIGTERM) if was_told else None,
        reason=f"hung: no progress for {format_duration(int(end.hung.after))}" if end.hung else None,
    )
    outcome = run_outcome(end, was_cancelled=was_told and is_cancel_requested(setting))
    # Other tasks of an array go on; and why Slurm ended an attempt, and what follows, it alone knows.
    if outcome is not None and this.array_job_id is None:
        setting.note("run-ended", outcome=outcome, exit_code=end.exit_code)
    report.attempt_ended(end.exit_code, was_told=was_told, outcome=outcome)
    return end.exit_code


def run_steps(setting: Setting) -> StepEnd:
    """Start the step, again where its port was taken. What else may follow a failure has its place here.

    Raises:
        JobFailed: too few nodes are fit, or the mesh does not come out on them.
    """
    this, spec = setting.attempt, setting.spec
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        if setting.environ.get(name):
            report.say(f"{name}={setting.environ[name]} is the job's own and stays")
    address = rendezvous_address(setting, this.nodes[0])
    fitness, told_to_end = check(setting, address) if spec.launch.check_nodes else (Fitness(), False)
    if told_to_end:
        return StepEnd(128 + signal.SIGTERM, [signal.SIGTERM])
    topology = fitness.topology or network(setting)
    placement = place(setting, choose(this.nodes, spec.spare_nodes, fitness.unfit), topology)
    if placement.nodes[0] != this.nodes[0]:
        address = rendezvous_address(setting, placement.nodes[0])
    for number in range(STARTS_FOR_A_PORT):
        if number:
            report.say("the step starts again, with another port")
        end = run_step(setting, number, placement, address)
        if not end.is_port_taken or signal.SIGTERM in end.received:
            break
    return end


def check(setting: Setting, address: str) -> tuple[Fitness, bool]:
    """Check the nodes, and write down what was found; whether the job was told to end meanwhile."""
    began = setting.clock.monotonic()
    port, claim = rendezvous_port(setting, 0)
    # Where the ranks meet somewhere else, that is for them to find out.
    is_own = bool(setting.environ.get("MASTER_ADDR"))
    with claim:
        fitness, told_to_end = check_nodes(setting, None if is_own else (address, port))
    setting.note(
        "nodes-checked",
        nodes=list(setting.attempt.nodes),
        unfit=[{"node": node, "reasons": why} for node, why in fitness.unfit.items()],
        warnings=[{"node": node, "reasons": why} for node, why in fitness.warnings.items()],
        seconds=round(setting.clock.monotonic() - began, 3),
        reason=fitness.why_not,
    )
    report.nodes_checked(fitness)
    return fitness, told_to_end


def network(setting: Setting) -> Mapping[str, str]:
    """Where the nodes are in the network, as Slurm tells it, where that matters; the nodes told nothing."""
    if setting.spec.parallel is None:
        return {}
    try:
        return setting.connect().topology()
    except SlurmError as error:
        report.say(f"the order of nodes stays Slurm's: {error.what}")
        return {}


def rendezvous_address(setting: Setting, node: str) -> str:
    """MASTER_ADDR; the user's own goes before any choice."""
    given = setting.environ.get("MASTER_ADDR")
    if given:
        return given
    address, remark = choose_address(node, setting.connect)
    if remark:
        report.say(remark)
    return address


def run_outcome(end: StepEnd, *, was_cancelled: bool) -> str | None:
    """How the run ended: "completed", "failed" or "cancelled"; None where that is for Slurm to say."""
    if was_cancelled:
        return "cancelled"
    if signal.SIGTERM in end.received:
        return None
    return "failed" if end.exit_code else "completed"


def is_cancel_requested(setting: Setting) -> bool:
    """Whether somebody has asked slurmkit to cancel the run."""
    return any(event.kind == "cancel-requested" for event in events.read(setting.paths))


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
