"""Submit: the run directory and the intent first, sbatch once, then the receipt.

Killed at any moment, it leaves either no job, or a job whose run is linked, with the intent on disk and the
run id in the job's comment: `slurmkit.run.survey` finds it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from slurmkit import __version__
from slurmkit.errors import AnswerLost, MissingRequirement, Refused, Unreachable, UsageError
from slurmkit.launch.files import write_atomically
from slurmkit.run import events, index, record
from slurmkit.run.identity import new_run_id
from slurmkit.run.paths import RunPaths
from slurmkit.slurm.request import Submission

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slurmkit.script import Rendered
    from slurmkit.slurm.clock import Clock
    from slurmkit.slurm.protocol import Slurm
    from slurmkit.slurm.request import Submitted
    from slurmkit.spec import Loaded
    from slurmkit.spec.model import JobSpec

MANAGED = "managed"
PLAIN = "plain"
"""Of the templates, the one that needs nothing of slurmkit on the nodes."""
TRIES = 5
"""For a run id that is not taken; one in 16 million is."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a submit happens: the directory under which runs are made, the variables, the known runs."""

    directory: Path
    environ: Mapping[str, str]
    runs: index.Index
    clock: Clock


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """All that a submit will write and ask for; nothing has happened yet."""

    paths: RunPaths
    record: record.RunRecord
    spec: JobSpec
    rendered: Rendered
    submission: Submission
    stripped: tuple[str, ...]
    """Variables of the submitting shell that the job does not get."""


class Receipt(msgspec.Struct, frozen=True):
    """A run that Slurm took, and what there is to say about it."""

    prepared: Prepared
    submitted: Submitted
    notes: tuple[str, ...]


def prepare(loaded: Loaded, place: Place, *, template: str = MANAGED) -> Prepared:
    """Everything decided, nothing touched: what `--dry-run` shows.

    Raises:
        RunNotFound: a dependency names a run that does not exist.
        UsageError: a dependency names a run that has no job.
    """
    from slurmkit.launch.environment import as_started
    from slurmkit.script import render
    from slurmkit.slurm.environment import strip

    now = place.clock.now()
    spec = _with_job_ids(loaded.spec, place.runs)
    root = Path(os.path.abspath(place.directory / spec.run.directory / new_run_id(spec.name, now)))  # noqa: PTH100
    paths = RunPaths(root)
    rendered = render(
        spec, run_directory=root, run_id=paths.run_id, template=template, directory=loaded.directory
    )
    environment, stripped = strip(as_started(place.environ), keep=spec.environment.keep)
    made = record.RunRecord(
        id=paths.run_id,
        name=spec.name,
        created=now,
        user=_user(),
        host=os.uname().nodename,
        directory=str(loaded.directory),
        job_file=str(loaded.path.absolute()),
        template=template,
        array=_text(spec, "array"),
        clusters=_text(spec, "clusters"),
        output=_text(spec, "output"),
        version=__version__,
    )
    submission = Submission(
        script=paths.job_sbatch,
        tag=made.id,
        directory=loaded.directory,
        arguments=rendered.arguments,
        environment={**environment, **rendered.environment},
        cluster=made.clusters,
    )
    return Prepared(
        paths=paths, record=made, spec=spec, rendered=rendered, submission=submission, stripped=stripped
    )


def submit(loaded: Loaded, place: Place, *, slurm: Slurm, template: str = MANAGED) -> Receipt:
    """Make the run and have Slurm take it, once.

    Raises:
        Refused: Slurm said no; the run stays, as `not-submitted`, with Slurm's reason.
        Unreachable: the request did not arrive; the run stays likewise.
        MissingRequirement: there is no sbatch, or no slurm.conf; the run stays likewise.
        AnswerLost: the job may be in the queue; `slurmkit status` will find it.
        UsageError: the run directory cannot be written.
    """
    from slurmkit.slurm.submission import submit_once

    prepared, notes = _make_run(loaded, place, template)
    paths, clock = prepared.paths, place.clock
    events.append(paths, "submitting", at=clock.now())
    try:
        submitted = submit_once(slurm, prepared.submission, clock=clock, since=prepared.record.created)
    except (MissingRequirement, Refused, Unreachable) as error:
        events.append(paths, "not-submitted", at=clock.now(), reason=error.what)
        raise
    except AnswerLost as error:
        hint = f"`slurmkit status {paths.run_id}` goes on looking for the job; do not submit again before"
        raise AnswerLost(error.what, where=error.where, hint=hint) from error
    events.append(paths, "submitted", at=clock.now(), job_id=str(submitted.id), cluster=submitted.cluster)
    return Receipt(prepared, submitted, (*notes, *filter(None, [submitted.message])))


def _make_run(loaded: Loaded, place: Place, template: str) -> tuple[Prepared, tuple[str, ...]]:
    for _ in range(TRIES):
        prepared = prepare(loaded, place, template=template)
        try:
            return prepared, _create(prepared, place.runs)
        except OSError as error:
            if isinstance(error, FileExistsError) and error.filename == str(prepared.paths.root):
                continue
            raise UsageError(
                f"the run directory cannot be written: {error.strerror}",
                where=str(error.filename or prepared.paths.root),
                hint="submit from a directory that you can write, or set `directory` under [run]",
            ) from error
    raise UsageError(f"no free run id after {TRIES} tries", where=str(prepared.paths.root.parent))


def _create(prepared: Prepared, runs: index.Index) -> tuple[str, ...]:
    """Write the run directory; what went wrong without standing in the way comes back as notes."""
    from slurmkit.spec import resolved_toml

    paths = prepared.paths
    paths.root.parent.mkdir(parents=True, exist_ok=True)
    paths.root.mkdir()
    paths.all_logs.mkdir()
    for folder in _log_folders(prepared):
        folder.mkdir(parents=True, exist_ok=True)
    # What is secret stands in no script; a resume needs it all the same.
    mode = 0o600 if prepared.rendered.environment else 0o666
    write_atomically(paths.job_toml, resolved_toml(prepared.spec).encode("utf-8", "surrogateescape"), mode)
    write_atomically(paths.job_sbatch, prepared.rendered.text.encode("utf-8", "surrogateescape"))
    if prepared.record.template != PLAIN:
        from slurmkit.launch import archive

        archive.build(paths.launch_archive)
    record.save(paths, prepared.record)
    try:
        index.register(runs, paths)
    except OSError as error:
        return (
            f"the run is not in the list of runs ({error.strerror}: {error.filename}); name it by its path",
        )
    return ()


def _log_folders(prepared: Prepared) -> list[Path]:
    """The folders of logs that the job file names: sbatch makes none, and the job dies without a word."""
    from slurmkit.spec.patterns import expand

    spec = prepared.spec
    start = prepared.submission.directory / (_text(spec, "chdir") or "")
    values = {"u": prepared.record.user, "x": spec.name}
    patterns = [pattern for name in ("output", "error") if (pattern := _text(spec, name))]
    return [(start / expand(pattern, values)).parent for pattern in patterns]


def _with_job_ids(spec: JobSpec, runs: index.Index) -> JobSpec:
    """The job file with job ids in the place of the runs that it depends on."""
    text = _text(spec, "dependency")
    if text is None:
        return spec
    from msgspec.structs import replace

    from slurmkit.run import history
    from slurmkit.spec.dependencies import parse_dependency

    def job_of(name: str) -> str:
        paths = index.resolve(name, runs)
        job_id = history.fold(events.read(paths)).job_id
        if job_id is None:
            raise UsageError(f"run {paths.run_id} has no job to depend on", hint=f"slurmkit show {name}")
        return job_id

    resolved = str(parse_dependency(text).resolved(job_of))
    return replace(spec, resources={**spec.resources, "dependency": resolved})


def _text(spec: JobSpec, option: str) -> str | None:
    value = spec.resources.get(option)
    return None if value is None else str(value)


def _user() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
