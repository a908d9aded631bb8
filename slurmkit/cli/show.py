"""`slurmkit show`: the story of one run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from slurmkit.cli.context import connect, find_run, run_argument, system_clock
from slurmkit.cli.output import Answer, cell, note, output
from slurmkit.cli.waiting import describe
from slurmkit.errors import SlurmError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from slurmkit.run.state import RunState
    from slurmkit.run.survey import Dossier
    from slurmkit.run.timeline import Moment
    from slurmkit.slurm.records import Job


@click.command()
@run_argument
@output
def command(run: str) -> Answer:
    """Tell the story of a run: its attempts, what failed first, where its logs are.

    --json gives what `status` gives, and: user, job_file, attempt_names, timeline (each with time, source,
    text), first_failure (rank, host, exit_code or signal, stderr_tail), logs (paths).
    """
    from slurmkit.cli.status import row
    from slurmkit.run.events import read
    from slurmkit.run.logs import attempts, batch_logs, files
    from slurmkit.run.survey import open_dossier, survey
    from slurmkit.run.timeline import timeline

    paths = find_run(run)
    clock = system_clock()
    state = survey([paths], connect, clock)[0]
    dossier = open_dossier(paths)
    moments = timeline(read(paths), _records(dossier))
    attempt = dossier.history.attempt
    failure = attempt.first_failure if attempt else None
    logs = dict.fromkeys(map(str, [*files(dossier, rank=None), *batch_logs(dossier)]))
    data: dict[str, Any] = {
        **row(paths, state, clock.now()),
        "job_file": dossier.record.job_file if dossier.record else None,
        "user": dossier.record.user if dossier.record else None,
        "timeline": [moment._asdict() for moment in moments],
        "attempt_names": attempts(dossier),
        "first_failure": failure,
        "logs": list(logs),
    }
    return Answer(data=data, text="\n".join(_text(data, state, moments, failure)))


def _records(dossier: Dossier) -> Sequence[Job]:
    """What accounting has of each attempt; without it, the run's own events must do."""
    if dossier.job_id is None or dossier.record is None:
        return ()
    try:
        return connect(dossier.cluster).accounting(
            [dossier.job_id], since=dossier.record.created, duplicates=True, steps=False
        )
    except SlurmError as error:
        note(f"{error.what}: only what slurmkit itself saw is shown")
        return ()


def _text(
    data: Mapping[str, Any], state: RunState, moments: Sequence[Moment], failure: Mapping[str, Any] | None
) -> Iterator[str]:
    yield f"{state.id}: {describe(state)}"
    for name in ("job_id", "nodes", "submitted", "started", "ended", "elapsed", "job_file", "directory"):
        if data[name]:
            yield f"  {name.replace('_', ' '):<10} {cell(data[name])}"
    yield ""
    previous: datetime | None = None
    for moment in moments:
        after = "" if previous is None else f"+{cell(moment.time - previous)}"
        yield f"{cell(moment.time)}  {after:>10}  {moment.source:<8}  {cell(moment.text)}"
        previous = moment.time
    if failure:
        yield ""
        yield f"rank {failure.get('rank')} on {failure.get('host')} failed first; the end of its stderr:"
        yield from (f"  {cell(line)}" for line in failure.get("stderr_tail") or ["(nothing)"])
    if data["logs"]:
        yield ""
        yield "logs:"
        yield from (f"  {path}" for path in data["logs"])
