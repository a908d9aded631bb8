"""Verdicts that are kept, so that what was read once need not be read again while it stands.

A verdict stands while every file that it rests on, and the checkpoint's own listing, has its size and time.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurmkit.checkpoint.layout import Verdict
from slurmkit.checkpoint.zips import unreadable
from slurmkit.launch.files import write_atomically

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from slurmkit.checkpoint.layout import Layout

RULES = 2
"""Raised where a layout's rules change: what was complete by older ones is looked at again."""
MOST = 1000
"""Verdicts in one file; those not asked for the longest go first."""
SETTLED = 2.0
"""Seconds after which a change of a file has another time for sure, on any file system."""

Stamps = dict[str, tuple[int, int]]
"""Size and mtime in nanoseconds, by the name relative to the checkpoint; a directory has no size."""


class Verdicts:
    """Verifies checkpoints, and keeps in a file what it found."""

    def __init__(
        self, file: Path | None, *, deep: bool = False, clock: Callable[[], float] = time.time
    ) -> None:
        self._file = file
        self._deep = deep
        self._clock = clock
        self._kept = _load(file) if file else {}
        self._has_changed = False

    def of(self, path: Path, layout: Layout) -> tuple[Verdict, int | None]:
        """The verdict on a checkpoint, and the size of all that it rests on where it is complete."""
        key = f"{layout.name}:{path}"
        found = self._standing(key, path)
        if found is None:
            found = self._verify(key, path, layout)
        verdict, stamps = found
        is_sized = verdict.state == "complete" and stamps
        return verdict, sum(size for size, _ in stamps.values()) if is_sized else None

    def save(self) -> None:
        """Write what is new. Where that cannot be done, it is found again the next time."""
        if self._file is None or not self._has_changed:
            return
        content = {"rules": RULES, "verdicts": dict(list(self._kept.items())[-MOST:])}
        with contextlib.suppress(OSError):
            write_atomically(self._file, json.dumps(content).encode("ascii") + b"\n")
            self._has_changed = False

    def _standing(self, key: str, path: Path) -> tuple[Verdict, Stamps] | None:
        kept = self._kept.pop(key, None)
        if kept is None:
            return None
        try:
            fields = kept["verdict"]
            verdict = Verdict(**fields | {"rests_on": tuple(fields["rests_on"])})
            stamps = {name: (size, mtime) for name, (size, mtime) in kept["stamps"].items()}
            is_good = kept["deep"] or not self._deep
        except (KeyError, TypeError, ValueError, AttributeError):
            return None
        if not is_good or not stamps or _stamps(path, verdict.rests_on) != stamps:
            return None
        self._kept[key] = kept  # at the end: it was asked for
        return verdict, stamps

    def _verify(self, key: str, path: Path, layout: Layout) -> tuple[Verdict, Stamps]:
        began = self._clock()
        try:
            verdict = layout.verify(path, self._deep)
        except OSError as error:
            verdict = unreadable(path, error)
        # What is incomplete may be completed; what only a deep look found must not be forgotten.
        if verdict.state != "complete" and not (verdict.state == "damaged" and self._deep):
            return verdict, {}
        stamps = _stamps(path, verdict.rests_on) or {}
        latest = max((mtime for _, mtime in stamps.values()), default=0)
        if self._file and stamps and latest / 1e9 < began - SETTLED:
            self._kept[key] = {"deep": self._deep, "verdict": verdict._asdict(), "stamps": stamps}
            self._has_changed = True
        return verdict, stamps


def _load(file: Path) -> dict[str, Any]:
    """What is kept; nothing where the file is damaged or not there, or the rules were others."""
    try:
        content = json.loads(file.read_bytes())
        verdicts = content["verdicts"] if content["rules"] == RULES else {}
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return {}
    return verdicts if isinstance(verdicts, dict) else {}


def _stamps(path: Path, rests_on: Sequence[str]) -> Stamps | None:
    """Size and time of all that a verdict rests on, as they are now; None where that cannot be told."""
    try:
        return {name: _stamp(path, name) for name in ("", *rests_on)} if rests_on else None
    except (OSError, ValueError):
        return None


def _stamp(path: Path, name: str) -> tuple[int, int]:
    # What stands beside a file is "../name" of it.
    status = Path(os.path.normpath(path / name)).stat()
    return 0 if stat.S_ISDIR(status.st_mode) else status.st_size, status.st_mtime_ns
