"""What is known when a step or an earlier attempt has ended: what the ranks left, and what Slurm says."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from slurmkit.recovery.attempt import restart_of
from slurmkit.recovery.diagnosis import Evidence, from_accounting
from slurmkit.recovery.exits import others
from slurmkit.recovery.limit import is_requeued, live_job, nodes_down, recorded_job, slurmd_timeout
from slurmkit.run import events
from slurmkit.run.history import fold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slurmkit.recovery.setting import Setting
    from slurmkit.recovery.start import StepEnd
    from slurmkit.run.history import Attempt

WORD_WITHIN = 8.0
"""Seconds within which accounting has Slurm's word on an end: it hears of it a little later."""
LOOK = 0.5
REQUEUED = "REQUEUED"


def of_step(setting: Setting, end: StepEnd, checkpoint_step: int | None) -> Evidence:
    """All that is known of a step's end. Slurm is asked only where the ranks do not say why."""
    progress = setting.spec.progress
    first = end.first_failure
    known = Evidence(
        exit_code=end.exit_code,
        first_failure=first,
        others=sum(others(end.exits, first)) if first else 0,
        srun_lines=tuple(end.said),
        received=tuple(end.received),
        told=end.told,
        hung=end.hung,
        unfit=end.unfit,
        cancel_requested=is_cancel_requested(setting),
        at_limit=end.at_limit,
        at_step=end.at_step,
        total=progress.total if progress else None,
        checkpoint_step=checkpoint_step,
        setup_failed=end.error.what if end.error and not end.unfit else None,
    )
    if signal.SIGTERM in end.received:
        told = _told_to_end(setting, known)
        return told._replace(at_limit=end.near_limit) if told.job_state == REQUEUED else told
    if (end.at_limit or end.told) and is_requeued(setting):
        return known._replace(job_state=REQUEUED)  # and Slurm is about to end the agent, too
    if end.is_stuck and end.silent and setting.spec.spare_nodes:
        return known._replace(nodes_down=_verdict_on(setting, end.silent))
    is_clear = end.exit_code == 0 or end.error or (first is not None and first.signal != signal.SIGKILL)
    return (
        known
        if is_clear
        else known._replace(nodes_down=nodes_down(setting), outlived=_outlived(setting, end))
    )


def _outlived(setting: Setting, end: StepEnd) -> frozenset[str]:
    """The nodes that did not die under the step: all their ranks left records, or they had none."""
    lost = {*end.silent, *end.nodes} - {one.host for one in end.exits if one.host not in end.silent}
    return frozenset(setting.attempt.nodes) - lost if end.nodes else frozenset()


def _verdict_on(setting: Setting, silent: Sequence[str]) -> tuple[str, ...]:
    """The nodes that died, once Slurm says so of one of these: before, it starts no step beside theirs."""
    give_up = setting.clock.monotonic() + slurmd_timeout(setting) + WORD_WITHIN
    while not (down := nodes_down(setting)) or set(down).isdisjoint(silent):
        if setting.clock.monotonic() >= give_up or signal.SIGTERM in signal.sigpending():
            return down
        setting.clock.sleep(LOOK)
    return down


def _told_to_end(setting: Setting, known: Evidence) -> Evidence:
    """Why Slurm ended the job: whether it is in the queue again tells squeue, and the rest accounting."""
    give_up = setting.clock.monotonic() + WORD_WITHIN
    while True:
        live = live_job(setting)
        if live is not None and live.restarts is not None and live.restarts > setting.attempt.restart:
            return known._replace(job_state=REQUEUED)
        record = recorded_job(setting)
        if record is not None and record.state.is_final:
            said = from_accounting(record)
            return known._replace(
                job_state=said.job_state, job_reason=said.job_reason, cancelled_by=said.cancelled_by
            )
        if (live is None and record is None) or setting.clock.monotonic() >= give_up:
            return known
        setting.clock.sleep(LOOK)


def of_attempt(setting: Setting, attempt: Attempt, checkpoint_step: int | None) -> Evidence:
    """What is known of an earlier attempt whose agent left no last word."""
    total = setting.spec.progress.total if setting.spec.progress else None
    asked = is_cancel_requested(setting)
    restart = restart_of(attempt.name)
    record = recorded_job(setting, restart) if attempt.job_id == setting.attempt.job_id else None
    if record is not None:
        known = from_accounting(record, checkpoint_step=checkpoint_step, total=total, cancel_requested=asked)
    else:
        known = Evidence(checkpoint_step=checkpoint_step, total=total, cancel_requested=asked)
    return known._replace(restart_lost=True)


def unexplained(setting: Setting) -> Attempt | None:
    """The attempt before this one, of the same task of an array, where nobody has said why it ended."""
    told = list(events.read(setting.paths))
    explained: set[str | None] = set()
    for event in told:
        if event.kind == "step-started":
            # What was said of an earlier start says nothing of this one.
            explained.discard(event.text("attempt"))
        elif event.kind in {"diagnosed", "run-ended"}:
            explained.add(event.text("attempt"))
    task = setting.attempt.job_id.partition("_")[2]
    earlier = [
        one
        for one in fold(told).attempts
        if one.name != setting.attempt.name and (one.job_id or "").partition("_")[2] == task
    ]
    if not earlier or earlier[-1].ended is not None or earlier[-1].name in explained:
        return None
    return earlier[-1]


def is_cancel_requested(setting: Setting) -> bool:
    """Whether somebody has asked slurmkit to cancel the run."""
    return any(event.kind == "cancel-requested" for event in events.read(setting.paths))
