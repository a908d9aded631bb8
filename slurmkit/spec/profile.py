"""The site's and the user's profile: defaults for job files, and settings of slurmkit's own.

    [defaults.resources]        # any key of a job file, weaker than the job file's
    partition = "train"

    [polling]
    least_interval = "2s"       # how often Slurm may be asked at most, and how seldom at least
    greatest_interval = "60s"

    [slurm]
    clusters = "a,b"            # as `--clusters`; left out, the local cluster
    client = "auto"             # or "commands", "pyslurm": how Slurm is spoken to
                                # or "rest": every command as with `submit --cluster`
    cluster = "jupiter"         # which of the clusters "rest" means

    [clusters.jupiter]          # a cluster elsewhere; its keys stand in `slurmkit.spec.clusters`
    url = "https://rest.example.org:6820"

This module imports neither msgspec nor TOML before a profile exists, so that every command may ask it.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from slurmkit.errors import JobFileError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from slurmkit.spec.clusters import Cluster
    from slurmkit.spec.problems import Problem

SITE: Final = Path("/etc/slurmkit/site.toml")
DEFAULTS: Final = "defaults"
_SETTINGS: Final = {
    "polling": {"least_interval": "duration", "greatest_interval": "duration"},
    "slurm": {"clusters": "text", "client": "client", "cluster": "text"},
}
CLIENTS: Final = ("auto", "commands", "pyslurm", "rest")
REMOTES: Final = "clusters"
_TABLES: Final = (*_SETTINGS, REMOTES, DEFAULTS)


class Profile(NamedTuple):
    """Settings of the site and the user, the user's over the site's. Intervals in seconds."""

    least_interval: float = 2
    greatest_interval: float = 60
    clusters: str | None = None
    client: str = "auto"
    cluster: str | None = None
    remotes: Mapping[str, Cluster] = MappingProxyType({})
    """`[clusters.NAME]`, by name."""


class ProfileFile(NamedTuple):
    """One profile that exists: where, its text, its defaults for job files, its settings."""

    path: Path
    text: str
    defaults: Mapping[str, Any] = MappingProxyType({})
    settings: Mapping[str, float | str] = MappingProxyType({})
    remotes: Mapping[str, Mapping[str, Any]] = MappingProxyType({})


def user_profile(environ: Mapping[str, str] | None = None) -> Path | None:
    """Where the user's profile is looked for; None without a home directory."""
    environ = os.environ if environ is None else environ
    base, home = environ.get("XDG_CONFIG_HOME", ""), environ.get("HOME", "")
    if not base.startswith("/"):  # the XDG specification has a relative path ignored
        if not home:
            return None
        base = f"{home}/.config"
    return Path(base, "slurmkit", "config.toml")


def read_profile(*, site: Path | None = SITE, user: Path | None = None) -> Profile:
    """The settings that hold here; without `user`, the user's profile is where XDG says.

    Raises:
        JobFileError: a profile exists and is wrong.
    """
    return combine(read_profile_files(site=site, user=user or user_profile()))


def read_profile_files(*, site: Path | None, user: Path | None) -> list[ProfileFile]:
    """The profiles that exist, weakest first."""
    return [_read(path) for path in (site, user) if path is not None and os.path.exists(path)]  # noqa: PTH110  no error where it cannot be seen


def combine(files: list[ProfileFile]) -> Profile:
    """The settings of all profiles, the last one's strongest."""
    settings: dict[str, Any] = {}
    remotes: dict[str, dict[str, Any]] = {}
    for one in files:
        settings |= one.settings
        for name, told in one.remotes.items():
            remotes[name] = remotes.get(name, {}) | dict(told)
    if remotes:
        from slurmkit.spec.clusters import Cluster

        settings["remotes"] = {name: Cluster(name, **told) for name, told in remotes.items()}
    return Profile(**settings)


def _read(path: Path) -> ProfileFile:
    from slurmkit.spec.files import read_toml
    from slurmkit.spec.problems import Problem, Source, describe

    file = read_toml(path)
    source = Source(str(path), file.text)
    problems: list[Problem] = []
    settings: dict[str, float | str] = {}
    remotes: dict[str, dict[str, Any]] = {}
    for table, content in file.values.items():
        if table not in _TABLES:
            right = _nearest(table, _TABLES)
            problems.append(Problem((table,), f"unknown key `{table}` in a profile", right, at="key"))
        elif not isinstance(content, dict):
            problems.append(Problem((table,), f"{table}: expected a table, got a value"))
        elif table == REMOTES:
            remotes, wrong = _remotes(content)
            problems += wrong
        elif table != DEFAULTS:
            known, wrong = _checked((table,), content, _SETTINGS[table], partial(_setting, table))
            settings |= known
            problems += wrong
    if problems:
        raise JobFileError([describe(problem, lambda _: source) for problem in problems])
    return ProfileFile(path, file.text, file.values.get(DEFAULTS, {}), settings, remotes)


def _remotes(content: Mapping[str, object]) -> tuple[dict[str, dict[str, Any]], list[Problem]]:
    """The clusters of a profile, and what is wrong with them."""
    from slurmkit.spec.clusters import KEYS, setting
    from slurmkit.spec.problems import Problem

    remotes: dict[str, dict[str, Any]] = {}
    problems: list[Problem] = []
    for name, told in content.items():
        if not isinstance(told, dict):
            problems.append(Problem((REMOTES, name), f"{REMOTES}.{name}: expected a table, got a value"))
            continue
        remotes[name], wrong = _checked((REMOTES, name), told, KEYS, setting)
        problems += wrong
    return remotes, problems


def _checked(
    path: tuple[str, ...],
    content: Mapping[str, object],
    known: Mapping[str, str],
    check: Callable[[str, object], Any],
) -> tuple[dict[str, Any], list[Problem]]:
    """The values of a table, and what is wrong with the others."""
    from slurmkit.spec.problems import Problem

    table = ".".join(path)
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    for key, value in content.items():
        try:
            values[key] = check(key, value)
        except KeyError:
            right = _nearest(key, known)
            problems.append(Problem((*path, key), f"unknown key `{key}` in [{table}]", right, at="key"))
        except ValueError as error:
            problems.append(Problem((*path, key), f"{table}.{key}: {error}"))
    return values, problems


def _nearest(name: str, known: Iterable[str]) -> str:
    from slurmkit.spec.names import nearest

    near = nearest(name, known)
    return f"did you mean `{near}`?" if near else f"known here: {', '.join(known)}"


def _setting(table: str, key: str, value: object) -> float | str:
    kind = _SETTINGS[table][key]
    if not isinstance(value, str):
        raise ValueError(f"expected text, got {value}")  # noqa: TRY004  a wrong file, not a wrong call
    if kind == "text":
        return value
    if kind == "client":
        if value not in CLIENTS:
            raise ValueError(f"expected one of {', '.join(CLIENTS)}, got {value!r}")
        return value
    from slurmkit.spec.units import parse_duration

    seconds = parse_duration(value)
    if seconds < 1:
        raise ValueError("Slurm may be asked once a second at most")
    return float(seconds)
