"""What wakes up inside a task. Standard library only: it is frozen into the run directory as launch.pyz."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from slurmkit.launch.rank import MeshPlace, Rank, rank_from_env

__all__ = ["MeshPlace", "Rank", "rank_from_env"]


def __getattr__(name: str) -> object:
    """What programs use is loaded when they ask: the parent of a rank does not need it."""
    if name in __all__:
        from slurmkit.launch import rank

        return getattr(rank, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
