"""Resume a run by hand, where asked from another checkpoint or with another job file."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.errors import JobFailed, Unreachable, UsageError
from slurmkit.launch.files import write_atomically
from slurmkit.run import history, record
from slurmkit.run.resubmit import locked, resubmit, settle_lost
from slurmkit.run.submit import recovers
from slurmkit.run.survey import ask, open_dossier, settle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slurmkit.run.paths import RunPaths
    from slurmkit.run.survey import Dossier
    from slurmkit.slurm.clock import Clock
    from slurmkit.slurm.ids import JobId
    from slurmkit.slurm.protocol import Slurm
    from slurmkit.slurm.records import Job
    from slurmkit.slurm.request import Submitted
    from slurmkit.spec.model import JobSpec


ENDS_WITHIN, LOOK = 60.0, 1.0
"""Seconds that a job which is being ended is waited for: twice the usual KillWait, looked at so often."""


class Resumed(NamedTuple):
    """The new job, and the checkpoint that was asked for."""

    submitted: Submitted
    resume_from: Path | None


def resume(
    paths: RunPaths,
    *,
    slurm: Slurm,
    clock: Clock,
    wanted: str | None = None,
    overrides: Sequence[str] = (),
) -> Resumed:
    """Submit a run again because a user says so; `wanted` is a step, or the path of a checkpoint.

    Raises:
        UsageError: a job of the run is alive, or it has completed, or there is no such checkpoint.
        JobFailed: the checkpoint is not complete.
        Unreachable: Slurm does not tell whether a job of the run is alive.
        JobFileError: the overrides make no sound job.
        SlurmError: as in `resubmit`.
    """
    with locked(paths) as mine:
        if not mine:
            raise UsageError("another process is deciding about the run", where=str(paths.lock))
        settle_lost(paths, slurm, clock)
        dossier = _without_job(paths, slurm, clock, has_checkpoint=wanted is not None)
        spec = _changed(paths, overrides)
        checkpoint = None if wanted is None else _checkpoint(dossier, spec, wanted)
        if overrides:
            _replace_job_file(dossier, spec)
        made = resubmit(
            paths,
            slurm=slurm,
            clock=clock,
            by=history.USER,
            instead_of=dossier.history.job_id,
            resume_from=None if checkpoint is None else str(checkpoint),
            is_new_spec=bool(overrides),
        )
    return Resumed(made, checkpoint)


def _without_job(paths: RunPaths, slurm: Slurm, clock: Clock, *, has_checkpoint: bool) -> Dossier:
    """The run, once it is sure that none of its jobs is alive."""
    before = open_dossier(paths)
    sight = ask([before], lambda _: slurm, clock.now()).get(paths.run_id)
    (state,) = settle([before], {paths.run_id: sight} if sight else {}, clock.now())
    job_id = before.job_id
    if job_id is not None:
        # What is known of an end may be older than an administrator's requeue.
        alive = _alive(slurm, job_id, clock)
        if alive:
            raise UsageError(
                f"job {alive[0].id} of the run is alive: {alive[0].state}", hint=f"slurmkit cancel {state.id}"
            )
    if not state.is_end:
        raise Unreachable(f"it is not known whether a job of the run is alive: {state.reason}")
    if state.is_success and not has_checkpoint:
        raise UsageError("the run has completed", hint="--from STEP|PATH starts it again from a checkpoint")
    return open_dossier(paths)


def _alive(slurm: Slurm, job_id: JobId, clock: Clock) -> list[Job]:
    """The run's jobs that have not ended; one that is being ended is given the time for it."""
    give_up = clock.monotonic() + ENDS_WITHIN
    while True:
        alive = [job for job in slurm.jobs([job_id]) if not job.state.is_final]
        is_ending = bool(alive) and all("COMPLETING" in (job.state.name, *job.state.flags) for job in alive)
        if not is_ending or clock.monotonic() >= give_up:
            return alive
        clock.sleep(LOOK)


def _changed(paths: RunPaths, overrides: Sequence[str]) -> JobSpec:
    from slurmkit.spec import load

    return load(paths.job_toml, overrides, site=None, user=None).spec


def _checkpoint(dossier: Dossier, spec: JobSpec, wanted: str) -> Path:
    """The complete checkpoint of that step, or at that path."""
    from slurmkit.checkpoint.choice import survey, verify

    section = spec.checkpoint
    if section is None:
        raise UsageError("the run's job file has no [checkpoint]", hint="--set checkpoint.path=...")
    if wanted.isdigit() and not Path(wanted).exists():
        start = record.start_directory(dossier.paths, dossier.record) if dossier.record else Path()
        root = start / section.path
        step = int(wanted)
        found = [one for one in survey(root, section.layout, kept=dossier.paths.verdicts) if one.step == step]
        if not found:
            raise UsageError(f"there is no checkpoint of step {step}", where=str(root))
        best = next((one for one in found if one.verdict.state == "complete"), found[0])
        path, verdict = best.path, best.verdict
    else:
        path = Path(wanted).absolute()
        verdict = verify(path, section.layout)
    if verdict.state != "complete":
        raise JobFailed(f"the checkpoint is {verdict.state}: {verdict.reason}", where=str(path))
    return path


def _replace_job_file(dossier: Dossier, spec: JobSpec) -> None:
    """Write the changed job file; the one before stays beside it."""
    from slurmkit.spec import resolved_toml

    paths, made = dossier.paths, dossier.record
    old = paths.old_job_toml(max(dossier.history.submits, 1))
    if not old.exists():
        shutil.copy2(paths.job_toml, old)
    mode = paths.job_toml.stat().st_mode & 0o777
    if spec.environment.variables:
        mode &= 0o600  # what --set adds may be secret
    write_atomically(paths.job_toml, resolved_toml(spec).encode("utf-8", "surrogateescape"), mode)
    if made is None:
        return
    changed = made._replace(
        name=spec.name,
        recovers=recovers(spec, made.template),
        array=_text(spec, "array"),
        clusters=_text(spec, "clusters"),
        output=_text(spec, "output"),
    )
    record.save(paths, changed)


def _text(spec: JobSpec, option: str) -> str | None:
    value = spec.resources.get(option)
    return None if value is None else str(value)
