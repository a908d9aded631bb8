"""Why a step or a job ended: one diagnosis of all that is known. Pure."""

from __future__ import annotations

import re
import signal
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.recovery import seen as seen_of
from slurmkit.recovery.causes import of_kind, recognise
from slurmkit.recovery.diagnosis_kinds import KINDS
from slurmkit.recovery.exits import TOLD_TO_END, in_words
from slurmkit.run.ending import ENDS, user_name
from slurmkit.run.sentences import end_in_words
from slurmkit.slurm.exitcode import OUT_OF_MEMORY
from slurmkit.slurm.states import JobState

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from slurmkit.recovery.exits import RankExit
    from slurmkit.recovery.monitor import Hung
    from slurmkit.slurm.exitcode import ExitCode
    from slurmkit.slurm.records import Job

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
    unfit: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    at_limit: bool = False
    """Whether the agent ended the step because its time was nearly over."""
    at_step: int | None = None
    total: int | None = None
    checkpoint_step: int | None = None
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

    @property
    def transient(self) -> bool:
        """Whether another try can end otherwise."""
        return KINDS[self.kind].transient


OF_A_CAUSE: Mapping[str, str] = {
    "gpu-out-of-memory": "gpu-out-of-memory",
    "host-out-of-memory": "host-out-of-memory",
    "disk-full": "disk-full",
    "storage-failed": "storage-failed",
    "port-in-use": "port-in-use",
    "gpu-lost": "node-unfit",
    "node-failed": "node-died",
    "nccl-error": "communication-timeout",
    "nccl-timeout": "communication-timeout",
    "rendezvous-timeout": "communication-timeout",
    "connection-lost": "communication-timeout",
    "no-network": "communication-timeout",
    "killed": "killed",
    "hung": "hung",
    "launch-failed": "launch-failed",
    "missing-module": "setup-failed",
    "import-error": "setup-failed",
    "python-syntax": "setup-failed",
    "missing-file": "setup-failed",
    "permission": "setup-failed",
}
"""The kind of end that a cause makes; every other one is a crash."""
AT_FIRST = frozenset({"missing-file", "permission"})
"""Causes that are the setup's only before the first step; later, the program's own or the file system's."""

PASSES = re.compile(
    r"[Cc]onnection|[Tt]imed out|[Tt]imeout|[Cc]ommunication|[Ss]ocket|busy|completing|not respond|contact"
    r"|temporarily|try again"
)
"""Words of srun's by which a launch that failed may do better the next time."""
NODE = re.compile(r"(?:failed on node|Node failure on|DUE TO NODE) (?P<node>[\w.-]+)")
FROM_OUTSIDE = frozenset({signal.SIGKILL, *TOLD_TO_END})
RELEASE = "`scontrol release JOB` lets it start, once the reason for the hold is gone"
HELD: Mapping[str, str] = {
    "launchfailedrequeuedheld": "a node failed to launch it; look at the node, then `scontrol release JOB`",
    "jobholdmaxrequeue": "it was requeued too often (MaxBatchRequeue); `scontrol release JOB` lets it start again",
    "jobheldadmin": "an administrator holds it: only one can release it",
    "jobhelduser": RELEASE,
}
"""Reasons of jobs that are held, without blanks, brackets and underscores: Slurm spells them both ways."""
HELD_STATES = frozenset({"REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"})
NEVER: Mapping[str, str] = {
    "dependencyneversatisfied": "the job that it waits for ended otherwise; submit without that dependency",
    "badconstraints": "no node has what it asks for; `slurmkit lint` says what is there",
    "partitiontimelimit": "its time is longer than the partition allows",
    "partitionnodelimit": "it asks for more nodes than the partition allows",
}
"""Reasons of jobs that nothing will change."""


def diagnose(evidence: Evidence, stop_on: Collection[int] = ()) -> Diagnosis:
    """The diagnosis that the strongest evidence makes; `stop_on` are exit codes that are never tried again."""
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
    return found._replace(evidence=seen, signature=seen_of.signature(found, evidence))


def _finished(evidence: Evidence) -> Diagnosis | None:
    """Exit code 0 is the end only where no work is left, as far as anybody knows."""
    if evidence.exit_code != 0 or evidence.setup_failed:
        return None
    done = max(
        (step for step in (evidence.at_step, evidence.checkpoint_step) if step is not None), default=None
    )
    if evidence.total is not None and done is not None:
        # Programs that count from 0 tell of the last step as total - 1.
        if done >= evidence.total - 1:
            return Diagnosis("finished", f"the work is done: {evidence.total} steps")
        return None
    was_told = evidence.at_limit or evidence.hung or evidence.told or signal.SIGTERM in evidence.received
    if was_told or _state(evidence.job_state).name not in {"COMPLETED", "RUNNING", "", "COMPLETING"}:
        return None
    return Diagnosis("finished", "the work is done: the program ended with exit code 0")


def _by_slurm(evidence: Evidence) -> Diagnosis | None:
    """What Slurm's states say; a user's cancel before all else."""
    state = _state(evidence.job_state)
    reason = re.sub(r"[\s_()]", "", evidence.job_reason or "").lower()
    words = {state.name, *state.flags}
    if reason in NEVER or "DEADLINE" in words:
        why = "its deadline was reached" if "DEADLINE" in words else f"{evidence.job_reason}"
        return Diagnosis("never-starts", f"the job can never start: {why}", advice=NEVER.get(reason))
    if (
        evidence.cancel_requested
        or "CANCELLED" in words
        or (evidence.cancelled_by and not evidence.job_state)
    ):
        who = (
            "with `slurmkit cancel`"
            if evidence.cancel_requested
            else f"by {evidence.cancelled_by or 'somebody'}"
        )
        return Diagnosis("cancelled", f"the job was cancelled {who}")
    if state.is_pending and (reason in HELD or not words.isdisjoint(HELD_STATES)):
        told = f" ({evidence.job_reason})" if evidence.job_reason else ""
        return Diagnosis("held", f"Slurm holds the job{told}", advice=HELD.get(reason) or RELEASE)
    if "PREEMPTED" in words:
        return Diagnosis("preempted", f"preempted: {ENDS['PREEMPTED']}")
    if state.is_pending or not words.isdisjoint({"REQUEUED", "REQUEUE_FED", "REVOKED", "PENDING"}):
        return Diagnosis("requeued", "the job was put back into the queue")
    if "TIMEOUT" in words or evidence.at_limit:
        return Diagnosis("time-limit", "the time limit was reached")
    if not words.isdisjoint({"NODE_FAIL", "BOOT_FAIL"}):
        why = ENDS["BOOT_FAIL"] if "BOOT_FAIL" in words else ENDS["NODE_FAIL"]
        return _node_died(evidence, why)
    return None


def _by_nodes(evidence: Evidence) -> Diagnosis | None:
    """What the nodes' states, the checks of the nodes and the signals to the whole job say."""
    if evidence.nodes_down:
        return _node_died(evidence, f"{_names(evidence.nodes_down)} died under the step")
    if signal.SIGTERM in evidence.received:
        return Diagnosis("told-to-end", "Slurm told the job to end, and has not said why yet")
    if evidence.told == signal.SIGTERM:
        return Diagnosis("preempted", "Slurm told the ranks to end: a preemption, with time to save")
    if evidence.unfit:
        why = "; ".join(f"{node}: {', '.join(reasons)}" for node, reasons in evidence.unfit.items())
        return Diagnosis("node-unfit", f"unfit for the step: {why}", nodes=tuple(evidence.unfit))
    return None


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
        return Diagnosis("setup-failed", f"the program could not be started: {evidence.setup_failed}")
    return None


def _by_cause(evidence: Evidence) -> Diagnosis | None:
    """What the rank's last words and srun's say."""
    if evidence.exit_code == 0:
        return None
    cause = recognise(evidence.first_failure, evidence.srun_lines)
    if cause is None:
        return None
    kind = OF_A_CAUSE.get(cause.kind, "crashed")
    said = " ".join(evidence.srun_lines)
    if cause.kind == "launch-failed" and not (evidence.first_failure is None and PASSES.search(said)):
        kind = "setup-failed"
    if cause.kind in AT_FIRST and evidence.at_step is not None:
        kind = "crashed"
    first = evidence.first_failure
    who = f"rank {first.rank} on {first.host}: " if first else ""
    found = _of_rank(evidence, kind, who + cause.sentence, cause.advice)
    named = tuple(dict.fromkeys(NODE.findall(said)))
    if KINDS[kind].blames_node:
        return found._replace(nodes=named or ((first.host,) if first else ()))
    return found._replace(host=found.host or (named[0] if named else None))


def _by_end(evidence: Evidence) -> Diagnosis | None:
    """What is left: the bare exit code or signal."""
    first = evidence.first_failure
    if evidence.exit_code == 0:
        return _ended_early(evidence)
    if evidence.restart_lost:
        return Diagnosis("agent-died", "the agent is gone without a last word")
    if first is not None:
        kind = "killed" if first.signal in FROM_OUTSIDE else "crashed"
        return _of_rank(evidence, kind, f"rank {first.rank} on {first.host}: {in_words(first)}")
    if "CANCELLED" in (evidence.step_state or ""):
        return Diagnosis("killed", f"somebody ended the step{_by(evidence)}")
    job_exit = evidence.job_exit
    number = job_exit.signal if job_exit else None
    code = evidence.exit_code if evidence.exit_code is not None else (job_exit.code if job_exit else None)
    if number or code:
        kind = "killed" if (number or (code or 0) - 128) in FROM_OUTSIDE else "crashed"
        return Diagnosis(kind, f"the step: {end_in_words(code, number)}")
    return None


def _ended_early(evidence: Evidence) -> Diagnosis | None:
    if evidence.total is None:
        return None
    done = max(step for step in (evidence.at_step, evidence.checkpoint_step, 0) if step is not None)
    return Diagnosis(
        "ended-early",
        f"the program ended with exit code 0 at step {done} of {evidence.total}",
        advice="it may have found no checkpoint, or have left at a signal: its log tells; where the work is done, "
        "[progress] total is too large",
    )


def _is_out_of_memory(evidence: Evidence) -> bool:
    """Whether memory was the end: by the kernel's count, or by any of Slurm's words for it."""
    if "OUT_OF_MEMORY" in {evidence.step_state, _state(evidence.job_state).name}:
        return True
    if evidence.job_exit is not None and evidence.job_exit.signal == OUT_OF_MEMORY:
        return True
    cause = recognise(evidence.first_failure, evidence.srun_lines)
    return evidence.exit_code != 0 and cause is not None and cause.kind == "host-out-of-memory"


def _node_died(evidence: Evidence, why: str) -> Diagnosis:
    named = evidence.nodes_down or tuple(dict.fromkeys(NODE.findall(" ".join(evidence.srun_lines))))
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


def _by(evidence: Evidence) -> str:
    return f": {evidence.cancelled_by}" if evidence.cancelled_by else ""


def _names(nodes: tuple[str, ...]) -> str:
    return ", ".join(nodes)


def from_accounting(
    job: Job,
    *,
    checkpoint_step: int | None = None,
    total: int | None = None,
    cancel_requested: bool = False,
    restart_lost: bool = False,
    nodes_down: tuple[str, ...] = (),
) -> Evidence:
    """The evidence that Slurm's accounting alone gives of a job, as where its agent left no last word.

    `restart_lost` where the run's events have the attempt's start and not its end.
    """
    worst = max((step.state for step in job.steps), key=lambda state: state.severity, default=None)
    user = job.cancelled_by
    return Evidence(
        exit_code=job.exit_code.status if job.exit_code and job.state.is_final else None,
        step_state=None if worst is None or worst.name == "COMPLETED" else worst.name,
        job_state=str(job.state),
        job_reason=job.reason,
        job_exit=job.exit_code,
        cancelled_by=None if user is None else user_name(user),
        cancel_requested=cancel_requested,
        nodes_down=nodes_down,
        total=total,
        checkpoint_step=checkpoint_step,
        restart_lost=restart_lost,
    )
