"""Submit a run again: the same run id and directory, from its own job file, once for each time it is asked.

A later submit is marked by a tag of its own, `<run id>+<number>`, in the job's comment and in the path of its
script. Killed at any moment, it leaves no job, or one that the next look finds by that tag.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from slurmkit.errors import AnswerLost, UsageError
from slurmkit.launch.files import write_atomically
from slurmkit.run import events, history, record
from slurmkit.run.identity import later_tag
from slurmkit.run.submit import LOGIN, render_submission, submit_noted, submitting_environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from slurmkit.run.paths import RunPaths
    from slurmkit.slurm.clock import Clock
    from slurmkit.slurm.protocol import Slurm
    from slurmkit.slurm.request import Submission, Submitted
    from slurmkit.spec.model import JobSpec

PATIENCE = 120.0
"""Seconds for which another process may hold the run's lock: it asks Slurm meanwhile."""

ONCE = ("begin", "hold")
"""Options that are about the first start; so is `dependency`, but for `singleton`."""

_NO_LOCKS = frozenset({errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK})


@contextmanager
def locked(paths: RunPaths, *, clock: Clock | None = None, patience: float = 0.0) -> Iterator[bool]:
    """Hold the run's lock; False where another process holds it, for longer than `patience` on `clock`.

    A file system without locks gives it to everybody: there the claim of a submit's folder has to do.

    Raises:
        UsageError: the run directory cannot be written.
    """
    try:
        descriptor = os.open(paths.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise UsageError(f"the run cannot be locked: {error.strerror}", where=str(paths.lock)) from error
    try:
        end = clock.monotonic() + patience if clock else 0.0
        while not (mine := _try_lock(descriptor)) and clock and clock.monotonic() < end:
            clock.sleep(0.5)
        yield mine
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return True


@contextmanager
def waiting_for_lock(paths: RunPaths, clock: Clock) -> Iterator[None]:
    """Hold the run's lock, which another process may have for a while.

    Raises:
        AnswerLost: it has it for longer, and may submit the run meanwhile.
        UsageError: the run directory cannot be written.
    """
    with locked(paths, clock=clock, patience=PATIENCE) as mine:
        if not mine:
            raise AnswerLost("another process is deciding about the run", where=str(paths.lock))
        yield


def resubmit(
    paths: RunPaths,
    *,
    slurm: Slurm,
    clock: Clock,
    by: str,
    instead_of: str | None,
    exclude: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    resume_from: str | None = None,
    is_new_spec: bool = False,
) -> Submitted:
    """Submit the run again in the place of its job `instead_of`. The caller holds the run's lock.

    `exclude` are nodes that must not be, besides the job file's own; `options` replace sbatch's for this
    submit and, `begin` and `hold` apart, the later ones (`mem`, with underscores), those of earlier ones
    being forgotten with `is_new_spec`. Where another process has submitted the run in the meantime, that
    job's receipt comes back: whoever asks twice gets one job.

    Raises:
        Refused: Slurm said no.
        Unreachable: the request did not arrive.
        AnswerLost: an earlier submit, or this one, may have made a job.
        UsageError: a user has cancelled the run; it is an array; its directory or job file is unusable.
        JobFileError: the run's job file cannot be read.
    """
    told = settle_lost(paths, slurm, clock)
    if told.job_id != instead_of and told.job_id is not None:
        return _receipt_of(told)
    if told.cancel_requested and by != history.USER:
        raise UsageError("a user has cancelled the run", hint=f"slurmkit resume {paths.run_id}")
    made = _record_of(paths)
    kept = {} if is_new_spec else {name: text for name, text in told.options.items() if name not in ONCE}
    changed = kept | dict(options or {})
    spec = later_spec(_load(paths), told, exclude=exclude, options=changed)
    number, submission = _written(paths, spec, made, told.submits + 1)
    fields = {
        "number": number,
        "by": by,
        "exclude": list(exclude) or None,
        "options": changed or None,
        "resume_from": resume_from,
    }
    known = {name: value for name, value in fields.items() if value is not None}
    submitted = submit_noted(paths, submission, slurm=slurm, clock=clock, **known)
    if history.fold(events.read(paths)).cancel_requested:
        # Asked for while sbatch was at work: the one who asked knew only of the job before.
        slurm.cancel([submitted.id])
    return submitted


def _record_of(paths: RunPaths) -> record.RunRecord:
    """What the run is, where it may be submitted again."""
    made = record.load(paths)
    if made is None:
        raise UsageError("the run has no record, or a damaged one", where=str(paths.run_json))
    if made.array is not None:
        raise UsageError(
            "tasks of an array are requeued, never submitted again",
            hint="submit the tasks that failed as a new run: --set resources.array=3,7",
        )
    return made


def _written(paths: RunPaths, spec: JobSpec, made: record.RunRecord, number: int) -> tuple[int, Submission]:
    """The script of a later submit, in a folder of its own under the first free number from `number` on."""
    while True:
        tag = later_tag(paths.run_id, number)
        rendered, submission = render_submission(
            spec, made, paths, tag=tag, environment=_environment(paths, spec, made)
        )
        if _claim(paths, tag):
            write_atomically(submission.script, rendered.text.encode("utf-8", "surrogateescape"))
            return number, submission
        number += 1  # a submit that was killed before it wrote down its intent


def settle_lost(paths: RunPaths, slurm: Slurm, clock: Clock) -> history.History:
    """The history once it is known what became of a submit whose receipt is missing.

    Raises:
        AnswerLost: that cannot be known yet.
    """
    told = history.fold(events.read(paths))
    if not told.is_submitting:
        return told
    from slurmkit.run.survey import survey

    (state,) = survey([paths], lambda _: slurm, clock)
    told = history.fold(events.read(paths))
    if told.is_submitting:
        raise AnswerLost(
            f"an earlier submit of the run may have made a job: {state.reason}",
            hint=f"slurmkit status {paths.run_id} until it has one, or is given up",
        )
    return told


def later_spec(
    spec: JobSpec, told: history.History, *, exclude: Sequence[str] = (), options: Mapping[str, str]
) -> JobSpec:
    """The job of a later submit: what was about the first start only is left out.

    Raises:
        UsageError: the job file's `exclude` names a file that cannot be read.
    """
    from msgspec.structs import replace

    resources = dict(spec.resources)
    if told.attempts:
        for name in ONCE:
            resources.pop(name, None)
        if "singleton" not in str(resources.get("dependency", "singleton")).lower():
            del resources["dependency"]
        elif "dependency" in resources:
            resources["dependency"] = "singleton"
    if exclude:
        resources["exclude"] = _excluded(resources.get("exclude"), exclude)
    return replace(spec, resources=resources | dict(options))


def _excluded(own: object, more: Sequence[str]) -> str:
    """The job file's own nodes to exclude, and further ones."""
    from slurmkit.slurm.hostlist import expand_set, fold

    text = "" if own is None else str(own)
    if "/" in text:
        # sbatch takes a name with a slash as that of a file.
        try:
            with open(text, encoding="utf-8") as file:  # noqa: PTH123
                text = ",".join(file.read().replace(",", " ").split())
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"the list of nodes to exclude cannot be read: {error}", where=text) from error
    try:
        return fold({*expand_set(text), *more})
    except ValueError as error:
        raise UsageError(f"`exclude` is no list of nodes: {error}", where=text) from error


def _environment(paths: RunPaths, spec: JobSpec, made: record.RunRecord) -> Mapping[str, str]:
    """The variables of a later submit: those of the first, as far as they are known here."""
    if made.remote is not None and "SLURM_JOB_ID" not in os.environ:
        return LOGIN
    return kept_environment(paths, spec)


def kept_environment(paths: RunPaths, spec: JobSpec) -> dict[str, str]:
    """The variables of the shell that made the run; of this process where they were not kept."""
    try:
        kept = json.loads(paths.environment.read_bytes())
    except (OSError, ValueError):
        return submitting_environment(spec, os.environ)[0]
    return {str(name): str(value) for name, value in kept.items()}


def _claim(paths: RunPaths, tag: str) -> bool:
    """Make the folder of a submit; False where there is one."""
    folder = paths.script(tag).parent
    try:
        folder.parent.mkdir(exist_ok=True)
        folder.mkdir()
    except FileExistsError:
        return False
    except OSError as error:
        raise UsageError(
            f"the run directory cannot be written: {error.strerror}", where=str(folder)
        ) from error
    return True


def _load(paths: RunPaths) -> JobSpec:
    from slurmkit.spec import load_resolved

    return load_resolved(paths.job_toml)


def _receipt_of(told: history.History) -> Submitted:
    """The receipt of the job that the run has."""
    from slurmkit.slurm.ids import JobId
    from slurmkit.slurm.request import Submitted

    return Submitted(JobId.parse(told.job_id or ""), told.cluster, "the run was submitted again already")
