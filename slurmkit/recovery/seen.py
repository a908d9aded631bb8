"""What was seen of an end: lines for people, and a signature that is the same for the same error. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from slurmkit.recovery.causes import FRAMES
from slurmkit.recovery.diagnosis_words import ABORTED
from slurmkit.recovery.exits import in_words
from slurmkit.run.sentences import end_in_words, signal_in_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from slurmkit.recovery.diagnosis import Diagnosis, Evidence

LONGEST = 200
"""Characters of an error's line that count: what follows is data more often than not."""
SRUN_LINES = 3
QUIET_REASONS = frozenset({"", "None", "NonZeroExitCode"})
"""What Slurm gives as the reason of a job where it has none."""

_ERROR = re.compile(
    r"^\s*(?:\[[^]]*\]:?\s*)*[\w.]*(?:Error|Exception|Interrupt|Exit)\b|\b(?:error|fatal|failed)\b",
    re.IGNORECASE,
)
_VARIES = (
    (re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.IGNORECASE), "#"),
    (re.compile(r"\b0x[0-9a-f]+\b|\b(?=[a-f]*\d)[0-9a-f]{8,}\b", re.IGNORECASE), "#"),
    (re.compile(r"\d+(?:[.,:]\d+)*"), "#"),
    (re.compile(r"\s+"), " "),
)
"""Addresses, ids, numbers and times, and what stands in their place."""


def lines(evidence: Evidence) -> Iterator[str]:
    """What was seen, one line each, what tells most first."""
    yield from _of_slurm(evidence)
    yield from _of_nodes(evidence)
    yield from _of_ranks(evidence)
    yield from _of_work(evidence)


def _of_slurm(evidence: Evidence) -> Iterator[str]:
    if evidence.cancel_requested:
        yield "`slurmkit cancel` was called"
    if evidence.cancelled_by is not None:
        yield f"Slurm says: cancelled by {evidence.cancelled_by}"
    job = " ".join(filter(None, (evidence.job_state, str(evidence.job_exit or ""))))
    if evidence.step_state and evidence.step_state != evidence.job_state and job:
        yield f"the step is {evidence.step_state}, though the job says {job}"
    elif evidence.step_state or job:
        yield f"the job is {job}" if job else f"the step is {evidence.step_state}"
    if (evidence.job_reason or "") not in QUIET_REASONS:
        yield f"Slurm's reason: {evidence.job_reason}"
    if evidence.at_limit:
        yield "the time of the allocation was nearly over, and every rank was asked for a checkpoint"
    if evidence.told is not None:
        yield f"Slurm sent the ranks {signal_in_words(evidence.told)}"
    if evidence.received:
        yield "the agent got " + ", ".join(map(signal_in_words, evidence.received))
    if evidence.restart_lost:
        yield "the agent is gone without a last word"


def _of_nodes(evidence: Evidence) -> Iterator[str]:
    for node in evidence.nodes_down:
        yield f"{node} is down" + (", and did not end the step" if node in evidence.outlived else "")
    for node, reasons in evidence.unfit.items():
        yield f"{node} is unfit: {'; '.join(reasons)}"


def _of_ranks(evidence: Evidence) -> Iterator[str]:
    first = evidence.first_failure
    if evidence.setup_failed:
        yield f"before any rank ran: {evidence.setup_failed}"
    if evidence.hung:
        yield f"no rank made progress for {evidence.hung.after:g} seconds"
    if first:
        yield f"rank {first.rank} on {first.host}: {in_words(first)}"
        if last := error_line(first.last_words):
            yield f"it said: {last}"
    elif evidence.exit_code is not None:
        yield f"the step ended: {end_in_words(evidence.exit_code, None)}"
    if evidence.others:
        yield f"{evidence.others} other ranks failed after it"
    said = [line for line in evidence.srun_lines if line.strip()]
    yield from (f"srun said: {line}" for line in said[-SRUN_LINES:])


def _of_work(evidence: Evidence) -> Iterator[str]:
    if evidence.at_step is not None:
        of = "" if evidence.total is None else f" of {evidence.total}"
        yield f"the last step heard of is {evidence.at_step}{of}"
    if evidence.checkpoint_step is not None:
        yield f"the newest complete checkpoint is of step {evidence.checkpoint_step}"


def error_line(words: Sequence[str]) -> str | None:
    """The line that names the error: the last that looks like one, else the last that is no stack's."""
    told = [line.strip() for line in words if line.strip() and not line.startswith(FRAMES)]
    return next((line for line in reversed(told) if _ERROR.search(line)), told[-1] if told else None)


def is_aborted(evidence: Evidence) -> bool:
    """Whether srun went without an exit code from each of the tasks."""
    return ABORTED.search("\n".join(evidence.srun_lines)) is not None


def signature(diagnosis: Diagnosis, evidence: Evidence) -> str:
    """The kind, how it ended and the error's line, less what differs between two times of the same error."""
    parts: list[str] = [diagnosis.kind]
    first = evidence.first_failure
    match diagnosis.kind:
        case "hung":
            parts.append(_at(evidence))
        case "node-unfit" if evidence.unfit:
            parts += sorted({alike(one) for reasons in evidence.unfit.values() for one in reasons})
        case "setup-failed" if evidence.setup_failed:
            parts.append(alike(evidence.setup_failed))
        case "launch-failed" | "unknown" if evidence.srun_lines:
            parts.append(alike(evidence.srun_lines[-1]))
        case "communication-timeout":
            parts += [_at(evidence), _end(evidence)]
        case "killed" | "ended-early" | "agent-died" | "host-out-of-memory":
            pass
        case _ if first is not None:
            parts += [_end(evidence), alike(error_line(first.last_words) or "", first.host)]
        case "crashed" | "unknown" | "do-not-requeue":
            parts.append(_end(evidence))
    return ": ".join(filter(None, parts))


def alike(text: str, host: str = "") -> str:
    """An error's text without numbers, addresses, times and the host's name."""
    if host:
        text = re.sub(rf"\b{re.escape(host)}\b", "HOST", text)
    for pattern, instead in _VARIES:
        text = pattern.sub(instead, text)
    return "".join(letter for letter in text if letter.isprintable()).strip()[:LONGEST]


def _at(evidence: Evidence) -> str:
    step = evidence.at_step
    if step is None and evidence.hung:
        step = evidence.hung.step
    return "" if step is None else f"at step {step}"


def _end(evidence: Evidence) -> str:
    first = evidence.first_failure
    if first is not None:
        return f"signal {first.signal}" if first.signal is not None else f"exit code {first.exit_code}"
    if evidence.exit_code is not None:
        return f"exit code {evidence.exit_code}"
    return "" if evidence.job_exit is None else f"exit code {evidence.job_exit}"
