"""Deleting runs that are long over: only what slurmkit itself wrote."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from slurmkit.run import index

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from slurmkit.run.paths import RunPaths
    from slurmkit.run.state import RunState


def prunable(
    runs: Sequence[RunPaths], states: Sequence[RunState], before: datetime
) -> list[tuple[RunPaths, RunState]]:
    """The runs that ended before a moment. A blocked run has not: its job is still in the queue."""
    return [
        (paths, state)
        for paths, state in zip(runs, states, strict=True)
        if state.is_end and state.state != "blocked" and (last := _last(state)) and last < before
    ]


def prune(runs: index.Index, paths: RunPaths) -> bool:
    """Delete a run's files and its link. False where the directory stays, for it holds files of others."""
    for folder in (paths.all_logs, paths.all_exits, paths.submits):
        shutil.rmtree(folder, ignore_errors=True)
    own = (paths.job_toml, paths.job_sbatch, paths.launch_archive, paths.environment, paths.lock)
    for file in (*own, *paths.old_job_tomls(), paths.events):
        file.unlink(missing_ok=True)
    # Last: without it the directory is no run any more.
    paths.run_json.unlink(missing_ok=True)
    index.forget(runs, paths.run_id)
    if any(paths.root.iterdir()):
        return False
    paths.root.rmdir()
    return True


def _last(state: RunState) -> datetime | None:
    return max(filter(None, (state.submitted, state.started, state.ended)), default=None)
