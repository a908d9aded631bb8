"""One start of the step: what its ranks are told, what they tell while it runs, and how it ended."""

from __future__ import annotations

import os
import secrets
import signal
from contextlib import closing, nullcontext
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.errors import SlurmkitError, UsageError
from slurmkit.launch.port import ephemeral_range
from slurmkit.launch.rendezvous import host_and_port
from slurmkit.recovery import report, resuming, step
from slurmkit.recovery.exits import RankExit, first_failure, others, read_exits, with_log
from slurmkit.recovery.limit import end_of_job
from slurmkit.recovery.lookout import Lookout
from slurmkit.recovery.monitor import Hung, Monitor, Straggler, StragglerGone
from slurmkit.recovery.policy import retry_of
from slurmkit.recovery.rendezvous import claim_port, own_address
from slurmkit.recovery.saving import Saving
from slurmkit.recovery.summary import measured
from slurmkit.recovery.watching import watch
from slurmkit.slurm import process
from slurmkit.slurm.environment import strip
from slurmkit.spec.units import parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from slurmkit.checkpoint.choice import Checkpoint
    from slurmkit.recovery.monitor import Finding
    from slurmkit.recovery.placing import Placement
    from slurmkit.recovery.setting import Setting
    from slurmkit.recovery.watching import Watched

    LogOf = Callable[[int], Path]

STACKS_WITHIN = 20.0
"""Seconds that the ranks' stacks may take."""


class StepEnd(NamedTuple):
    """How a step ended: srun's status, what the agent was told meanwhile, what the ranks left."""

    status: int
    received: Sequence[int] = ()
    said: tuple[str, ...] = ()
    """The last lines of srun's stderr."""
    exits: Sequence[RankExit] = ()
    first_failure: RankExit | None = None
    """The rank that failed first."""
    hung: Hung | None = None
    told: int | None = None
    """A signal that Slurm sent the ranks, and not the agent."""
    at_limit: bool = False
    """Whether the agent ended it as its time was nearly over, or it left with a checkpoint when asked."""
    near_limit: bool = False
    """Whether the ranks were asked for a checkpoint as its time was nearly over."""
    at_step: int | None = None
    """The lowest step of the ranks heard."""
    measured: Mapping[str, float | None] = MappingProxyType({})
    """Since when the ranks computed, and how long they saved."""
    newest: Checkpoint | None = None
    """The newest complete checkpoint that was seen."""
    has_begun: bool = False
    """Whether a rank was started."""
    nodes: tuple[str, ...] = ()
    """Those that it was laid over."""
    silent: tuple[str, ...] = ()
    """Nodes of ranks that were started and left no record."""
    is_stuck: bool = False
    """Whether no other step can start in this allocation."""
    error: SlurmkitError | None = None
    """Why it was not started at all."""
    unfit: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    """The nodes that are to blame for that."""

    @property
    def is_port_taken(self) -> bool:
        """Whether rank 0 found its port taken, so that no program could meet there."""
        return any(one.port_taken for one in self.exits)

    @property
    def exit_code(self) -> int:
        """What the agent ends with: srun itself reports the highest code, often that of an echo."""
        if self.error:
            return self.error.exit_code
        if self.hung:
            return 1  # whatever srun makes of a step that the agent has killed
        return self.first_failure.status if self.first_failure else self.status


def run_step(
    setting: Setting, number: int, placement: Placement, address: str, chosen: Checkpoint | None
) -> StepEnd:
    """Start the step once, from a checkpoint where there is one, and wait for its end."""
    paths, this, spec = setting.paths, setting.attempt, setting.spec
    logs, stacks = paths.logs(this.name), paths.stacks(this.name, number)
    make_folders(logs, paths.exit(this.name, number))
    before = log_sizes(logs) if number else {}
    port, claim = rendezvous_port(setting, number)
    token = secrets.token_hex(16)
    monitor = open_monitor(setting, number, token)
    with claim, closing(monitor):
        placed = step.step_environment(
            setting.environ, paths, this, number, address=address, port=port, placement=placement
        )
        environ = {
            **placed,
            **step.saving_environment(setting, number, chosen),
            **_telling(setting, monitor, token, stacks),
        }
        argv = step.srun_command(resuming.resuming(spec, chosen), paths, this.name, placement)
        setting.note(
            "step-started",
            step=number,
            argv=argv,
            master_addr=address,
            master_port=port,
            from_step=chosen.step if chosen else None,
        )
        report.step_started(number, host_and_port(address, port), logs)
        srun, stderr = step.start(argv, setting.srun, environ, setting.mask)
        saving = look_after(setting, number, placement, environ, chosen)
        hung: list[Hung] = []

        def must_end(finding: Finding) -> bool:
            tell(setting, finding, monitor.tally.lowest_step())
            if isinstance(finding, Hung):
                hung.append(finding)
                dump_stacks(setting, finding, environ, stacks)
            return bool(hung)

        with closing(os.fdopen(stderr, "rb", buffering=0)):
            seen = watch(
                srun,
                stderr,
                monitor,
                clock=setting.clock,
                grace=parse_duration(spec.launch.grace) if spec.launch.kill_on_bad_exit else None,
                must_end=must_end,
                attendant=saving,
            )
    saving.close()
    exits = read_exits(paths.exit(this.name, number))
    end = _end(seen, exits, monitor, hung=hung[0] if hung else None)
    end = _completed(end, saving, partial(paths.rank_log, this.name), before)._replace(nodes=placement.nodes)
    _tell_end(setting, number, end, port, partial(paths.rank_log, this.name))
    return end


def _completed(end: StepEnd, saving: Saving, log_of: LogOf, before: Mapping[str, int]) -> StepEnd:
    """With the words of the rank that failed first, and what became of the checkpoints."""
    first = end.first_failure
    if first is not None:
        log = log_of(first.rank)
        first = with_log(first, log, before.get(log.name, 0))
    return end._replace(
        first_failure=first,
        told=signal.SIGTERM if saving.is_preempted else None,
        at_limit=saving.is_at_limit,
        near_limit=saving.is_near_limit,
        newest=saving.newest,
    )


def open_monitor(setting: Setting, number: int, token: str) -> Monitor:
    """What listens to the ranks of a step start, which know the token."""
    paths, this = setting.paths, setting.attempt
    return Monitor(
        token=token,
        progress=setting.spec.progress,
        logs=paths.logs(this.name),
        written_to=paths.progress(this.name),
        attempt=this.name,
        step=number,
        world_size=step.world_size(setting.spec, this, setting.environ),
        now=setting.clock.now().timestamp(),
    )


def _telling(setting: Setting, monitor: Monitor, token: str, stacks: Path) -> dict[str, str]:
    return step.telling_environment(
        setting.environ,
        own_address(setting.attempt.nodes[1:]),
        monitor.port,
        launcher=setting.spec.launch.launcher,
        token=token,
        stacks=stacks,
    )


def log_sizes(folder: Path) -> dict[str, int]:
    """How much of each rank's log is of earlier starts of the step."""
    try:
        return {one.name: one.stat().st_size for one in os.scandir(folder) if one.name.endswith(".out")}
    except OSError:
        return {}


def look_after(
    setting: Setting,
    number: int,
    placement: Placement,
    environ: Mapping[str, str],
    chosen: Checkpoint | None,
) -> Saving:
    """What looks after the checkpoints of a step, and after the end of its time."""
    wanted = setting.spec.checkpoint
    size = step.world_size(setting.spec, setting.attempt, setting.environ)
    lookout = Lookout(partial(resuming.look, setting, size), setting.clock) if wanted else None
    return Saving(
        setting=setting,
        number=number,
        nodes=() if placement.is_all else placement.nodes,
        environ=environ,
        lookout=lookout,
        newest=chosen,
        ends_by=end_of_job(setting) if wanted else None,
        ends_when_saved=retry_of(setting.spec).requeues > 0,
    )


def rendezvous_port(setting: Setting, number: int) -> tuple[str, AbstractContextManager[object]]:
    """MASTER_PORT, and what holds it for this run until it is closed."""
    given = setting.environ.get("MASTER_PORT")
    if given:
        return given, nullcontext()
    port, claim = claim_port(setting.attempt.number, number, setting.attempt.restart, ephemeral_range())
    return str(port), claim


def tell(setting: Setting, finding: Finding, at_step: int | None) -> None:
    """Write a finding down, in the events and in the batch log."""
    match finding:
        case Straggler():
            setting.note(
                "straggler",
                rank=finding.rank,
                host=finding.host,
                phase=finding.phase,
                own=finding.own,
                median=finding.median,
                step=at_step,
            )
        case StragglerGone():
            setting.note("straggler-gone", rank=finding.rank, host=finding.host)
    report.found(finding)


def dump_stacks(setting: Setting, hung: Hung, environ: dict[str, str], folder: Path) -> None:
    """Have every rank's stack written before the step is ended."""
    setting.note("hung", since=hung.since, step=hung.step, after=hung.after, stacks=str(folder))
    try:
        make_folders(folder)
        # Nothing by which srun would shape this step as the job's own.
        ours = [name for name in environ if name.startswith("SLURMKIT_")]
        plain, _ = strip(environ, keep=("SLURM_JOB_ID", *ours))
        argv = step.on_every_node(setting, "stacks")
        answer = process.run(argv, environment=plain, clock=setting.clock, timeout=STACKS_WITHIN)
        process.check("srun", answer)
    except SlurmkitError as error:
        report.say(f"no stacks: {error.what}")


def make_folders(*folders: Path) -> None:
    """Make the folders that the ranks write to.

    Raises:
        UsageError: one of them cannot be made.
    """
    for folder in folders:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"cannot make a folder: {error.strerror}", where=str(folder)) from error


def _end(seen: Watched, exits: Sequence[RankExit], monitor: Monitor, *, hung: Hung | None) -> StepEnd:
    status = os.waitstatus_to_exitcode(seen.status)
    status = status if status >= 0 else 128 - status
    if seen.killed and len(exits) == monitor.world_size and not any(one.has_failed for one in exits):
        status = 0  # the ranks had done their work; it was srun that did not end
    first = None
    recorded = {one.rank for one in exits}
    # A rank that was aborted for its stack is no cause of a hang.
    if status and not hung:
        arrived = {notice.rank: notice.arrived for notice in seen.notices if notice.kind == "rank-ended"}
        offsets = {one.host: monitor.offset(one.host) for one in exits}
        first = first_failure(exits, arrived, offsets)
    return StepEnd(
        status=status,
        at_step=monitor.tally.lowest_step(),
        measured=measured(monitor.tally),
        received=seen.received,
        said=tuple(seen.said),
        exits=exits,
        has_begun=seen.has_begun,
        is_stuck=seen.is_stuck,
        silent=tuple(sorted({host for rank, host in monitor.tally.hosts.items() if rank not in recorded})),
        first_failure=first,
        hung=hung,
    )


def _tell_end(setting: Setting, number: int, end: StepEnd, port: str, log_of: LogOf) -> None:
    setting.note(
        "step-ended",
        step=number,
        exit_code=end.status,
        port_taken=end.is_port_taken or None,
        received=[signal.Signals(one).name for one in end.received] or None,
        at_step=end.at_step,
        **end.measured,
        hung=bool(end.hung) or None,
        first_failure=report.as_fields(end.first_failure, end.said),
        ranks_failed=sum(others(end.exits, end.first_failure)) if end.first_failure else None,
    )
    if end.is_port_taken:
        report.say(f"port {port} was taken by another program when rank 0 started")
        return
    report.step_ended(
        end.status, end.first_failure, end.exits, log_of, end.said, is_hung=end.hung is not None
    )
