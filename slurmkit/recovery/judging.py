"""What follows the end of a step: the diagnosis and the decision, each with its event."""

from __future__ import annotations

import random
import signal
from typing import TYPE_CHECKING

from slurmkit.errors import SlurmError, SlurmkitError
from slurmkit.recovery import report, resuming, step
from slurmkit.recovery.diagnosis import diagnose
from slurmkit.recovery.evidence import REQUEUED, of_attempt, of_step, unexplained
from slurmkit.recovery.limit import kill_wait, pool
from slurmkit.recovery.past import past
from slurmkit.recovery.policy import NEVER, Decision, decide, retry_of
from slurmkit.recovery.requeue import more_memory
from slurmkit.run import events
from slurmkit.slurm.ids import JobId

if TYPE_CHECKING:
    from slurmkit.checkpoint.choice import Checkpoint
    from slurmkit.recovery.diagnosis import Diagnosis, Evidence
    from slurmkit.recovery.setting import Setting
    from slurmkit.recovery.start import StepEnd
    from slurmkit.recovery.starting import Course


def what_follows(setting: Setting, course: Course, end: StepEnd) -> Decision:
    """Why the step ended and what is done about it, both written down."""
    number, found = course.started - 1, newest(setting)
    if found is not None and end.has_begun and not resuming.is_same(found, end.newest):
        resuming.note_complete(setting, number, found)  # saved since the last look
    saved = found.step if found else None
    evidence = of_step(setting, end, saved)._replace(has_run=course.has_run)
    gone = {*course.without, *evidence.nodes_down, *evidence.unfit}
    # Where Slurm does not come to an end with this step, no node has room for another: but for one that died.
    is_full = end.is_stuck and not evidence.nodes_down
    left = tuple(node for node in setting.attempt.nodes if node not in gone and not is_full)
    course.diagnosis, decision = judge(setting, evidence, left, saved)
    if end.is_stuck and decision.action == "requeue":
        # Slurm 22.05 loses count of the GPUs of a job that is requeued with a step that it cannot end.
        decision = decision._replace(action="resubmit")
    if decision.action == "resubmit" and signal.SIGTERM in end.received:
        # Until then ranks of this job may be at work, and write where the next one's do.
        decision = decision._replace(delay=max(decision.delay, kill_wait(setting)))
    if decision.action != "done":  # of work that is done there is nothing to explain
        note(setting, course.diagnosis, decision, evidence, number=number)
    course.has_run = course.has_run or end.has_begun
    if decision.action == "restart":
        if end.is_stuck or course.diagnosis.kind == "launch-failed":
            end_old_steps(setting)
        size = step.world_size(setting.spec, setting.attempt, setting.environ)
        if size is not None and len(end.exits) < size:
            # A rank that left no record may be at work still: the check ends it.
            course.fitness = None
        course.without = tuple(dict.fromkeys((*course.without, *evidence.nodes_down, *decision.without)))
    return decision


def end_old_steps(setting: Setting) -> None:
    """End what Slurm still takes for a step of this job: after an outage it may not know of its end."""
    try:
        ended = setting.connect().end_steps(JobId.parse(setting.attempt.job_id))
    except SlurmError as error:
        report.say(f"steps of earlier starts could not be ended: {error.what}")
        return
    if ended:
        report.say(f"steps that Slurm still had are ended: {', '.join(ended)}")


def past_allows(setting: Setting) -> Decision | None:
    """Explain an earlier attempt that ended without a word; what stops the run because of it, if anything."""
    earlier = unexplained(setting)
    if earlier is None:
        return None
    found = newest(setting)
    saved = found.step if found else None
    evidence = of_attempt(setting, earlier, saved)
    diagnosis, decision = judge(setting, evidence, setting.attempt.nodes, saved)
    # What the job file leaves to Slurm, Slurm has decided.
    if decision.action not in {"stop", "done"} or retry_of(setting.spec) is NEVER:
        decision = Decision("leave", f"{diagnosis.sentence}: Slurm has started the job again")
    note(setting, diagnosis, decision, evidence, attempt=earlier.name)
    return decision if decision.action in {"stop", "done"} else None


def judge(
    setting: Setting, evidence: Evidence, left: tuple[str, ...], saved: int | None
) -> tuple[Diagnosis, Decision]:
    """The diagnosis, and what the policy makes of it; `left` are the nodes that are there to go on with."""
    retry = retry_of(setting.spec)
    diagnosis = diagnose(evidence, retry.stop_on)
    decision = decide(
        diagnosis,
        past(events.read(setting.paths), attempt=setting.attempt.name),
        retry,
        nodes=left,
        needed=len(setting.attempt.nodes) - setting.spec.spare_nodes,
        checkpoint_step=saved,
        chance=random.random(),  # noqa: S311 - it spreads jobs that failed together; it keeps no secret
        can_restart=signal.SIGTERM not in evidence.received,
        is_requeued=evidence.job_state == REQUEUED,
        pool=pool(setting) if diagnosis.nodes or diagnosis.host else None,
    )
    if decision.memory and not more_memory(setting.spec, decision.memory):
        why = "the job file asks for no memory that could be raised: add `mem` to [resources]"
        decision = Decision("stop", f"{diagnosis.sentence}; {why}")
    if retry is NEVER and decision.action == "stop" and diagnosis.transient:
        why = "no second start is asked for: the job file has neither [checkpoint] nor [retry]"
        decision = decision._replace(reason=f"{diagnosis.sentence}; {why}")
    return diagnosis, decision


def newest(setting: Setting) -> Checkpoint | None:
    """The newest complete checkpoint; None where there is none."""
    try:
        size = step.world_size(setting.spec, setting.attempt, setting.environ)
        choice = resuming.newest(setting, size)
    except SlurmkitError:
        return None
    return choice.chosen if choice else None


def note(
    setting: Setting,
    diagnosis: Diagnosis,
    decision: Decision,
    evidence: Evidence,
    *,
    number: int | None = None,
    attempt: str | None = None,
) -> None:
    """Write a diagnosis and what follows down, and say it; `attempt` where it is not this one."""
    whose = {"attempt": attempt} if attempt else {}
    setting.note("diagnosed", step=number, by="agent", **diagnosed(diagnosis, evidence), **whose)
    setting.note("decided", by="agent", **decided(decision), **whose)
    report.decided(diagnosis, decision)


def diagnosed(diagnosis: Diagnosis, evidence: Evidence) -> dict[str, object]:
    """What the event of a diagnosis says."""
    return {
        "kind": diagnosis.kind,
        "sentence": diagnosis.sentence,
        "rank": diagnosis.rank,
        "host": diagnosis.host,
        "nodes": list(diagnosis.nodes) or None,
        "evidence": list(diagnosis.evidence),
        "transient": diagnosis.transient,
        "signature": diagnosis.signature,
        "at_step": evidence.at_step,
        "checkpoint_step": evidence.checkpoint_step,
        "advice": diagnosis.advice,
    }


def decided(decision: Decision) -> dict[str, object]:
    """What the event of a decision says."""
    return {
        "action": decision.action,
        "reason": decision.reason,
        "delay": round(decision.delay, 3) or None,
        "without": list(decision.without) or None,
        "memory": decision.memory,
    }
