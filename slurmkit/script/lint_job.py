"""What is wrong or unwise in a job file: all that loading finds, and what loads but is seldom meant."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from slurmkit.errors import JobFileError
from slurmkit.script.lint import Finding
from slurmkit.script.sbatch_file import Line
from slurmkit.script.shell import commands
from slurmkit.spec.loading import load
from slurmkit.spec.options import BY_NAME
from slurmkit.spec.problems import KeyPath, place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from slurmkit.spec.loading import Loaded
    from slurmkit.spec.model import JobSpec

STEPS: Final = frozenset({"srun", "mpirun", "mpiexec", "sbatch", "salloc"})
_OF_ONE_JOB: Final = re.compile(r"%[jAJ]|SLURM_(?:ARRAY_)?JOB_?ID|\$\(date\b|`date\b")
_PLACE: Final = re.compile(r"(?P<file>[^\n]*?):(?P<line>\d+)(?::\d+)?: ")


def lint_job(path: Path, *, version: tuple[int, ...] | None = None) -> tuple[Finding, ...]:
    """All findings in a job file, by line; `version` is that of the Slurm it is for, where it is known."""
    try:
        loaded = load(path)
    except JobFileError as error:
        return tuple(sorted(_read(text, path, "job-file", "error") for text in error.problems))
    found = [_read(text, path, "minutes-seconds", "warning") for text in loaded.warnings]
    found += _versions(loaded, version)
    found += _status(loaded)
    found += _port(loaded)
    found += _step(loaded)
    found += _folder(loaded)
    return tuple(sorted(found))


def _read(text: str, path: Path, reference: str, severity: str) -> Finding:
    """A problem whose text begins with its place; one of another file keeps that place in its text."""
    match = _PLACE.match(text)
    if match is None or match["file"] != str(path):
        return Finding(0, reference, severity, text, "")
    return Finding(int(match["line"]), reference, severity, text[match.end() :], "")


def _at(loaded: Loaded, keys: KeyPath, finding: Finding) -> Finding:
    """The finding with the line of a key, or with the layer that set it."""
    where = place(loaded.merged.source_of(keys), keys)
    read = _read(f"{where}: {finding.what}", loaded.path, finding.reference, finding.severity)
    return read._replace(fix=finding.fix)


def _versions(loaded: Loaded, version: tuple[int, ...] | None) -> Iterator[Finding]:
    for name in loaded.spec.resources:
        if version and not BY_NAME[name].exists_in(version):
            release = ".".join(f"{number:02d}" for number in version[:2])
            what = f"Slurm {release} has no `{BY_NAME[name].flag_text}`"
            finding = Finding(0, "option-version", "error", what, "leave it out")
            yield _at(loaded, ("resources", name), finding)


def _status(loaded: Loaded) -> Iterator[Finding]:
    spec: JobSpec = loaded.spec
    if not isinstance(spec.command, str) or re.search(r"\bset\s+-\w*e|pipefail|errexit", spec.command):
        return
    lines = (Line(number, text) for number, text in enumerate(spec.command.split("\n"), 1))
    found = [part for one in commands(lines) if not one.is_comment for part in one.parts]
    what = ""
    if any(word.raw == "|" for one in found for word in one.words):
        what = "the status of a pipeline is that of its last part: a rank that fails counts as done"
    elif len(found) > 1 and " && " not in spec.command:
        what = "the status of a rank is that of its last command"
    if what:
        fix = "begin it with `set -euo pipefail;`"
        yield _at(loaded, ("command",), Finding(0, "lost-status", "warning", what, fix))


def _port(loaded: Loaded) -> Iterator[Finding]:
    port = loaded.spec.environment.variables.get("MASTER_PORT")
    if port is not None:
        what = f"port {port} is fixed: two jobs on one node collide"
        keys = ("environment", "variables", "MASTER_PORT")
        fix = "leave it out: slurmkit finds a free one"
        yield _at(loaded, keys, Finding(0, "fixed-port", "warning", what, fix))


def _step(loaded: Loaded) -> Iterator[Finding]:
    command = loaded.spec.command
    first = (command.split() if isinstance(command, str) else command)[0].rpartition("/")[2]
    if first in STEPS:
        what = f"every task would start `{first}` anew: slurmkit starts the tasks itself"
        fix = "leave it out; its options belong in [launch] srun"
        yield _at(loaded, ("command",), Finding(0, "step-in-step", "error", what, fix))


def _folder(loaded: Loaded) -> Iterator[Finding]:
    """Checkpoints under a name that the next job of the run does not have."""
    spec = loaded.spec
    if spec.checkpoint is None:
        return
    command = spec.command if isinstance(spec.command, str) else " ".join(spec.command)
    for keys, text in ((("checkpoint", "path"), spec.checkpoint.path), (("command",), command)):
        found = _OF_ONE_JOB.search(text)
        if found:
            what = f"`{found[0]}` differs from job to job: the next one would not find these checkpoints"
            fix = "use $SLURMKIT_RUN_ID, which stays"
            yield _at(loaded, keys, Finding(0, "changing-folder", "warning", what, fix))
