"""The story of a run in order of time: its own events, and what accounting knows of each of its attempts."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from slurmkit.run import ending, sentences
from slurmkit.run.findings import hang_in_words, hang_of, nodes_of, straggler_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from slurmkit.run.events import Event
    from slurmkit.slurm.records import Job


ALMOST_A_SECOND = timedelta(microseconds=999_999)


class Moment(NamedTuple):
    """One thing that happened, who says so ("slurmkit", "agent", "supervisor" or "Slurm"), and what."""

    time: datetime
    source: str
    text: str
    kind: str = "slurm"
    """That of the event; "slurm" for what accounting has."""


def timeline(told: Iterable[Event], jobs: Iterable[Job]) -> list[Moment]:
    """What happened, oldest first. `jobs` are the attempts as accounting has them, one record each."""
    told = list(told)
    receipts = [event.time for event in told if event.kind in {"submitted", "adopted"}]
    of_slurm = [moment for job in jobs for moment in _of_job(job, receipts)]
    # Slurm's own record of an end is there: the copy that was kept of it says nothing more.
    of_events = _not_twice(event for event in told if event.kind != "job-ended" or not of_slurm)
    return sorted(of_events + of_slurm, key=lambda moment: moment.time)


def _not_twice(told: Iterable[Event]) -> list[Moment]:
    """Each event in words; what one said, the next need not say again: an end, why it was, what follows."""
    moments: list[Moment] = []
    known = ""
    for event in told:
        moment = _of_event(event)
        sentence = event.text("sentence") or ""
        if event.kind == "diagnosed":
            why = sentence.partition(": ")[2] or sentence
            if moments and moments[-1].kind == "step-ended" and why and why in moments[-1].text:
                moment = moment._replace(text=moment.text.removesuffix(f": {sentence}"))
            known = sentence
        elif event.kind == "decided" and known:
            moment = moment._replace(text=moment.text.replace(f": {known}", "", 1))
        moments.append(moment)
    return moments


def _of_event(event: Event) -> Moment:
    source, sentence = _SENTENCES.get(event.kind, ("slurmkit", _plain))
    if event.text("by") == "supervisor":
        source = "supervisor"
    return Moment(event.time, source, sentence(event), event.kind)


def _plain(event: Event) -> str:
    fields = ", ".join(f"{name} {value}" for name, value in event.fields.items())
    return event.kind.replace("-", " ") + (f": {fields}" if fields else "")


def _ended(event: Event) -> str:
    code, signal = event.number("exit_code"), event.number("signal")
    return sentences.signal_in_words(signal) if signal else f"exit code {code}"


def _step_ended(event: Event) -> str:
    text = f"the step ended with {_ended(event)}"
    failure = event.fields.get("first_failure")
    if not isinstance(failure, dict):
        return text
    text += f"; {sentences.place(failure.get('rank'), failure.get('host'))} failed first"
    text += sentences.why(failure)
    others = event.number("ranks_failed")
    return text + (f"; {sentences.others(others)} after it" if others else "")


def _nodes_checked(event: Event) -> str:
    nodes = event.fields.get("nodes")
    count = len(nodes) if isinstance(nodes, list) else nodes
    seconds = event.fields.get("seconds")
    took = f" in {seconds:.1f} s" if isinstance(seconds, int | float) else ""
    unfit, doubtful = nodes_of(event, "unfit"), nodes_of(event, "warnings")
    verdicts = [f"unfit: {sentences.unfit(node, reasons)}" for node, reasons in unfit.items()]
    verdicts += [f"doubtful: {sentences.unfit(node, reasons)}" for node, reasons in doubtful.items()]
    return f"{count} nodes checked{took}: " + (", ".join(verdicts) or "all are fit")


def _nodes_ordered(event: Event) -> str:
    nodes = event.fields.get("nodes")
    listed = ",".join(map(str, nodes)) if isinstance(nodes, list) else nodes
    return f"the nodes are ordered by {event.text('by') or 'the network'}: {listed}"


def _straggler(event: Event) -> str:
    step = event.number("step")
    return sentences.straggler(straggler_of(event)) + ("" if step is None else f", at step {step}")


def _attempt_started(event: Event) -> str:
    nodes = ",".join(map(str, event.fields.get("nodes") or ()))
    return f"attempt {event.text('attempt')} started on {nodes or event.text('host')}"


def _step_started(event: Event) -> str:
    place = f"{event.text('master_addr')}:{event.text('master_port')}"
    return f"step {event.text('step')} started; the ranks meet at {place}"


def _submitting(event: Event) -> str:
    again = _number_of(event)
    without = _listed(event, "exclude")
    return f"sbatch is called{again}" + (f", without {without}" if without else "")


def _submitted(event: Event) -> str:
    return f"submitted{_number_of(event)} as job {event.text('job_id')}"


def _number_of(event: Event) -> str:
    number = event.number("number")
    return f" again (submit {number})" if number is not None and number > 1 else ""


def _listed(event: Event, name: str) -> str:
    value = event.fields.get(name)
    return ",".join(map(str, value)) if isinstance(value, list) else ""


def _at_step(event: Event) -> str:
    step = event.number("at_step")
    return "" if step is None else f" of step {step}"


def _checkpoint_chosen(event: Event) -> str:
    path = event.text("checkpoint")
    text = "no checkpoint yet: it starts from the beginning"
    if path is not None:
        text = f"it goes on from the checkpoint{_at_step(event)}: {path}"
    refused = [sentences.refused(one) for one in refused_of(event)]
    return text + (f"; refused: {'; '.join(refused)}" if refused else "")


def refused_of(event: Event) -> list[Mapping[str, Any]]:
    """The newer checkpoints that were not good enough: `checkpoint`, `state`, `reason`."""
    refused = event.fields.get("refused")
    return [one for one in (refused if isinstance(refused, list) else ()) if isinstance(one, dict)]


def _checkpoint_requested(event: Event) -> str:
    why = sentences.WHY_ASKED.get(event.text("why") or "", event.text("why"))
    left = event.fields.get("seconds_left")
    text = "every rank is asked to save" + (f": {why}" if why else "")
    return text + (f"; {sentences.duration(left)} left" if isinstance(left, int | float) else "")


def _diagnosed(event: Event) -> str:
    kind = event.text("kind") or "unknown"
    sentence = event.text("sentence")
    return f"diagnosed as {kind}" + (f": {sentence}" if sentence else "")


def _decided(event: Event) -> str:
    action = event.text("action") or ""
    text = sentences.ACTIONS.get(action, action or "nothing was decided")
    if reason := event.text("reason"):
        text += f": {reason}"
    if without := _listed(event, "without"):
        text += f"; without {without}"
    delay = event.fields.get("delay")
    return text + (f"; after {sentences.seconds(delay)}" if isinstance(delay, int | float) and delay else "")


def _requeueing(event: Event) -> str:
    exclude = _listed(event, "exclude")
    return f"Slurm is asked to requeue job {event.text('job_id')}" + (
        f", without {exclude}" if exclude else ""
    )


def _attempt_ended(event: Event) -> str:
    text = f"attempt {event.text('attempt')} ended with {_ended(event)}"
    action = event.text("next")
    return text + (f"; next: {action}" if action and action not in {"done", "stop"} else "")


def _run_ended(event: Event) -> str:
    reason = event.text("reason")
    return f"the run ended: {event.text('outcome') or _ended(event)}" + (f": {reason}" if reason else "")


def _job_ended(event: Event) -> str:
    reason = event.text("reason")
    return f"job {event.text('job_id')} is over: {event.text('state')}" + (f" ({reason})" if reason else "")


_SENTENCES: Mapping[str, tuple[str, Callable[[Event], str]]] = {
    "submitting": ("slurmkit", _submitting),
    "submitted": ("slurmkit", _submitted),
    "adopted": (
        "slurmkit",
        lambda event: f"job {event.text('job_id')} was found by the run id in its comment",
    ),
    "not-submitted": ("slurmkit", lambda event: f"not submitted: {event.text('reason')}"),
    "attempt-started": ("agent", _attempt_started),
    "step-started": ("agent", _step_started),
    "nodes-checked": ("agent", _nodes_checked),
    "nodes-ordered": ("agent", _nodes_ordered),
    "straggler": ("agent", _straggler),
    "straggler-gone": (
        "agent",
        lambda event: f"{sentences.place(event.fields.get('rank'), event.text('host'))} keeps up again",
    ),
    "hung": ("agent", lambda event: hang_in_words(hang_of(event))),
    "step-ended": ("agent", _step_ended),
    "checkpoint-chosen": ("agent", _checkpoint_chosen),
    "checkpoint-requested": ("agent", _checkpoint_requested),
    "checkpoint-complete": (
        "agent",
        lambda event: f"a complete checkpoint{_at_step(event)}: {event.text('checkpoint')}",
    ),
    "checkpoint-removed": (
        "agent",
        lambda event: f"an old checkpoint is removed: {event.text('checkpoint')}",
    ),
    "diagnosed": ("agent", _diagnosed),
    "decided": ("agent", _decided),
    "requeueing": ("agent", _requeueing),
    "requeued": ("agent", lambda event: f"job {event.text('job_id')} is requeued"),
    "attempt-ended": ("agent", _attempt_ended),
    "run-ended": ("agent", _run_ended),
    "cancel-requested": ("slurmkit", lambda event: f"cancelling of job {event.text('job_id')} requested"),
    "job-ended": ("slurmkit", _job_ended),
}


def _of_job(job: Job, receipts: Sequence[datetime]) -> Iterator[Moment]:
    """Slurm cuts off the fractions of its seconds: a start comes after the receipt, an end after all else."""
    if job.start_time and job.nodes:
        second = job.start_time + ALMOST_A_SECOND
        start = max([job.start_time, *(receipt for receipt in receipts if receipt <= second)])
        yield Moment(start, "Slurm", f"job {job.id} started on {','.join(job.nodes)}")
    if job.end_time and job.state.is_final:
        text = f"job {job.id} ended: {job.state.name}"
        if not job.state.is_success:
            text += f" ({ending.reason(job, None)})"
        yield Moment(job.end_time + ALMOST_A_SECOND, "Slurm", text)
