"""Submit: the run directory and the intent first, sbatch once, then the receipt.

Killed at any moment, it leaves either no job, or a job whose run is linked, with the intent on disk and the
run id in the job's comment: `slurmkit.run.survey` finds it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

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
    from slurmkit.spec.clusters import Cluster
    from slurmkit.spec.model import JobSpec

MANAGED = "managed"
PLAIN = "plain"
"""Of the templates, the one that needs nothing of slurmkit on the nodes."""
LOGIN: Final = MappingProxyType({"SLURM_GET_USER_ENV": "1"})
"""The variables of a job that is submitted from elsewhere: those of the user's login there."""

TRIES = 5
"""For a run id that is not taken; one in 16 million is."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a submit happens: the directory under which runs are made, the variables, the known runs."""

    directory: Path
    environ: Mapping[str, str]
    runs: index.Index
    clock: Clock
    remote: Cluster | None = None
    """The cluster elsewhere that gets the job; the variables of this machine are not for it."""


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
        UsageError: a dependency names a run that has no job, or there is no such layout of checkpoints.
    """
    from slurmkit.script.preparation import path_from

    _check_layout(loaded.spec)
    now = place.clock.now()
    spec = _with_job_ids(loaded.spec, place.runs)
    root = Path(os.path.abspath(place.directory / spec.run.directory / new_run_id(spec.name, now)))  # noqa: PTH100
    paths = RunPaths(root)
    made = record.RunRecord(
        id=paths.run_id,
        name=spec.name,
        created=now,
        user=(place.remote and place.remote.user) or _user(),
        host=os.uname().nodename,
        directory=str(_there(place, loaded.directory)),
        job_file=str(loaded.path.absolute()),
        # A later submit may come from another directory.
        template=template if template in {MANAGED, PLAIN} else str(path_from(Path.cwd(), template)),
        array=_text(spec, "array"),
        clusters=_text(spec, "clusters"),
        output=_text(spec, "output"),
        python=_python(place, template),
        recovers=recovers(spec, template),
        version=__version__,
        remote=place.remote.name if place.remote else None,
        seen_as=str(place.remote.there(root)) if place.remote else None,
    )
    environment, stripped = (LOGIN, ()) if place.remote else submitting_environment(spec, place.environ)
    rendered, submission = render_submission(spec, made, paths, tag=made.id, environment=environment)
    return Prepared(
        paths=paths, record=made, spec=spec, rendered=rendered, submission=submission, stripped=stripped
    )


def _there(place: Place, path: Path) -> Path:
    """What a path here is called where the job runs."""
    return place.remote.there(path) if place.remote else path


def _python(place: Place, template: str) -> str:
    """The Python that the agent runs in."""
    if place.remote is None:
        return sys.executable
    if place.remote.python is None and template == MANAGED:
        raise UsageError(
            f"cluster {place.remote.name!r}: which Python there has slurmkit is not known",
            hint=f"set python under [clusters.{place.remote.name}], or submit with --template plain",
        )
    return place.remote.python or "python3"


def recovers(spec: JobSpec, template: str) -> bool:
    """Whether a run of this job goes on after its job has ended."""
    return template != PLAIN and (spec.checkpoint is not None or spec.retry is not None)


def submitting_environment(
    spec: JobSpec, environ: Mapping[str, str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The variables of a shell that a job submitted from it gets, and the names of those that it does not."""
    from slurmkit.launch.environment import as_started
    from slurmkit.slurm.environment import TOKEN, strip

    # A token is for the call to Slurm; what keeps a run's variables must not keep it.
    environ = {name: value for name, value in environ.items() if name != TOKEN}
    return strip(as_started(environ), keep=spec.environment.keep)


def render_submission(
    spec: JobSpec,
    made: record.RunRecord,
    paths: RunPaths,
    *,
    tag: str,
    environment: Mapping[str, str],
) -> tuple[Rendered, Submission]:
    """The script of one submit of a run, and how it is handed to Slurm; nothing is written.

    Raises:
        UsageError: the job cannot be written as a script, or the user's template fails.
    """
    from slurmkit.script import render

    directory = Path(made.directory)
    rendered = render(
        spec,
        run_directory=Path(made.seen_as) if made.seen_as else paths.root,
        run_id=paths.run_id,
        tag=tag,
        python=made.python or sys.executable,
        template=made.template,
        directory=directory,
    )
    return rendered, Submission(
        script=paths.script(tag),
        tag=tag,
        directory=directory,
        arguments=rendered.arguments,
        environment={**environment, **rendered.environment},
        cluster=made.clusters,
    )


def _check_layout(spec: JobSpec) -> None:
    """A layout that there is not would end the job at its start."""
    if spec.checkpoint is not None and spec.checkpoint.layout != "auto":
        from slurmkit.checkpoint.layouts import select

        select(spec.checkpoint.layout)


def submit(loaded: Loaded, place: Place, *, slurm: Slurm, template: str = MANAGED) -> Receipt:
    """Make the run and have Slurm take it, once.

    Raises:
        Refused: Slurm said no; the run stays, as `not-submitted`, with Slurm's reason.
        Unreachable: the request did not arrive; the run stays likewise.
        MissingRequirement: there is no sbatch, or no slurm.conf; the run stays likewise.
        AnswerLost: the job may be in the queue; `slurmkit status` will find it.
        UsageError: the run directory cannot be written.
    """
    prepared, notes = _make_run(loaded, place, template)
    paths, clock = prepared.paths, place.clock
    submitted = submit_noted(paths, prepared.submission, slurm=slurm, clock=clock)
    return Receipt(prepared, submitted, (*notes, *filter(None, [submitted.message])))


def submit_noted(
    paths: RunPaths, submission: Submission, *, slurm: Slurm, clock: Clock, **fields: object
) -> Submitted:
    """Submit once, between the intent and the receipt in the event log; `fields` stand in both.

    Raises:
        Refused: Slurm said no; that is written down, as the next two are.
        Unreachable: the request did not arrive.
        MissingRequirement: there is no sbatch, or no slurm.conf.
        AnswerLost: the job may be in the queue: the intent stays without a receipt.
    """
    from slurmkit.slurm.submission import submit_once

    since = clock.now()
    events.append(paths, "submitting", at=since, **fields)
    try:
        submitted = submit_once(slurm, submission, clock=clock, since=since)
    except (MissingRequirement, Refused, Unreachable) as error:
        events.append(paths, "not-submitted", at=clock.now(), reason=error.what, **fields)
        raise
    except AnswerLost as error:
        hint = f"`slurmkit status {paths.run_id}` goes on looking for the job; do not submit again before"
        raise AnswerLost(error.what, where=error.where, hint=hint) from error
    receipt = {"job_id": str(submitted.id), "cluster": submitted.cluster, **fields}
    events.append(paths, "submitted", at=clock.now(), **receipt)
    return submitted


def _make_run(loaded: Loaded, place: Place, template: str) -> tuple[Prepared, tuple[str, ...]]:
    for _ in range(TRIES):
        prepared = prepare(loaded, place, template=template)
        try:
            return prepared, _create(prepared, place)
        except OSError as error:
            if isinstance(error, FileExistsError) and error.filename == str(prepared.paths.root):
                continue
            raise UsageError(
                f"the run directory cannot be written: {error.strerror}",
                where=str(error.filename or prepared.paths.root),
                hint="submit from a directory that you can write, or set `directory` under [run]",
            ) from error
    raise UsageError(f"no free run id after {TRIES} tries", where=str(prepared.paths.root.parent))


def _create(prepared: Prepared, place: Place) -> tuple[str, ...]:
    """Write the run directory; what went wrong without standing in the way comes back as notes."""
    from slurmkit.spec import resolved_toml

    paths = prepared.paths
    paths.root.parent.mkdir(parents=True, exist_ok=True)
    paths.root.mkdir()
    paths.all_logs.mkdir()
    for folder in _log_folders(prepared, place.remote):
        folder.mkdir(parents=True, exist_ok=True)
    # What is secret stands in no script; a resume needs it all the same.
    mode = 0o600 if prepared.rendered.environment else 0o666
    write_atomically(paths.job_toml, resolved_toml(prepared.spec).encode("utf-8", "surrogateescape"), mode)
    write_atomically(paths.job_sbatch, prepared.rendered.text.encode("utf-8", "surrogateescape"))
    if prepared.record.recovers and prepared.record.remote is None:
        _keep_environment(prepared)
    if prepared.record.template != PLAIN:
        from slurmkit.launch import archive

        archive.build(paths.launch_archive)
    record.save(paths, prepared.record)
    try:
        index.register(place.runs, paths)
    except OSError as error:
        return (
            f"the run is not in the list of runs ({error.strerror}: {error.filename}); name it by its path",
        )
    return ()


def _keep_environment(prepared: Prepared) -> None:
    """Keep the shell's variables: a node, or cron, submits the run again as this shell does now."""
    import json

    text = json.dumps(
        {
            name: value
            for name, value in prepared.submission.environment.items()
            if name not in prepared.rendered.environment
        }
    )
    write_atomically(prepared.paths.environment, text.encode("ascii"), 0o600)


def _log_folders(prepared: Prepared, remote: Cluster | None) -> list[Path]:
    """The folders of logs that the job file names: sbatch makes none, and the job dies without a word."""
    from slurmkit.spec.patterns import expand

    spec = prepared.spec
    start = prepared.submission.directory / (_text(spec, "chdir") or "")
    values = {"u": prepared.record.user, "x": spec.name}
    patterns = [pattern for name in ("output", "error") if (pattern := _text(spec, name))]
    folders = [(start / expand(pattern, values)).parent for pattern in patterns]
    if remote is None:
        return folders
    return [seen for folder in folders if (seen := remote.here(folder))]


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
