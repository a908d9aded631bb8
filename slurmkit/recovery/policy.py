"""What follows an end: a pure function of the diagnosis, the past and the job file's [retry].

The ladder: restart in place; restart in place without the bad nodes; requeue, the bad nodes excluded; resubmit
where the job is gone or has to ask for more; stop.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.recovery.diagnosis_kinds import KINDS
from slurmkit.spec.model import Retry

if TYPE_CHECKING:
    from slurmkit.recovery.diagnosis import Diagnosis
    from slurmkit.recovery.past import Failure, Past
    from slurmkit.spec.model import JobSpec

PATIENCE = 3
"""Failures without progress that differ, or that come from outside, stop the run after so many times as many."""
FIRST_WAIT, LONGEST_WAIT = 5.0, 300.0
"""Seconds before the next start, where time may heal: doubled each time, and never more than this."""
DAY = 86400.0
NONE_YET = -1
"""Stands for the step of no checkpoint at all."""
NEVER = Retry(restarts=0, requeues=0)
"""Of a program that says nothing of checkpoints: it is never started twice."""


class Decision(NamedTuple):
    """What is to be done next, and why."""

    action: str
    """ "done", "restart", "requeue", "resubmit", "stop", or "leave": Slurm itself, or somebody else, acts."""
    reason: str
    delay: float = 0.0
    """Seconds to wait first."""
    without: tuple[str, ...] = ()
    """Nodes to leave out."""
    memory: float | None = None
    """Factor by which more memory is to be asked for."""


class Room(NamedTuple):
    """What is there to go on with."""

    nodes: tuple[str, ...]
    needed: int
    can_restart: bool
    restarts: int
    requeues: int


def retry_of(spec: JobSpec) -> Retry:
    """The job file's [retry]; without one, its defaults where there are checkpoints, else no second try."""
    if spec.retry is not None:
        return spec.retry
    return NEVER if spec.checkpoint is None else Retry()


def decide(
    diagnosis: Diagnosis,
    past: Past,
    retry: Retry,
    *,
    nodes: tuple[str, ...],
    needed: int,
    checkpoint_step: int | None,
    chance: float,
    can_restart: bool = True,
    framework_requeues: bool = False,
) -> Decision:
    """What follows a diagnosis.

    `nodes` are those of the allocation that are up, `needed` of which the step needs; `checkpoint_step` is that of
    the newest complete checkpoint; `chance` in 0..1 spreads delays; without an allocation `can_restart` is False.
    """
    kind = KINDS[diagnosis.kind]
    room = Room(nodes, needed, can_restart, retry.restarts - past.restarts, retry.requeues - past.requeues)
    match kind.follows:
        case "done" | "stop" | "leave":
            return Decision(kind.follows, _with_advice(diagnosis))
        case "more memory" if retry.memory_factor is None:
            return Decision("stop", _with_advice(diagnosis))
        case "next allocation" if framework_requeues:
            return Decision("leave", f"{diagnosis.sentence}; the framework requeues the job by itself")
    before = idle(past, checkpoint_step)
    stop = _why_stop(diagnosis, before, retry, checkpoint_step)
    if stop:
        return Decision("stop", stop)
    bad = _bad_nodes(diagnosis, past) if retry.exclude_bad_nodes else ()
    if kind.follows == "more memory":
        return _elsewhere(diagnosis, room, bad, 0.0, memory=retry.memory_factor)
    if kind.follows == "next allocation":
        return _elsewhere(diagnosis, room, (), 0.0)
    delay = 0.0 if bad or not kind.waits else wait(len(before.failures) + 1, chance)
    return _again(diagnosis, room, bad, delay)


def wait(times: int, chance: float) -> float:
    """Seconds before the next start after so many failures: between half of the longest there may be and all."""
    return min(FIRST_WAIT * 2.0 ** min(times - 1, 16), LONGEST_WAIT) * (0.5 + chance / 2)


def _again(diagnosis: Diagnosis, room: Room, bad: tuple[str, ...], delay: float) -> Decision:
    """In place where that can be, else in another allocation."""
    left = [node for node in room.nodes if node not in bad]
    if room.can_restart and room.restarts > 0 and len(left) >= room.needed:
        without = f", without {', '.join(bad)}" if bad else ""
        return Decision("restart", f"{diagnosis.sentence}: once more in place{without}", delay, bad)
    why = ""
    if room.can_restart and len(left) < room.needed:
        why = f"{len(left)} of the {room.needed} nodes that it needs are left"
    elif room.can_restart:
        why = "the restarts of this allocation are used up"
    return _elsewhere(diagnosis, room, bad, delay, why=why)


def _elsewhere(
    diagnosis: Diagnosis,
    room: Room,
    bad: tuple[str, ...],
    delay: float,
    *,
    why: str = "",
    memory: float | None = None,
) -> Decision:
    """In another allocation, as long as requeues are left."""
    because = diagnosis.sentence + (f"; {why}" if why else "")
    if room.requeues <= 0:
        return Decision("stop", f"{because}; and no requeue is left ([retry] requeues)")
    without = f", {', '.join(bad)} excluded" if bad else ""
    if memory is not None:
        return Decision("resubmit", f"{because}: again with {memory:g} times the memory", 0.0, bad, memory)
    if room.can_restart:
        return Decision("requeue", f"{because}: once more in a new allocation{without}", delay, bad)
    return Decision("resubmit", f"{because}: submitted again{without}", delay, bad)


class Idle(NamedTuple):
    """The failures without progress before the one in question, oldest first, and the best checkpoint at them."""

    failures: tuple[Failure, ...]
    has_progressed: bool
    """Whether a checkpoint has been made since the last of them."""


def idle(past: Past, checkpoint_step: int | None) -> Idle:
    """The failures since the last progress: a checkpoint of a later step than any before."""
    found: list[Failure] = []
    best = NONE_YET
    for one in past.failures:
        step = _step(one.checkpoint_step)
        if step > best:
            found.clear()
        if _is_counted(one.kind, has_progressed=step > best):
            found.append(one)
        best = max(best, step)
    has_progressed = _step(checkpoint_step) > best or (checkpoint_step is None and past.saved_since)
    return Idle(() if has_progressed else tuple(found), has_progressed)


def _is_counted(kind: str, *, has_progressed: bool) -> bool:
    """Whether an end counts as a failure; a time limit only where its allocation had made no checkpoint."""
    counts = KINDS[kind].counts if kind in KINDS else "any"
    return counts != "never" and not (counts == "idle" and has_progressed)


def _step(checkpoint_step: int | None) -> int:
    return NONE_YET if checkpoint_step is None else checkpoint_step


def _why_stop(diagnosis: Diagnosis, before: Idle, retry: Retry, checkpoint_step: int | None) -> str | None:
    """Why there is no use in another try; None: there may be."""
    if not _is_counted(diagnosis.kind, has_progressed=before.has_progressed):
        return None
    where = "before the first checkpoint" if checkpoint_step is None else f"at step {checkpoint_step}"
    same = 1 + sum(
        1 for _ in takewhile(lambda one: one.signature == diagnosis.signature, reversed(before.failures))
    )
    if KINDS[diagnosis.kind].counts in {"same", "idle"} and same >= retry.without_progress:
        return f"failed {times(same)} {where} with the same error: {diagnosis.sentence}"
    if len(before.failures) + 1 >= PATIENCE * retry.without_progress:
        return f"failed {times(len(before.failures) + 1)} {where} without a new checkpoint; at last: {diagnosis.sentence}"
    return None


def times(number: int) -> str:
    """ "once", "2 times"."""
    return "once" if number == 1 else f"{number} times"


def _bad_nodes(diagnosis: Diagnosis, past: Past) -> tuple[str, ...]:
    """The nodes to leave out: at once where the node is to blame, else at the second failure within a day."""
    if KINDS[diagnosis.kind].blames_node:
        return diagnosis.nodes
    if diagnosis.host is None:
        return ()
    latest = max((one.at for one in past.failures), default=0.0)
    again = any(
        diagnosis.host in one.nodes and one.signature == diagnosis.signature and latest - one.at <= DAY
        for one in past.failures
    )
    return (diagnosis.host,) if again else ()


def _with_advice(diagnosis: Diagnosis) -> str:
    return diagnosis.sentence + (f"; {diagnosis.advice}" if diagnosis.advice else "")
