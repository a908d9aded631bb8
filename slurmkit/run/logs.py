"""What a run printed: which files hold it, and following them while they grow."""

from __future__ import annotations

import glob
import re
from pathlib import Path
from typing import TYPE_CHECKING

from slurmkit.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from slurmkit.run.survey import Dossier
    from slurmkit.slurm.clock import Clock

Rank = int | None
"""A rank; None is all of them."""

CHUNK = 1 << 20
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 1.0
"""Seconds between looks at a log that is followed: quick while it grows, slower while it rests."""

_RANK_LOG = re.compile(r"rank-(\d+)\.out")


def attempts(dossier: Dossier) -> list[str]:
    """The names of all attempts that left rank logs or an event, oldest first."""
    known = [attempt.name for attempt in dossier.history.attempts]
    try:
        folders = sorted(
            (entry for entry in dossier.paths.all_logs.iterdir() if entry.is_dir()),
            key=lambda entry: entry.stat().st_mtime_ns,
        )
    except FileNotFoundError:
        folders = []
    return [*known, *(folder.name for folder in folders if folder.name not in known)]


def choose_attempt(dossier: Dossier, text: str) -> str:
    """The attempt that `text` stands for: its name, or its number, counted from 1 (-1 is the last).

    Raises:
        UsageError: there is none; the message lists those that are.
    """
    names = attempts(dossier)
    if text in names:
        return text
    try:
        number = int(text)
        # 0 is no attempt: it is sent beyond the end.
        return names[number - 1 if number > 0 else number or len(names)]
    except (ValueError, IndexError):
        listing = ", ".join(f"{number}: {name}" for number, name in enumerate(names, 1))
        raise UsageError(
            f"run {dossier.paths.run_id} has no attempt {text!r}",
            hint=listing or "none has started so far",
        ) from None


def files(dossier: Dossier, *, rank: Rank = 0, attempt: str | None = None) -> list[Path]:
    """The logs of a rank, or of all, in one attempt or the last; the batch logs where no rank has one yet."""
    names = attempts(dossier) if attempt is None else [attempt]
    for name in reversed(names):
        if found := rank_logs(dossier, name, rank):
            return found
    return batch_logs(dossier)


def rank_logs(dossier: Dossier, attempt: str, rank: Rank) -> list[Path]:
    """The logs of a rank, or of all, in one attempt."""
    if rank is not None:
        path = dossier.paths.rank_log(attempt, rank)
        return [path] if path.exists() else []
    return sorted(dossier.paths.logs(attempt).glob("rank-*.out"))


def batch_logs(dossier: Dossier) -> list[Path]:
    """What the batch scripts said: where the job file put it, else in the run directory (trap 143)."""
    record, job_id = dossier.record, dossier.history.job_id
    if job_id is None:
        return []
    if record is None or record.output is None:
        task = "_*" if record is not None and record.array is not None else ""
        pattern = f"{glob.escape(str(dossier.paths.all_logs))}/{job_id}{task}.out"
    else:
        from slurmkit.run.record import start_directory
        from slurmkit.spec.patterns import as_glob

        values = {"A": job_id, "x": record.name, "u": record.user}
        if record.array is None:  # each task of an array has a job id of its own
            values |= {"j": job_id, "J": job_id}
        pattern = str(
            Path(glob.escape(str(start_directory(dossier.paths, record)))) / as_glob(record.output, values)
        )
    return sorted(map(Path, glob.glob(pattern)))  # noqa: PTH207 - the pattern is absolute


def rank_of(path: Path) -> int | None:
    """The rank whose log this is; None for the log of a batch script."""
    found = _RANK_LOG.fullmatch(path.name)
    return int(found[1]) if found else None


def follow(
    choose: Callable[[], Sequence[Path]], is_over: Callable[[], bool], clock: Clock
) -> Iterator[tuple[Path, bytes]]:
    """What stands in the chosen files and what is added to them, as it comes, until the run is over.

    `choose` is asked again at each look, so that a new attempt's files are followed as they appear.
    """
    read: dict[Path, int] = {}
    pause = FIRST_PAUSE
    while True:
        # Asked before the files are read: what was written before the end is in them.
        over = is_over()
        grown = False
        for path in choose():
            if _size(path) < read.get(path, 0):
                read[path] = 0  # a requeue may have emptied it (trap 097)
            for chunk in chunks(path, read.get(path, 0)):
                read[path] = read.get(path, 0) + len(chunk)
                grown = True
                yield path, chunk
        if over:
            return
        pause = FIRST_PAUSE if grown else min(pause * 2, LONGEST_PAUSE)
        clock.sleep(pause)


def chunks(path: Path, start: int = 0) -> Iterator[bytes]:
    """The contents of a file from `start` on; nothing where it is not there."""
    try:
        with path.open("rb") as file:
            file.seek(start)
            while chunk := file.read(CHUNK):
                yield chunk
    except FileNotFoundError:
        return


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
