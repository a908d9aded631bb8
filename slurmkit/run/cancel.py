"""Cancelling the jobs of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmkit.errors import UsageError
from slurmkit.run import events
from slurmkit.run.survey import open_dossier, survey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slurmkit.run.paths import RunPaths
    from slurmkit.run.state import RunState
    from slurmkit.run.survey import Connect, Dossier
    from slurmkit.slurm.clock import Clock
    from slurmkit.slurm.ids import JobId


def cancel(runs: Sequence[RunPaths], connect: Connect, clock: Clock) -> list[tuple[RunState, bool]]:
    """Ask Slurm to cancel the jobs of runs; each run's state before, and whether there was a job to cancel.

    Raises:
        UsageError: a run has no job so far; nothing has been cancelled.
        SlurmError: Slurm did not do it.
    """
    answers = []
    jobs: list[tuple[Dossier, JobId]] = []
    for paths, state in zip(runs, survey(runs, connect, clock), strict=True):
        # A blocked job is an end for those who wait, and still in the queue.
        goes_on = not state.is_end or state.state == "blocked"
        answers.append((state, goes_on or state.state == "interrupted"))
        if goes_on:
            jobs.append(_job_of(paths, state))
    for (state, _), paths in zip(answers, runs, strict=True):
        if state.state == "interrupted":
            events.append(paths, "cancel-requested", at=clock.now(), job_id=state.job_id)
    for dossier, job_id in jobs:
        events.append(dossier.paths, "cancel-requested", at=clock.now(), job_id=str(job_id))
    _cancel(jobs, connect)
    # A run may have been submitted again since; from now on nobody does.
    later = [(now, now.job_id) for one, _ in jobs if (now := open_dossier(one.paths)).job_id != one.job_id]
    _cancel([(dossier, job_id) for dossier, job_id in later if job_id is not None], connect)
    return answers


def _cancel(jobs: Sequence[tuple[Dossier, JobId]], connect: Connect) -> None:
    by_cluster: dict[str | None, list[JobId]] = {}
    for dossier, job_id in jobs:
        by_cluster.setdefault(dossier.cluster, []).append(job_id)
    for cluster, ids in by_cluster.items():
        connect(cluster).cancel(ids)


def _job_of(paths: RunPaths, state: RunState) -> tuple[Dossier, JobId]:
    dossier = open_dossier(paths)
    if dossier.job_id is None:
        raise UsageError(
            f"run {paths.run_id} has no job so far: {state.reason}",
            hint=f"slurmkit status {paths.run_id} until it has one, or is given up",
        )
    return dossier, dossier.job_id
