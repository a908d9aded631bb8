"""`slurmkit show`: the story of one run."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

import click

from slurmkit.cli.context import connect, find_run, run_argument, system_clock
from slurmkit.cli.failure import failure_lines
from slurmkit.cli.output import Answer, cell, note, output
from slurmkit.cli.waiting import describe
from slurmkit.errors import SlurmError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from slurmkit.run.cost import Reckoning
    from slurmkit.run.events import Event
    from slurmkit.run.progress import Progress
    from slurmkit.run.state import RunState
    from slurmkit.run.survey import Dossier
    from slurmkit.run.timeline import Moment
    from slurmkit.slurm.records import Job

WIDTH_IN_A_PIPE = 100


@click.command()
@run_argument
@output
def command(run: str) -> Answer:
    """Tell the story of a run: its attempts, what failed first, where its logs are.

    --json gives what `status` gives, and: user, job_file, attempt_names, timeline (each with time, source,
    text), first_failure (rank, host, exit_code or signal, at, cause with kind, sentence and advice,
    stderr_tail or log_tail, oom_killed), ranks_failed (after it), notices (sentences on unfit nodes, a hang,
    stragglers), stacks (the folder with those of a hang), progress (what progress.json holds, or null), logs
    (paths), cost (wall, seconds and hours_by_kind by kind of span, ettr, ettr_without_queue, unit, hours,
    lost_hours, losses by cause, restarts, failures, mtbf, interval, best_interval, advice), spans (kind,
    begin, end, attempt, nodes, gpus, why), interruptions (at, attempt, step, kind, sentence, action, reason),
    checkpoints (of each start: time, attempt, step, checkpoint, at_step, layout, refused).
    """
    from slurmkit.cli.status import row
    from slurmkit.run.events import read
    from slurmkit.run.findings import findings
    from slurmkit.run.logs import attempts, batch_logs, files
    from slurmkit.run.progress import as_fields, read_current
    from slurmkit.run.reckoning import reckon_run
    from slurmkit.run.survey import open_dossier, survey
    from slurmkit.run.timeline import timeline

    paths = find_run(run)
    clock = system_clock()
    state = survey([paths], connect, clock)[0]
    dossier = open_dossier(paths)
    told = read(paths)
    jobs = _records(dossier, told)
    moments = timeline(told, jobs)
    found = findings(told, state.attempt)
    progress = read_current(paths, state, now := clock.now())
    reckoning = reckon_run(paths, told, jobs, state, now)
    logs = dict.fromkeys(map(str, [*files(dossier, rank=None), *batch_logs(dossier)]))
    data: dict[str, Any] = {
        **row(paths, state, now),
        "job_file": dossier.record.job_file if dossier.record else None,
        "user": dossier.record.user if dossier.record else None,
        "timeline": [moment._asdict() for moment in moments],
        "attempt_names": attempts(dossier),
        "first_failure": found.first_failure,
        "ranks_failed": found.ranks_failed,
        "notices": list(found.sentences()),
        "stacks": found.hang.stacks if found.hang else None,
        "progress": as_fields(progress) if progress else None,
        "logs": list(logs),
        **_cost(reckoning, told),
    }
    paragraphs = [
        _head(data, state),
        _story(moments),
        *_bill(reckoning, told),
        # A program that tells nothing of its progress is a program like any other.
        progress_lines(progress, now) if progress and progress.ranks_heard else (),
        failure_lines(paths, state.attempt, found),
        ["logs:", *(f"  {path}" for path in logs)] if logs else (),
    ]
    texts = ("\n".join(lines) for lines in paragraphs)
    return Answer(data=data, text="\n\n".join(text for text in texts if text))


def _records(dossier: Dossier, told: Sequence[Event]) -> Sequence[Job]:
    """What accounting has of each attempt, of every submit; without it, the run's own events must do."""
    from slurmkit.run.reckoning import job_ids

    ids = job_ids(told) or ([dossier.job_id] if dossier.job_id else [])
    if not ids or dossier.record is None:
        return ()
    try:
        return connect(dossier.cluster).accounting(
            ids, since=dossier.record.created, duplicates=True, steps=False
        )
    except (SlurmError, UsageError) as error:
        note(f"{error.what}: only what slurmkit itself saw is shown")
        return ()


def _cost(reckoning: Reckoning, told: Sequence[Event]) -> dict[str, Any]:
    """What `--json` has on the cost."""
    from slurmkit.run.reckoning import figures

    return {
        "cost": figures(reckoning.cost),
        "spans": [
            {**span._asdict(), "begin": _time(span.begin), "end": _time(span.end)}
            for course in reckoning.spans
            for span in course
        ],
        "interruptions": [{**one._asdict(), "at": _time(one.at)} for one in reckoning.interruptions],
        "checkpoints": [
            {"time": event.time, **event.fields} for event in told if event.kind == "checkpoint-chosen"
        ],
    }


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _bill(reckoning: Reckoning, told: Sequence[Event]) -> Iterator[list[str]]:
    from slurmkit.cli.bill import bill, styled

    width = get_terminal_size().columns if sys.stdout.isatty() else WIDTH_IN_A_PIPE
    yield from ([styled(line) for line in lines] for lines in bill(reckoning, told, width))


def _head(data: Mapping[str, Any], state: RunState) -> Iterator[str]:
    yield f"{state.id}: {describe(state)}"
    for name in ("job_id", "nodes", "submitted", "started", "ended", "elapsed", "job_file", "directory"):
        if data[name]:
            yield f"  {name.replace('_', ' '):<10} {cell(data[name])}"


def _story(moments: Sequence[Moment]) -> Iterator[str]:
    previous: datetime | None = None
    for moment, count in _folded(moments):
        after = "" if previous is None else f"+{cell(moment.time - previous)}"
        more = f" (and {count} more before it)" if count else ""
        yield f"{cell(moment.time)}  {after:>10}  {moment.source:<10}  {cell(moment.text)}{more}"
        previous = moment.time


def _folded(moments: Sequence[Moment]) -> Iterator[tuple[Moment, int]]:
    """Of checkpoints in a row only the last, and how many there were before it; of `keep` at work nothing."""
    from itertools import groupby

    kept = (moment for moment in moments if moment.kind != "checkpoint-removed")
    for (kind, _), group in groupby(kept, key=lambda moment: (moment.kind, moment.source)):
        same = list(group)
        if kind == "checkpoint-complete":
            yield same[-1], len(same) - 1
        else:
            yield from ((moment, 0) for moment in same)


def progress_lines(progress: Progress, now: datetime) -> Iterator[str]:
    """How far the run is, what its time goes into, its metrics, its last checkpoint; as much as is known."""
    from slurmkit.run import sentences

    yield f"progress: {sentences.how_far(progress) or 'no step has been told of yet'}"
    if phases := sentences.shares(progress.phases):
        parts = ", ".join(f"{cell(name)} {share * 100:.0f} %" for name, share in phases)
        yield f"  {'time':<10} {parts}"
    if progress.metrics:
        parts = ", ".join(
            f"{cell(name)} {sentences.number(value)}" for name, value in progress.metrics.items()
        )
        yield f"  {'metrics':<10} {parts}"
    if progress.last_checkpoint:
        yield f"  {'saved':<10} {sentences.saved(progress.last_checkpoint, now)}"
    if progress.world_size is not None and progress.ranks_heard < progress.world_size:
        yield f"  {'heard':<10} {progress.ranks_heard} of {progress.world_size} ranks"
    yield f"  {'updated':<10} {sentences.ago(now - progress.updated)}"
