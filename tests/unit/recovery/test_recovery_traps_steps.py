"""The agent's own steps beside the job's: others waited for the first one's memory and GPUs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from slurmkit.recovery.step import on_every_node
from slurmkit.run.paths import RunPaths


def test_trap_069_a_step_beside_the_ranks_shares_what_they_have(tmp_path: Path) -> None:
    """Without --overlap it would say `step creation temporarily disabled, retrying` until they end."""
    setting: Any = SimpleNamespace(
        attempt=SimpleNamespace(nodes=("n1", "n2")), paths=RunPaths(tmp_path), clock=None
    )
    argv = on_every_node(setting, "stacks")
    options = argv[: argv.index(next(word for word in argv if not word.startswith(("srun", "--"))))]
    assert {"--overlap", "--mem=0", "--nodes=2", "--ntasks-per-node=1"} <= set(options)
