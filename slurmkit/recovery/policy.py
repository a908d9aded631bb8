"""What follows an end: a pure function of the diagnosis, the past and the job file's [retry].

The ladder: restart in place; in place without the bad nodes; requeue with them excluded; resubmit, where the
job is gone or has to ask for more; stop.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.recovery.diagnosis_kinds import KINDS
from slurmkit.run.suspects import DAY, MOST_EXCLUDED, PERHAPS, Blame, is_suspect
from slurmkit.spec.model import Retry

if TYPE_CHECKING:
    from slurmkit.recovery.diagnosis import Diagnosis
    from slurmkit.recovery.past import Failure, Past
    from slurmkit.spec.model import JobSpec

PATIENCE = 3
"""Failures without progress that differ, or that come from outside, may be so many times as many."""
FIRST_WAIT, LONGEST_WAIT = 5.0, 300.0
"""Seconds before the next start, where time may heal: doubled each time, up to the longest."""
NONE_YET = -1
"""Stands for the step of no checkpoint at all."""
NEVER = Retry(restarts=0, requeues=0)
"""Of a program that says nothing of checkpoints: it is never started twice."""


class Decision(NamedTuple):
    """What is to be done next, and why."""

    action: str
    """`done`, `restart`, `requeue`, `resubmit`, `stop`, or `leave`: Slurm itself, or somebody else, acts."""
    reason: str
    delay: float = 0.0
    """Seconds to wait first."""
    without: tuple[str, ...] = ()
    """Nodes to leave out."""
    memory: float | None = None
    """So many times the memory that the job file asks for."""


class Room(NamedTuple):
    """What there is to go on with."""

    nodes: tuple[str, ...]
    """Of the allocation, those that are up."""
    needed: int
    pool: int | None
    """Nodes that the job could get at all, where that is known."""
    can_restart: bool
    restarts: int
    requeues: int
    excluded: tuple[str, ...]
    """Before now, within a day."""


class Idle(NamedTuple):
    """The failures since the last progress, oldest first; whether there was any since the last of them."""

    failures: tuple[Failure, ...]
    has_progressed: bool


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
    is_requeued: bool = False,
    pool: int | None = None,
) -> Decision:
    """What follows a diagnosis.

    `nodes` are those of the allocation that are up, and the step needs `needed`; `checkpoint_step` is that of
    the newest complete checkpoint. `chance`, in 0..1, spreads the pauses of many runs. Without an allocation
    `can_restart` is False. `is_requeued`: Slurm has the job for another start already, as some programs have
    it do at their time limit. `pool`: how many nodes the job could get, of which enough are never excluded.
    """
    kind = KINDS[diagnosis.kind]
    if settled := _settled(diagnosis, retry, is_requeued=is_requeued):
        return settled
    before = idle(past, checkpoint_step)
    if why := _why_stop(diagnosis, before, retry, checkpoint_step):
        return Decision("stop", why)
    room = Room(
        nodes=nodes,
        needed=needed,
        pool=pool,
        can_restart=can_restart,
        restarts=retry.restarts - past.restarts,
        requeues=retry.requeues - past.requeues,
        excluded=past.excluded if retry.exclude_bad_nodes else (),
    )
    bad = _bad_nodes(diagnosis, past) if retry.exclude_bad_nodes else ()
    if kind.follows != "again":
        memory = None
        if kind.follows == "more memory" and retry.memory_factor is not None:
            memory = retry.memory_factor ** (past.memory + 1)
        return _elsewhere(diagnosis, room, bad, memory=memory)
    waiting = sum(one.kind in KINDS and KINDS[one.kind].waits for one in before.failures)
    return _again(diagnosis, room, bad, 0.0 if bad or not kind.waits else pause(waiting + 1, chance))


def pause(times: int, chance: float) -> float:
    """Seconds before the next start after so many failures, from half of what it may be at most to all."""
    return min(FIRST_WAIT * 2.0 ** min(times - 1, 16), LONGEST_WAIT) * (0.5 + chance / 2)


def idle(past: Past, checkpoint_step: int | None) -> Idle:
    """The failures since the last progress, which is a checkpoint of a later step than any before.

    Where checkpoints tell no step, each new one is progress.
    """
    found: list[Failure] = []
    best = NONE_YET
    for one in past.failures:
        progressed = _has_progressed(best, one.checkpoint_step, has_saved=one.has_saved)
        if progressed:
            found.clear()
        if _is_counted(one.kind, has_progressed=progressed):
            found.append(one)
        best = max(best, _step(one.checkpoint_step))
    progressed = _has_progressed(best, checkpoint_step, has_saved=past.has_saved)
    return Idle(() if progressed else tuple(found), progressed)


def _has_progressed(best: int, checkpoint_step: int | None, *, has_saved: bool) -> bool:
    return has_saved and best == NONE_YET if checkpoint_step is None else checkpoint_step > best


def _step(checkpoint_step: int | None) -> int:
    return NONE_YET if checkpoint_step is None else checkpoint_step


def _is_counted(kind: str, *, has_progressed: bool) -> bool:
    """Whether an end counts as a failure; a time limit only where its allocation had made no checkpoint."""
    counts = KINDS[kind].counts if kind in KINDS else "any"
    return counts != "never" and not (counts == "idle" and has_progressed)


def _settled(diagnosis: Diagnosis, retry: Retry, *, is_requeued: bool) -> Decision | None:
    """What follows whatever the past was; None: that matters."""
    told = diagnosis.sentence + (f"; {diagnosis.advice}" if diagnosis.advice else "")
    match KINDS[diagnosis.kind].follows:
        case "done" | "stop" | "leave" as action:
            return Decision(action, told)
        case "more memory" if retry.memory_factor is None:
            return Decision("stop", told)
        case "elsewhere" if is_requeued:
            return Decision("leave", f"{diagnosis.sentence}; the job is in the queue again already")
    return None


def _why_stop(diagnosis: Diagnosis, before: Idle, retry: Retry, checkpoint_step: int | None) -> str | None:
    """Why there is no use in another try; None: there may be."""
    if not _is_counted(diagnosis.kind, has_progressed=before.has_progressed):
        return None
    step = checkpoint_step if diagnosis.at_step is None else diagnosis.at_step
    where = "before the first step" if step is None else f"at step {step}"
    same = 1 + sum(
        1 for _ in takewhile(lambda one: one.signature == diagnosis.signature, reversed(before.failures))
    )
    counts = KINDS[diagnosis.kind].counts
    if counts == "at once" and not before.has_progressed and not before.failures:
        return f"failed {where}, before any new checkpoint, as it would again: {_shown(diagnosis)}"
    if counts != "any" and same >= retry.without_progress:
        return f"failed {_times(same)} {where} with the same error: {_shown(diagnosis)}"
    tries = len(before.failures) + 1
    if tries >= PATIENCE * retry.without_progress:
        return f"failed {_times(tries)} without a new checkpoint, at last {where}: {_shown(diagnosis)}"
    return None


def _shown(diagnosis: Diagnosis) -> str:
    """The error itself, and what to do about it."""
    return diagnosis.sentence + (f"\n{diagnosis.advice}" if diagnosis.advice else "")


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _bad_nodes(diagnosis: Diagnosis, past: Past) -> tuple[str, ...]:
    """The nodes to leave out: those to blame; others at a second failure within a day for the same reason."""
    if KINDS[diagnosis.kind].blames_node:
        return diagnosis.nodes
    host = diagnosis.host
    if host is None or diagnosis.kind not in PERHAPS:
        return ()
    known = [
        Blame(node, one.at, one.kind, one.signature)
        for one in past.failures
        if one.kind in PERHAPS and past.now - one.at <= DAY
        for node in one.nodes
    ]
    this = Blame(host, past.now, diagnosis.kind, diagnosis.signature)
    return (host,) if is_suspect(host, this.reason, [*known, this]) else ()


def _again(diagnosis: Diagnosis, room: Room, bad: tuple[str, ...], delay: float) -> Decision:
    """In place where that can be, else in another allocation."""
    left = [node for node in room.nodes if node not in bad]
    if not room.can_restart:
        return _elsewhere(diagnosis, room, bad, delay)
    if len(left) < room.needed:
        return _elsewhere(diagnosis, room, bad, delay, why=f"of {room.needed} nodes, {len(left)} are left")
    if room.restarts <= 0:
        return _elsewhere(diagnosis, room, bad, delay, why="no restart in place is left ([retry] restarts)")
    without = f", without {', '.join(bad)}" if bad else ""
    return Decision("restart", f"{diagnosis.sentence}: once more in place{without}", delay, bad)


def _elsewhere(
    diagnosis: Diagnosis,
    room: Room,
    bad: tuple[str, ...],
    delay: float = 0.0,
    *,
    why: str = "",
    memory: float | None = None,
) -> Decision:
    """In another allocation, as long as requeues are left."""
    because = diagnosis.sentence + (f"; {why}" if why else "")
    if room.requeues <= 0:
        return Decision("stop", f"{because}; no requeue is left ([retry] requeues)")
    is_requeue = room.can_restart and memory is None
    # Slurm keeps what a requeued job excludes; a new job knows nothing of it.
    wanted = bad if is_requeue else tuple(dict.fromkeys((*bad, *room.excluded)))
    without = _that_fit(wanted, room)
    excluded = f", without {', '.join(without)}" if without else ""
    if is_requeue:
        return Decision("requeue", f"{because}: once more in another allocation{excluded}", delay, without)
    times = "" if memory is None else f" with {memory:g} times the memory"
    return Decision("resubmit", f"{because}: submitted again{times}{excluded}", delay, without, memory)


def _that_fit(bad: tuple[str, ...], room: Room) -> tuple[str, ...]:
    """Of the nodes to exclude, so many that the job can still start."""
    if room.pool is None:
        return bad[:MOST_EXCLUDED]
    already = len(set(room.excluded) - set(bad))
    return bad[: max(0, min(MOST_EXCLUDED, room.pool - room.needed - already))]
