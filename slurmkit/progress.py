"""For programs: how far they are. `from slurmkit import progress`; standard library only, cheap to import."""

from __future__ import annotations

from slurmkit.launch.progress import phase, step

__all__ = ["phase", "step"]
