"""Where runs are: symbolic links, one per run, in the user's state directory.

They only make runs easy to find: losing them loses nothing, and a path always works.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from slurmkit.errors import RunNotFound
from slurmkit.run import events
from slurmkit.run.paths import RunPaths

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LAST = "last"
SHOWN = 5
"""How many candidates an error names."""

Index = Path
"""The folder of links."""


def index_of(environ: Mapping[str, str]) -> Index:
    """The folder of links of a user: `$XDG_STATE_HOME/slurmkit/runs`."""
    state = environ.get("XDG_STATE_HOME", "")
    # The specification says that a relative path there is to be ignored.
    base = Path(state) if state.startswith("/") else Path(environ.get("HOME") or Path.home()) / ".local/state"
    return base / "slurmkit" / "runs"


def register(index: Index, paths: RunPaths) -> None:
    """Link a run. Idempotent; a link of the same name to elsewhere is replaced.

    Raises:
        OSError: the index cannot be written.
    """
    index.mkdir(parents=True, exist_ok=True)
    link = index / paths.run_id
    fresh = index / f".{paths.run_id}.{os.getpid()}"
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(paths.root)
    fresh.replace(link)


def forget(index: Index, run_id: str) -> None:
    """Remove the link of a run, if there is one."""
    (index / run_id).unlink(missing_ok=True)


def names(index: Index) -> list[str]:
    """The ids of all linked runs, newest first; whether they still exist is not looked at."""
    try:
        with os.scandir(index) as entries:
            found = [(entry.stat(follow_symlinks=False).st_mtime_ns, entry.name) for entry in entries]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [name for _, name in sorted(found, reverse=True) if not name.startswith(".")]


def all_runs(index: Index) -> list[RunPaths]:
    """All linked runs whose directory is there, newest first."""
    runs = (_linked(index, name) for name in names(index))
    return [run for run in runs if run is not None]


def resolve(name: str, index: Index) -> RunPaths:
    """The run that `name` stands for: a run id, a unique start of one, a job id, a path, or `last`.

    Raises:
        RunNotFound: none, or more than one; the message says what comes close.
    """
    known = names(index)
    found = _exact(name, index, known)
    if found:
        return found
    matching = [one for one in known if name and one.startswith(name)]
    if len(matching) > 1 and name not in matching:
        raise RunNotFound(f"{name!r} fits {len(matching)} runs", hint=_listing(matching))
    if not matching:
        raise RunNotFound(f"no run is called {name!r}", hint=_closest(name, known))
    found = _linked(index, matching[0])
    if found is None:
        gone = str((index / matching[0]).readlink())
        raise RunNotFound(f"the directory of run {matching[0]} is gone", where=gone)
    return found


def _exact(name: str, index: Index, known: Sequence[str]) -> RunPaths | None:
    if name == LAST:
        return _last(index, known)
    if name in known:
        return _linked(index, name)
    root = Path(os.path.abspath(name))  # noqa: PTH100 - resolve() would follow links, and rename the run
    if name and RunPaths(root).run_json.is_file():
        return RunPaths(root)
    job = name.partition("_")[0]
    return _by_job(job, index, known) if job.isdigit() else None


def _linked(index: Index, name: str) -> RunPaths | None:
    link = index / name
    try:
        root = link.readlink()
    except OSError:
        return None
    return RunPaths(root) if root.is_dir() else None


def _last(index: Index, known: Sequence[str]) -> RunPaths:
    for one in known:
        if found := _linked(index, one):
            return found
    raise RunNotFound("there is no run yet", where=str(index), hint="slurmkit submit job.toml")


def _by_job(job: str, index: Index, known: Sequence[str]) -> RunPaths | None:
    """The newest run that has, or had, the job: Slurm uses its numbers again."""
    for one in known:
        run = _linked(index, one)
        if run and any(event.text("job_id") == job for event in events.read(run)):
            return run
    return None


def _closest(name: str, known: Sequence[str]) -> str:
    from difflib import get_close_matches

    if close := get_close_matches(name, known, n=SHOWN, cutoff=0.4):
        return "did you mean " + _listing(close)
    if known:
        return f"`slurmkit runs` lists them; the last is {known[0]}"
    return "`slurmkit submit job.toml` makes one; a run of another user is named by its path"


def _listing(found: Sequence[str]) -> str:
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return ", ".join(found[:SHOWN]) + more
