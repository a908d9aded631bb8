"""The site's and the user's profile: defaults for job files, and settings of slurmkit's own.

    [defaults.resources]        # any key of a job file, weaker than the job file's
    partition = "train"

    [polling]
    least_interval = "2s"       # how often Slurm may be asked at most, and how seldom at least
    greatest_interval = "60s"

    [slurm]
    clusters = "a,b"            # as `--clusters`; left out, the local cluster
    client = "auto"             # or "commands", "pyslurm": how Slurm is spoken to

This module imports neither msgspec nor TOML before a profile exists, so that every command may ask it.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from slurmkit.errors import JobFileError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SITE: Final = Path("/etc/slurmkit/site.toml")
DEFAULTS: Final = "defaults"
_SETTINGS: Final = {
    "polling": {"least_interval": "duration", "greatest_interval": "duration"},
    "slurm": {"clusters": "text", "client": "client"},
}


class Profile(NamedTuple):
    """Settings of the site and the user, the user's over the site's. Intervals in seconds."""

    least_interval: float = 2
    greatest_interval: float = 60
    clusters: str | None = None
    client: str = "auto"


class ProfileFile(NamedTuple):
    """One profile that exists: where, its text, its defaults for job files, its settings."""

    path: Path
    text: str
    defaults: Mapping[str, Any] = MappingProxyType({})
    settings: Mapping[str, float | str] = MappingProxyType({})


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
    for one in files:
        settings |= one.settings
    return Profile(**settings)


def _read(path: Path) -> ProfileFile:
    from slurmkit.spec.files import read_toml
    from slurmkit.spec.problems import Problem, Source, describe

    file = read_toml(path)
    source = Source(str(path), file.text)
    problems: list[Problem] = []
    settings: dict[str, float | str] = {}
    for table, content in file.values.items():
        if table not in (*_SETTINGS, DEFAULTS):
            right = _nearest(table, (*_SETTINGS, DEFAULTS))
            problems.append(Problem((table,), f"unknown key `{table}` in a profile", right, at="key"))
        elif not isinstance(content, dict):
            problems.append(Problem((table,), f"{table}: expected a table, got a value"))
        elif table != DEFAULTS:
            for key, value in content.items():
                try:
                    settings[key] = _setting(table, key, value)
                except KeyError:
                    right = _nearest(key, _SETTINGS[table])
                    problems.append(
                        Problem((table, key), f"unknown key `{key}` in [{table}]", right, at="key")
                    )
                except ValueError as error:
                    problems.append(Problem((table, key), f"{table}.{key}: {error}"))
    if problems:
        raise JobFileError([describe(problem, lambda _: source) for problem in problems])
    return ProfileFile(path, file.text, file.values.get(DEFAULTS, {}), settings)


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
        from slurmkit.slurm.client import CLIENTS

        if value not in CLIENTS:
            raise ValueError(f"expected {', '.join(CLIENTS)}, got {value}")
        return value
    from slurmkit.spec.units import parse_duration

    seconds = parse_duration(value)
    if seconds < 1:
        raise ValueError("Slurm may be asked once a second at most")
    return float(seconds)
