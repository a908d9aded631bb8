"""Why a step or a job ended: one diagnosis of all that is known. Pure."""

from __future__ import annotations

import re
import signal
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.recovery import seen as seen_of
from slurmkit.recovery.causes import of_kind, recognise
from slurmkit.recovery.diagnosis_kinds import KINDS, OF_A_CAUSE
from slurmkit.recovery.diagnosis_words import (
    CUT,
    ENDED,
    FROM_OUTSIDE,
    HELD,
    HELD_STATES,
    IN_QUEUE,
    NEVER,
    NODE,
    PASSES,
    RELEASE,
    WHY,
)
from slurmkit.recovery.exits import in_words
from slurmkit.run.ending import ENDS, user_name
from slurmkit.run.sentences import end_in_words
from slurmkit.slurm.exitcode import OUT_OF_MEMORY
from slurmkit.slurm.states import JobState

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from slurmkit.recovery.exits import RankExit
    from slurmkit.recovery.monitor import Hung
    from slurmkit.slurm.exitcode import ExitCode
    from slurmkit.slurm.records import Job

FULL = "No space left on device"
DO_NOT_REQUEUE = 93
"""NVIDIA's resiliency extension leaves with it where another start has no use."""


class Evidence(NamedTuple):
    """All that is known when something has ended."""

    exit_code: int | None = None
    """The step's, or the agent's own; 128 + n for a signal."""
    first_failure: RankExit | None = None
    others: int = 0
    """Ranks that failed after it."""
    srun_lines: tuple[str, ...] = ()
    received: tuple[int, ...] = ()
    """Signals that the agent got."""
    told: int | None = None
    """A signal that Slurm sent the ranks."""
    hung: Hung | None = None
    step_state: str | None = None
    """In Slurm's words, as `job_state`."""
    job_state: str | None = None
    job_reason: str | None = None
    job_exit: ExitCode | None = None
    cancelled_by: str | None = None
    """A user's name, or a uid."""
    cancel_requested: bool = False
    """By `slurmkit cancel`."""
    nodes_down: tuple[str, ...] = ()
    """Of the allocation."""
    outlived: Collection[str] = frozenset()
    """Nodes that were there when the step had ended: being down now, they are not to blame."""
    unfit: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    at_limit: bool = False
    """Whether the agent, or a requeue by the program, ended the step because its time was nearly over."""
    at_step: int | None = None
    total: int | None = None
    checkpoint_step: int | None = None
    has_run: bool = False
    """Whether an earlier start of this attempt got its ranks going: what they need is there."""
    setup_failed: str | None = None
    """Where the environment or the launch failed before any rank ran: the error."""
    restart_lost: bool = False
    """Whether the agent is gone without a last word."""


class Diagnosis(NamedTuple):
    """Why it ended, who is to blame, and what tells so."""

    kind: str
    sentence: str
    rank: int | None = None
    host: str | None = None
    nodes: tuple[str, ...] = ()
    """To blame, and better left out next time."""
    evidence: tuple[str, ...] = ()
    advice: str | None = None
    signature: str = ""
    """The same for the same error."""
    at_step: int | None = None
    """The last step heard of."""

    @property
    def transient(self) -> bool:
        """Whether another try can end otherwise."""
        return KINDS[self.kind].transient


AT_FIRST = frozenset({"missing-file", "permission"})
"""Causes that are the setup's only before the first step; later, the program's own or the file system's."""


def diagnose(evidence: Evidence, stop_on: Collection[int] = ()) -> Diagnosis:
    """What the strongest evidence says; `stop_on` are exit codes after which nothing is tried again."""
    found = (
        _finished(evidence)
        or _by_slurm(evidence)
        or _by_nodes(evidence)
        or _by_step(evidence, stop_on)
        or _by_cause(evidence)
        or _by_end(evidence)
    )
    seen = tuple(seen_of.lines(evidence))
    if found is None:
        found = Diagnosis("unknown", f"nobody knows why it ended: {'; '.join(seen) or 'nothing was seen'}")
    return found._replace(
        evidence=seen, signature=seen_of.signature(found, evidence), at_step=evidence.at_step
    )


def _finished(evidence: Evidence) -> Diagnosis | None:
    """Exit code 0 is the end only where no work is left, as far as anybody knows."""
    if evidence.exit_code != 0 or evidence.setup_failed:
        return None
    steps = [step for step in (evidence.at_step, evidence.checkpoint_step) if step is not None]
    was_told = evidence.at_limit or evidence.hung or evidence.told or signal.SIGTERM in evidence.received
    was_told = was_told or seen_of.is_aborted(evidence)
    if evidence.total is not None and steps:
        # Programs that count from 0 tell of the last step as total - 1.
        needed = evidence.total if was_told else evidence.total - 1
        is_done = max(steps) >= needed
        return Diagnosis("finished", f"the work is done: {evidence.total} steps") if is_done else None
    if was_told or _state(evidence.job_state).name not in {"", "COMPLETED", "COMPLETING", "RUNNING"}:
        return None
    return Diagnosis("finished", "the work is done: the program ended with exit code 0")


def _by_slurm(evidence: Evidence) -> Diagnosis | None:
    """What Slurm's states and srun's word on the end of the step say; a cancel before all else."""
    state = _state(evidence.job_state)
    words = {state.name, *state.flags} | _of_step(evidence.srun_lines)
    found = _of_queue(evidence, state, words)
    if found:
        return found
    if "PREEMPTED" in words:
        return Diagnosis("preempted", f"preempted: {ENDS['PREEMPTED']}")
    is_in_queue = state.is_pending or not words.isdisjoint(IN_QUEUE)
    if evidence.at_limit or ("TIMEOUT" in words and not is_in_queue):
        return Diagnosis("time-limit", ENDS["TIMEOUT"])
    if is_in_queue:
        return Diagnosis("requeued", "the job is in the queue again")
    if "BOOT_FAIL" in words:
        return _node_died(evidence, ENDS["BOOT_FAIL"])
    return _node_died(evidence, ENDS["NODE_FAIL"]) if "NODE_FAIL" in words else None


def _of_queue(evidence: Evidence, state: JobState, words: Collection[str]) -> Diagnosis | None:
    """What no other start of this job comes after, unless a person acts."""
    reason = re.sub(r"[\s_()]", "", evidence.job_reason or "").lower()
    if "DEADLINE" in words:
        return Diagnosis("never-starts", f"the job can never start again: {ENDS['DEADLINE']}")
    if reason in NEVER:
        sentence = f"the job can never start: {evidence.job_reason}"
        return Diagnosis("never-starts", sentence, advice=NEVER[reason])
    is_cancelled = "CANCELLED" in words or (evidence.cancelled_by is not None and not evidence.job_state)
    if evidence.cancel_requested or is_cancelled:
        by = evidence.cancelled_by
        who = f" by {by}" if by else " with `slurmkit cancel`" if evidence.cancel_requested else ""
        return Diagnosis("cancelled", f"the job was cancelled{who}")
    if state.is_pending and (reason in HELD or not HELD_STATES.isdisjoint(words)):
        told = f": {evidence.job_reason}" if evidence.job_reason else ""
        return Diagnosis("held", f"Slurm holds the job{told}", advice=HELD.get(reason, RELEASE))
    return None


def _of_step(srun_lines: Sequence[str]) -> frozenset[str]:
    """The state that srun's word on the end of a step stands for, if it gives a reason."""
    ended = ENDED.search("\n".join(srun_lines))
    why = ended["why"] if ended else None
    return frozenset({WHY[why.split()[0]]} if why else ())


def _by_nodes(evidence: Evidence) -> Diagnosis | None:
    """What the nodes' states, the checks of the nodes and the signals to the whole job say."""
    if died := _died(evidence):
        return _node_died(evidence, f"{', '.join(died)} died under the step")
    if signal.SIGTERM in evidence.received:
        return Diagnosis("told-to-end", "Slurm told the job to end, and has not said why")
    first = evidence.first_failure
    # The other ranks of one that fails are told to end too, and so are those of a step that somebody cancels.
    is_of_job = (first is None or first.was_told) and not evidence.hung and not _is_step_cancelled(evidence)
    if evidence.told == signal.SIGTERM and is_of_job:
        return Diagnosis("preempted", "Slurm told the ranks to end: a preemption, with time to save")
    if evidence.unfit and all(any(FULL in reason for reason in told) for told in evidence.unfit.values()):
        return Diagnosis("disk-full", "the disk of the checkpoints is full: no node can write there")
    if evidence.unfit:
        why = "; ".join(f"{node}: {', '.join(reasons)}" for node, reasons in evidence.unfit.items())
        return Diagnosis("node-unfit", f"unfit for the step: {why}", nodes=tuple(evidence.unfit))
    return None


def _is_step_cancelled(evidence: Evidence) -> bool:
    """Whether somebody cancelled the step, and not the job."""
    ended = ENDED.search("\n".join(evidence.srun_lines))
    return "CANCELLED" in (evidence.step_state or "") or (ended is not None and ended["why"] is None)


def _by_step(evidence: Evidence, stop_on: Collection[int]) -> Diagnosis | None:
    """What the step's own end says: memory, silence, or a code by which it asks not to come back."""
    first = evidence.first_failure
    if _is_out_of_memory(evidence):
        at = "the step" if first is None else f"rank {first.rank} on {first.host}"
        advice = of_kind("host-out-of-memory").advice
        return _of_rank(evidence, "host-out-of-memory", f"{at} ran out of memory", advice)
    if evidence.hung:
        step = evidence.hung.step if evidence.at_step is None else evidence.at_step
        at = "before the first step" if step is None else f"at step {step}"
        return Diagnosis("hung", f"no rank made progress any more, {at}", advice=of_kind("hung").advice)
    code = evidence.exit_code if first is None else first.status
    if code in {DO_NOT_REQUEUE, *stop_on}:
        which = "exit code 93" if code == DO_NOT_REQUEUE else f"exit code {code}, which [retry] stop_on names"
        return _of_rank(evidence, "do-not-requeue", f"the program asks not to be started again: {which}")
    if evidence.setup_failed:
        kind = "launch-failed" if PASSES.search(evidence.setup_failed) else "setup-failed"
        return Diagnosis(kind, f"the program could not be started: {evidence.setup_failed}")
    return None


def _by_cause(evidence: Evidence) -> Diagnosis | None:
    """What the rank's last words and srun's say."""
    if evidence.exit_code == 0:
        return None
    cause = recognise(evidence.first_failure, evidence.srun_lines)
    if cause is None:
        return None
    kind = OF_A_CAUSE.get(cause.kind, "crashed")
    of_srun = " ".join(evidence.srun_lines)
    passes = evidence.first_failure is None and (evidence.has_run or PASSES.search(of_srun))
    if cause.kind == "launch-failed" and not passes:
        kind = "setup-failed"
    if cause.kind in AT_FIRST and evidence.at_step is not None:
        kind = "crashed"
    first = evidence.first_failure
    who = f"rank {first.rank} on {first.host}: " if first else ""
    words = first.last_words if first else ()
    said = seen_of.error_line(words) if kind == "crashed" else None
    sentence = who + cause.sentence + (f": {said}" if said else "")
    found = _of_rank(evidence, kind, sentence, cause.advice)
    named = tuple(dict.fromkeys(NODE.findall(of_srun)))
    if KINDS[kind].blames_node:
        return found._replace(nodes=named or ((first.host,) if first else ()))
    return found._replace(host=found.host or (named[0] if named else None))


def _by_end(evidence: Evidence) -> Diagnosis | None:
    """What is left: the bare exit code or signal."""
    first, job_exit = evidence.first_failure, evidence.job_exit
    if evidence.exit_code == 0 and seen_of.is_aborted(evidence):
        return Diagnosis("killed", "somebody ended the step: srun gave its tasks up, and knows no exit code")
    if evidence.exit_code == 0 or evidence.restart_lost:
        lost = Diagnosis("agent-died", "the agent is gone without a last word")
        return _ended_early(evidence) if evidence.exit_code == 0 else lost
    if first is not None:
        said = seen_of.error_line(first.last_words)
        sentence = f"rank {first.rank} on {first.host}: {in_words(first)}" + (f": {said}" if said else "")
        return _of_rank(evidence, _kind_of(first.status), sentence)
    if _is_step_cancelled(evidence):
        by = f" ({evidence.cancelled_by})" if evidence.cancelled_by else ""
        return Diagnosis("killed", f"somebody cancelled the step{by}")
    if job_exit is not None and not job_exit.is_success:
        return _of_job(job_exit)
    is_killed = evidence.exit_code is not None and _kind_of(evidence.exit_code) == "killed"
    sentence = f"the step ended: {end_in_words(evidence.exit_code, None)}"
    return Diagnosis("killed", sentence) if is_killed else None


def _of_job(job_exit: ExitCode) -> Diagnosis:
    """The end of a job as accounting has it. Of a script's exit code 137, Slurm makes `9:0`."""
    ended = end_in_words(job_exit.code, job_exit.signal)
    if job_exit.code in CUT and not job_exit.signal:
        whole = job_exit.code + 128
        return Diagnosis("killed", f"the job ended: {ended}, which is what Slurm makes of {whole}, too")
    return Diagnosis(_kind_of(job_exit.status), f"the job ended: {ended}")


def _kind_of(status: int) -> str:
    """What a status as of a shell says by itself."""
    return "killed" if status - 128 in FROM_OUTSIDE else "crashed"


def _ended_early(evidence: Evidence) -> Diagnosis | None:
    if evidence.total is None:
        return None
    done = max(step for step in (evidence.at_step, evidence.checkpoint_step, 0) if step is not None)
    return Diagnosis(
        "ended-early",
        f"the program ended with exit code 0 at step {done} of {evidence.total}",
        advice="it may have found no checkpoint, or have left at a signal: its log tells; where the work "
        "is done, [progress] total is too large",
    )


def _is_out_of_memory(evidence: Evidence) -> bool:
    """Whether memory was the end: by the kernel's count, or by any of Slurm's words for it."""
    if "OUT_OF_MEMORY" in {evidence.step_state, _state(evidence.job_state).name}:
        return True
    if evidence.job_exit is not None and evidence.job_exit.signal == OUT_OF_MEMORY:
        return True
    cause = recognise(evidence.first_failure, evidence.srun_lines)
    return evidence.exit_code != 0 and cause is not None and cause.kind == "host-out-of-memory"


def _died(evidence: Evidence) -> tuple[str, ...]:
    return tuple(node for node in evidence.nodes_down if node not in evidence.outlived)


def _node_died(evidence: Evidence, why: str) -> Diagnosis:
    named = _died(evidence) or tuple(dict.fromkeys(NODE.findall(" ".join(evidence.srun_lines))))
    host = named[0] if len(named) == 1 else None
    return Diagnosis("node-died", why, host=host, nodes=named, advice=of_kind("node-failed").advice)


def _of_rank(evidence: Evidence, kind: str, sentence: str, advice: str | None = None) -> Diagnosis:
    first = evidence.first_failure
    if first is None:
        return Diagnosis(kind, sentence, advice=advice)
    return Diagnosis(kind, sentence, rank=first.rank, host=first.host, advice=advice)


def _state(text: str | None) -> JobState:
    try:
        return JobState.parse(text or "")
    except ValueError:
        return JobState("")


def from_accounting(
    job: Job,
    *,
    checkpoint_step: int | None = None,
    at_step: int | None = None,
    total: int | None = None,
    cancel_requested: bool = False,
    restart_lost: bool = False,
    nodes_down: tuple[str, ...] = (),
) -> Evidence:
    """The evidence that Slurm's accounting alone gives of a job, as where its agent left no last word.

    `restart_lost` where the run's events have the attempt's start and not its end.
    """
    # The batch step says CANCELLED of a script that SIGKILL ended: only of memory does it speak for the job.
    states = [
        step.state for step in job.steps if step.id.step.isdigit() or step.state.name == "OUT_OF_MEMORY"
    ]
    worst = max(states, key=lambda state: state.severity, default=None)
    user, job_exit = job.cancelled_by, job.exit_code
    return Evidence(
        exit_code=job_exit.status if job_exit and job.state.is_final else None,
        step_state=None if worst is None or worst.name == "COMPLETED" else worst.name,
        job_state=str(job.state),
        job_reason=job.reason,
        job_exit=job_exit,
        cancelled_by=None if user is None else user_name(user),
        cancel_requested=cancel_requested,
        nodes_down=nodes_down,
        at_step=at_step,
        total=total,
        checkpoint_step=checkpoint_step,
        restart_lost=restart_lost,
    )
