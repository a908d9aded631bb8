"""What runs cost, from their directories and accounting; of many runs, as a DataFrame."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any

from slurmkit.errors import MissingRequirement, SlurmError, SlurmkitError
from slurmkit.run import events, interval, progress
from slurmkit.run.cost import reckon
from slurmkit.run.course import Heard, courses
from slurmkit.run.survey import MARGIN, open_dossier, survey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    import pandas

    from slurmkit.run.cost import Cost, Reckoning
    from slurmkit.run.events import Event
    from slurmkit.run.handle import Run
    from slurmkit.run.paths import RunPaths
    from slurmkit.run.state import RunState
    from slurmkit.run.survey import Connect, Dossier
    from slurmkit.slurm.clock import Clock
    from slurmkit.slurm.ids import JobId
    from slurmkit.slurm.records import Job


def reckon_run(
    paths: RunPaths, told: Sequence[Event], jobs: Iterable[Job], state: RunState, now: datetime
) -> Reckoning:
    """What a run in `state` cost; `told` are its events, `jobs` its attempts as accounting has them."""
    names = {event.text("attempt") for event in told if event.kind == "attempt-started"}
    heard = {name: one for name in names if name and (one := _heard(paths, name))}
    return reckon(
        courses(told, jobs, state=state.state, now=now.timestamp(), heard=heard),
        functools.partial(_gpus, functools.cache(_gpu_counts), paths),
    )


def job_ids(told: Iterable[Event]) -> list[JobId]:
    """Every job that a run has had: each submit makes one."""
    from slurmkit.slurm.ids import JobId

    texts = dict.fromkeys(
        text for event in told if event.kind in {"submitted", "adopted"} and (text := event.text("job_id"))
    )
    found = []
    for text in texts:
        try:
            found.append(JobId.parse(text))
        except ValueError:
            continue
    return found


def _heard(paths: RunPaths, attempt: str) -> Heard | None:
    told = progress.read(paths.progress(attempt))
    if told is None:
        return None
    return Heard(
        updated=told.updated.timestamp(),
        step=told.step_start,
        computing_since=told.computing_since.timestamp() if told.computing_since else None,
        saving=told.saving,
    )


def _gpus(counts: Callable[[RunPaths], tuple[int | None, int | None]], paths: RunPaths, nodes: int) -> int:
    per_node, total = counts(paths)
    return (total or 0) if per_node is None else per_node * nodes


def _gpu_counts(paths: RunPaths) -> tuple[int | None, int | None]:
    """GPUs per node and in total, as the job file has them. Loaded only where accounting tells of none."""
    from slurmkit.spec import load_resolved
    from slurmkit.spec.gres import gpu_count

    try:
        count = gpu_count(load_resolved(paths.job_toml))
    except (SlurmkitError, OSError):
        return None, None
    return count.per_node, count.total


def figures(cost: Cost) -> dict[str, Any]:
    """A cost as nested mappings, for JSON: times in seconds, hours of the unit."""
    return {
        **cost._asdict(),
        "seconds": dict(cost.seconds),
        "hours_by_kind": dict(cost.hours_by_kind),
        "losses": {kind: loss._asdict() for kind, loss in cost.losses.items()},
        "restarts": cost.restarts._asdict(),
        "lost_hours": cost.lost_hours,
        "ettr": cost.ettr,
        "ettr_without_queue": cost.ettr_without_queue,
        "mtbf": cost.mtbf,
        "failures_per_node_day": cost.failures_per_node_day,
        "best_interval": interval.best_for(cost),
        "advice": interval.advice(cost),
    }


def cost_frame(
    runs: Iterable[str | os.PathLike[str] | RunPaths | Run] | None = None,
    *,
    connect: Connect | None = None,
    clock: Clock | None = None,
) -> pandas.DataFrame:
    """What runs cost, one row for each, with the figures of `slurmkit show`; without `runs`, of all runs.

    Times are seconds, hours those of `unit` ("GPU", or "node" where a run holds no GPUs). There is a
    `lost_hours_KIND` for each kind of interruption that occurs in any of the runs.

    Raises:
        MissingRequirement: pandas is not installed.
        RunNotFound: there is no run of that name.
    """
    try:
        import pandas
    except ImportError as error:
        raise MissingRequirement(
            "pandas is not installed", hint="pip install 'slurmkit-hpc[reports]'"
        ) from error
    from slurmkit.run.handle import usual_client
    from slurmkit.slurm.clock import SystemClock

    rows = list(_rows(_paths(runs), connect or usual_client, clock or SystemClock()))
    frame = pandas.DataFrame(rows).convert_dtypes()
    lost = [name for name in frame.columns if name.startswith("lost_hours_")]
    return frame.fillna(dict.fromkeys(lost, 0.0))


def _paths(runs: Iterable[str | os.PathLike[str] | RunPaths | Run] | None) -> list[RunPaths]:
    from slurmkit.run.handle import Run
    from slurmkit.run.index import all_runs, index_of

    if runs is None:
        return all_runs(index_of(os.environ))
    return [one.paths if isinstance(one, Run) else Run(one).paths for one in runs]


def _rows(runs: Sequence[RunPaths], connect: Connect, clock: Clock) -> Iterator[dict[str, Any]]:
    states = survey(runs, connect, clock)
    dossiers = [open_dossier(paths) for paths in runs]
    logs = [events.read(paths) for paths in runs]
    jobs = _accounted(dossiers, logs, connect)
    for dossier, told, state in zip(dossiers, logs, states, strict=True):
        own = [job for one in job_ids(told) for job in jobs.get((dossier.cluster, one.job), ())]
        cost = reckon_run(dossier.paths, told, own, state, clock.now()).cost
        yield _row(state, figures(cost))


def _accounted(
    dossiers: Sequence[Dossier], logs: Sequence[Sequence[Event]], connect: Connect
) -> Mapping[tuple[str | None, int], list[Job]]:
    """What accounting has of all attempts, by cluster and job number: one question for each cluster."""
    asking: dict[str | None, list[tuple[Dossier, list[JobId]]]] = {}
    for dossier, told in zip(dossiers, logs, strict=True):
        if dossier.record and (ids := job_ids(told)):
            asking.setdefault(dossier.cluster, []).append((dossier, ids))
    found: dict[tuple[str | None, int], list[Job]] = {}
    for cluster, group in asking.items():
        since = min(dossier.record.created for dossier, _ in group if dossier.record) - MARGIN
        ids = [one for _, each in group for one in each]
        try:
            known = connect(cluster).accounting(ids, since=since, duplicates=True, steps=False)
        except SlurmError:
            continue  # the runs' own events must do
        for job in known:
            found.setdefault((cluster, job.id.job), []).append(job)
    return found


def _row(state: RunState, told: Mapping[str, Any]) -> dict[str, Any]:
    nested = {"seconds", "hours_by_kind", "losses", "restarts", "advice"}
    return {
        "id": state.id,
        "name": state.name,
        "state": state.state,
        "job_id": state.job_id,
        "submitted": state.submitted,
        "started": state.started,
        "ended": state.ended,
        "attempts": state.attempts,
        **{name: value for name, value in told.items() if name not in nested},
        **told["seconds"],
        **{f"restarts_{way}": count for way, count in told["restarts"].items()},
        **{
            f"lost_hours_{kind.replace('-', '_')}": loss["lost_hours"] + loss["restart_hours"]
            for kind, loss in told["losses"].items()
        },
    }
