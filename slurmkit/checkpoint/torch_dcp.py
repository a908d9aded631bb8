"""torch.distributed.checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from slurmkit.checkpoint.layout import Verdict


def verify(path: Path, deep: bool) -> Verdict:  # noqa: FBT001
    """Whether a directory of torch.distributed.checkpoint is whole; deep looks at every item and its checksums."""
    raise NotImplementedError
