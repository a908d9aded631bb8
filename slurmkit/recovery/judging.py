"""What follows the end of a step: the diagnosis and the decision, each with its event."""

from __future__ import annotations

import random
import signal
from typing import TYPE_CHECKING

from slurmkit.errors import SlurmkitError
from slurmkit.recovery import report, resuming, step
from slurmkit.recovery.diagnosis import diagnose
from slurmkit.recovery.evidence import of_attempt, of_step, unexplained
from slurmkit.recovery.past import past
from slurmkit.recovery.policy import NEVER, Decision, decide, retry_of
from slurmkit.run import events

if TYPE_CHECKING:
    from slurmkit.recovery.diagnosis import Diagnosis, Evidence
    from slurmkit.recovery.setting import Setting
    from slurmkit.recovery.start import StepEnd
    from slurmkit.recovery.starting import Course


def what_follows(setting: Setting, course: Course, end: StepEnd) -> Decision:
    """Why the step ended and what is done about it, both written down."""
    saved = checkpoint_step(setting)
    evidence = of_step(setting, end, saved)
    gone = {*course.without, *evidence.nodes_down, *evidence.unfit}
    # Where Slurm does not come to an end with this step, no node has room for another: but for one that died.
    is_full = end.is_stuck and not evidence.nodes_down
    left = tuple(node for node in setting.attempt.nodes if node not in gone and not is_full)
    course.diagnosis, decision = judge(setting, evidence, left, saved)
    if decision.action != "done":  # of work that is done there is nothing to explain
        note(setting, course.diagnosis, decision, evidence, number=course.started - 1)
    if decision.action == "restart":
        size = step.world_size(setting.spec, setting.attempt, setting.environ)
        if size is not None and len(end.exits) < size:
            # A rank that left no record may be at work still: the check ends it.
            course.fitness = None
        course.without = tuple(dict.fromkeys((*course.without, *evidence.nodes_down, *decision.without)))
    return decision


def past_allows(setting: Setting) -> Decision | None:
    """Explain an earlier attempt that ended without a word; what stops the run because of it, if anything."""
    earlier = unexplained(setting)
    if earlier is None:
        return None
    saved = checkpoint_step(setting)
    evidence = of_attempt(setting, earlier, saved)
    diagnosis, decision = judge(setting, evidence, setting.attempt.nodes, saved)
    if decision.action not in {"stop", "done"}:
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
    )
    if retry is NEVER and decision.action == "stop" and diagnosis.transient:
        why = "no second start is asked for: the job file has neither [checkpoint] nor [retry]"
        decision = decision._replace(reason=f"{diagnosis.sentence}; {why}")
    return diagnosis, decision


def checkpoint_step(setting: Setting) -> int | None:
    """The step of the newest complete checkpoint; None where there is none."""
    try:
        size = step.world_size(setting.spec, setting.attempt, setting.environ)
        choice = resuming.newest(setting, size)
    except SlurmkitError:
        return None
    return choice.chosen.step if choice and choice.chosen else None


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
