"""Tracker files: a line beside the checkpoints that names the newest. It is no proof that there is one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from slurmkit.checkpoint import pieces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from slurmkit.checkpoint.layout import Verdict
    from slurmkit.checkpoint.pieces import Piece

_LONGEST = 4096


class Tracker(NamedTuple):
    """A tracker file of one layout."""

    file: str
    name_of: Callable[[str], str | None]
    """The checkpoint that its text names; None where it can name none."""
    step_of: Callable[[str], int | None]
    verify: Callable[[Path, bool], Verdict]

    def problem(self, root: Path) -> str | None:
        """What is wrong with it, in a sentence; None where it names a whole one, or there is none."""
        try:
            wrong = self._wrong(root, self._read(root))
        except FileNotFoundError:
            newest = self._newest(root)
            return newest and f"{self.file} is not there, though {newest} is: a load would start from nothing"
        except OSError as error:
            wrong = f"cannot be read: {error.strerror}"
        return wrong and f"{self.file} {wrong}"

    def not_older(self, path: Path, written_before: Iterable[Piece], verdict: Verdict) -> Verdict:
        """The verdict on a checkpoint, or that the tracker that names it is older than these pieces of it."""
        try:
            if self.name_of(self._read(path.parent)) != path.name:
                return verdict
            at = (path.parent / self.file).stat().st_mtime
        except OSError:
            return verdict
        rests_on = (*verdict.rests_on, f"../{self.file}")
        for name, piece in written_before:
            if (piece.saved or 0.0) > at + pieces.MARKER_TOLERANCE:
                return pieces.newer(name, self.file)._replace(step=verdict.step, rests_on=rests_on)
        return verdict._replace(rests_on=rests_on)

    def _wrong(self, root: Path, text: str) -> str | None:
        name = self.name_of(text)
        if name is None:
            told = f"says {text[:40]!r}, which is no checkpoint's name"
            return told if text else "is empty: the save that wrote it was not finished"
        if not (root / name).is_dir():
            return f"names {name}, which is not there"
        verdict = self.verify(root / name, False)  # noqa: FBT003
        if verdict.state == "complete":
            return None
        return f"names {name}, which is {verdict.state}: {verdict.reason}"

    def _read(self, root: Path) -> str:
        with (root / self.file).open(encoding="utf-8", errors="replace") as file:
            return file.read(_LONGEST).strip().replace("\0", "\ufffd")

    def _newest(self, root: Path) -> str | None:
        try:
            names = [name for name in pieces.names_in(root) if self.step_of(name) is not None]
        except OSError:
            return None
        return max(names, key=lambda name: self.step_of(name) or 0, default=None)
