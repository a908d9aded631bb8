"""Loading a job file: layers of values, weakest first, then one check of them all.

Built-in defaults < site profile < user profile < the file in `extends` < the job file < `--set`. Tables
merge, all else is replaced. `false` takes back what a weaker layer set, where a key may be left out.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from slurmkit.errors import JobFileError
from slurmkit.spec import profile as profiles
from slurmkit.spec.conflicts import conflicts, pair_conflicts
from slurmkit.spec.convert import convert
from slurmkit.spec.files import TomlFile, read_toml
from slurmkit.spec.layers import Merged, add_override
from slurmkit.spec.options import OPTIONS
from slurmkit.spec.problems import KeyPath, Problem, Source, describe, dotted, place, span_of
from slurmkit.spec.units import is_minutes_and_seconds

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence
    from types import EllipsisType

    from slurmkit.spec.model import JobSpec

EXTENDS: Final = "extends"
_LONGEST_CHAIN: Final = 32


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """A job file that was loaded and found sound."""

    spec: JobSpec
    path: Path
    directory: Path
    """The job file's directory, absolute: relative paths in the file count from here."""
    origins: Mapping[str, str]
    """Dotted key to the layer that set it; a key that is not there has its built-in default."""
    profile: profiles.Profile
    warnings: tuple[str, ...] = ()
    """What is allowed but likely not meant, each with its place."""
    merged: Merged


def load(
    path: str | os.PathLike[str],
    overrides: Sequence[str] = (),
    *,
    site: Path | None = profiles.SITE,
    user: Path | EllipsisType | None = ...,
) -> Loaded:
    """Load a job file with all its layers and check it as a whole.

    `overrides` are `key.path=value` as of `--set`. None leaves a profile out; `...` is where XDG says.

    Raises:
        JobFileError: with every problem of every layer, each with its place.
    """
    job = Path(path)
    problems: list[str] = []
    merged = Merged()
    settings = profiles.Profile()
    try:
        files = profiles.read_profile_files(site=site, user=profiles.user_profile() if user is ... else user)
        settings = profiles.combine(files)
        for one in files:
            merged.add(one.defaults, Source(str(one.path), one.text, (profiles.DEFAULTS,)))
    except JobFileError as error:
        problems += error.problems
    try:
        for source, values in _chain(job):
            merged.add(values, source)
            merged.sources[()] = source
    except JobFileError as error:
        problems += error.problems
    for override in overrides:
        try:
            add_override(merged, override)
        except JobFileError as error:
            problems += error.problems
    if problems:
        raise JobFileError(problems)
    spec = _checked(merged)
    return Loaded(
        spec=spec,
        path=job,
        directory=job.absolute().parent,
        origins={dotted(path): merged.source_of(path).label for path, _ in leaves(merged.values)},
        profile=settings,
        warnings=tuple(_warnings(merged)),
        merged=merged,
    )


def load_resolved(path: str | os.PathLike[str]) -> JobSpec:
    """Load a job file that stands by itself, such as a run's `job.toml`: no profile adds to it.

    Raises:
        JobFileError: with every problem of the file.
    """
    return load(path, site=None, user=None).spec


def leaves(table: Mapping[str, Any], path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Every value of nested tables with its path."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key), value


def _chain(job: Path) -> list[tuple[Source, dict[str, Any]]]:
    """The job file and the files that it extends, weakest first."""
    chain: list[tuple[Source, dict[str, Any]]] = []
    seen: dict[Path, str] = {}
    following: Path | None = job
    asked_by: Source | None = None
    while following is not None:
        try:
            file = read_toml(following)
        except JobFileError as error:
            if asked_by is None or ": not TOML" in str(error):
                raise
            raise _wrong_extends(asked_by, f"extends: {error.problems[0]}") from None
        real = following.resolve()
        if real in seen or len(seen) == _LONGEST_CHAIN:
            loop = " -> ".join((*seen.values(), str(following)))
            raise _wrong_extends(asked_by, f"extends: the files extend each other: {loop}")
        seen[real] = str(following)
        asked_by = Source(str(following), file.text)
        chain.insert(0, (asked_by, {key: value for key, value in file.values.items() if key != EXTENDS}))
        following = _extended(following, file, asked_by)
    return chain


def _extended(path: Path, file: TomlFile, source: Source) -> Path | None:
    name = file.values.get(EXTENDS)
    if name is None:
        return None
    if not isinstance(name, str) or not name or "\0" in name:
        raise _wrong_extends(source, "extends: expected the name of one file, relative to this one")
    try:
        return path.parent / Path(name).expanduser()
    except RuntimeError as error:
        raise _wrong_extends(source, f"extends: {error}") from None


def _wrong_extends(source: Source | None, what: str) -> JobFileError:
    return JobFileError([describe(Problem((EXTENDS,), what), lambda _: source or Source("extends"))])


def _checked(merged: Merged) -> JobSpec:
    spec, problems = convert(merged.values, merged.raw)
    resources = merged.values.get("resources")
    if isinstance(resources, dict):
        problems += pair_conflicts(resources)
    if spec is not None:
        problems += conflicts(spec)
    if spec is None or problems:
        problems.sort(key=lambda one: _position(merged, one))
        raise JobFileError([describe(problem, merged.source_of) for problem in problems])
    return spec


def _position(merged: Merged, problem: Problem) -> tuple[str, int, int]:
    source = merged.source_of(problem.path)
    span = span_of(source, problem.path, problem.at)
    return (source.label, span.line, span.column) if span else (source.label, 0, 0)


def _warnings(merged: Merged) -> Iterator[str]:
    resources = merged.values.get("resources", {})
    for option in OPTIONS:
        value = resources.get(option.name)
        if option.kind == "time" and is_minutes_and_seconds(value):
            path = ("resources", option.name)
            first, second = str(value).strip().split(":")
            where = place(merged.source_of(path), path, "value")
            yield (
                f"{where}: {dotted(path)}: `{value}` is {int(first)} minutes {int(second)} seconds to Slurm; "
                f"write `{first}m{second}s`, or `{first}h{second}m` where hours are meant"
            )
