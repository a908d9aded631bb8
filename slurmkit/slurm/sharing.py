"""One answer for all: what a command said is kept for a moment, for every process of this user and host.

Ten terminals that wait ask Slurm once. While one process asks, the others wait for its answer at the lock.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.slurm.process import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from slurmkit.slurm.clock import Clock

FAILURES = 5.0
"""Seconds for which a failure is kept: all need not run into it, and all must notice when it has passed."""

FORGOTTEN = 86400.0
"""Seconds after which an answer is thrown away."""


class Shared(NamedTuple):
    """Where answers are kept: a folder of this user and host, private to the user."""

    folder: str
    clock: Clock


def default_folder(environ: Mapping[str, str]) -> str:
    """A folder on this machine: answers are not for other hosts, and a lock on a shared disk may be none."""
    base = environ.get("XDG_RUNTIME_DIR") or environ.get("TMPDIR") or "/tmp"  # noqa: S108  private by its mode
    return os.path.join(base, f"slurmkit-{os.getuid()}-{os.uname().nodename}")  # noqa: PTH118


def shared_answer(
    shared: Shared, argv: Sequence[str], conf: str, max_age: float, ask: Callable[[], Answer]
) -> Answer:
    """The answer that was kept, if it is no older than `max_age` seconds, else a new one, which is kept.

    `conf` tells one Slurm from another. Where nothing can be kept, every process asks for itself.
    """
    import fcntl

    question = "\0".join((conf, *argv))
    try:
        descriptor = _open(shared.folder, question)
    except OSError:
        return ask()
    with os.fdopen(descriptor, "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        kept = _read(file.read(), question, shared.clock.now().timestamp(), max_age)
        if kept is not None:
            return kept
        answer = ask()
        now = shared.clock.now().timestamp()
        if not file.tell():
            _sweep(shared.folder, now)
        file.seek(0)
        file.truncate()
        file.write(_written(question, answer, now))
    return answer


def _open(folder: str, question: str) -> int:
    from zlib import adler32, crc32

    _claim(folder)
    data = question.encode("utf-8", "surrogateescape")
    return os.open(
        os.path.join(folder, f"{crc32(data):08x}{adler32(data):08x}"),  # noqa: PTH118
        os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW,
        0o600,
    )


def _claim(folder: str) -> None:
    """Make the folder, or see that it is ours alone: others may write where it stands.

    Raises:
        OSError: it cannot be made, or somebody else made it.
    """
    from stat import S_ISDIR

    try:
        os.mkdir(folder, 0o700)  # noqa: PTH102
    except FileExistsError:
        found = os.lstat(folder)
        if not S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
            raise PermissionError(folder) from None


def _sweep(folder: str, now: float) -> None:
    """Remove answers that nobody has asked for in a long time."""
    with os.scandir(folder) as entries:
        old = [
            entry.path for entry in entries if now - entry.stat(follow_symlinks=False).st_mtime > FORGOTTEN
        ]
    for path in old:
        # Another process may have been quicker.
        try:
            os.unlink(path)  # noqa: PTH108
        except FileNotFoundError:
            continue


def _written(question: str, answer: Answer, now: float) -> bytes:
    import json

    return json.dumps([question, now, *answer]).encode()


def _read(data: bytes, question: str, now: float, max_age: float) -> Answer | None:
    import json

    try:
        asked, time, code, stdout, stderr = json.loads(data)
    except ValueError:
        return None  # new, or its writer was killed
    if asked != question:
        return None  # two questions may share a file's name
    age = now - time
    return (
        Answer(code, stdout, stderr)
        if 0 <= age <= (max_age if code == 0 else min(max_age, FAILURES))
        else None
    )
