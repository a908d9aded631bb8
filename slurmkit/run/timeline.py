"""The story of a run in order of time: its own events, and what accounting knows of each of its attempts."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.run import ending

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from slurmkit.run.events import Event
    from slurmkit.slurm.records import Job


ALMOST_A_SECOND = timedelta(microseconds=999_999)


class Moment(NamedTuple):
    """One thing that happened, who says so ("slurmkit", "agent" or "Slurm"), and what."""

    time: datetime
    source: str
    text: str


def timeline(told: Iterable[Event], jobs: Iterable[Job]) -> list[Moment]:
    """What happened, oldest first. `jobs` are the attempts as accounting has them, one record each."""
    told = list(told)
    receipts = [event.time for event in told if event.kind in {"submitted", "adopted"}]
    of_slurm = [moment for job in jobs for moment in _of_job(job, receipts)]
    # Slurm's own record of an end is there: the copy that was kept of it says nothing more.
    of_events = [_of_event(event) for event in told if event.kind != "job-ended" or not of_slurm]
    return sorted(of_events + of_slurm, key=lambda moment: moment.time)


def _of_event(event: Event) -> Moment:
    source, sentence = _SENTENCES.get(event.kind, ("slurmkit", _plain))
    return Moment(event.time, source, sentence(event))


def _plain(event: Event) -> str:
    fields = ", ".join(f"{name} {value}" for name, value in event.fields.items())
    return event.kind.replace("-", " ") + (f": {fields}" if fields else "")


def _ended(event: Event) -> str:
    code, signal = event.number("exit_code"), event.number("signal")
    return f"signal {signal}" if signal else f"exit code {code}"


def _step_ended(event: Event) -> str:
    failure = event.fields.get("first_failure")
    rank = f"; rank {failure.get('rank')} on {failure.get('host')} failed first" if failure else ""
    return f"the step ended with {_ended(event)}{rank}"


def _attempt_started(event: Event) -> str:
    nodes = ",".join(map(str, event.fields.get("nodes") or ()))
    return f"attempt {event.text('attempt')} started on {nodes or event.text('host')}"


def _step_started(event: Event) -> str:
    place = f"{event.text('master_addr')}:{event.text('master_port')}"
    return f"step {event.text('step')} started; the ranks meet at {place}"


def _job_ended(event: Event) -> str:
    reason = event.text("reason")
    return f"job {event.text('job_id')} is over: {event.text('state')}" + (f" ({reason})" if reason else "")


_SENTENCES: Mapping[str, tuple[str, Callable[[Event], str]]] = {
    "submitting": ("slurmkit", lambda _: "sbatch is called"),
    "submitted": ("slurmkit", lambda event: f"submitted as job {event.text('job_id')}"),
    "adopted": (
        "slurmkit",
        lambda event: f"job {event.text('job_id')} was found by the run id in its comment",
    ),
    "not-submitted": ("slurmkit", lambda event: f"not submitted: {event.text('reason')}"),
    "attempt-started": ("agent", _attempt_started),
    "step-started": ("agent", _step_started),
    "step-ended": ("agent", _step_ended),
    "attempt-ended": ("agent", lambda event: f"attempt {event.text('attempt')} ended with {_ended(event)}"),
    "run-ended": ("agent", lambda event: f"the run ended: {event.text('outcome') or _ended(event)}"),
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
