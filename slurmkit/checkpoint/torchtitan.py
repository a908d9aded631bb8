"""TorchTitan: `step-<n>/`, of torch.distributed.checkpoint, or of Hugging Face weights with an index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmkit.checkpoint import pieces, safetensors, torch_dcp
from slurmkit.checkpoint.layout import Layout
from slurmkit.checkpoint.names import numbered

if TYPE_CHECKING:
    from pathlib import Path

    from slurmkit.checkpoint.layout import Verdict

step_of = numbered(r"step-(\d+)")
"""The number of `step-<n>`."""
_INDEX = "model.safetensors.index.json"


@pieces.from_outside
def verify(path: Path, deep: bool) -> Verdict:  # noqa: FBT001
    """Whether a step is whole by the rule of whichever of the two wrote it."""
    names = pieces.names_in(path)
    if _INDEX in names and torch_dcp.METADATA not in names:
        verdict = safetensors.verify_index(path / _INDEX, deep)
        if verdict.state == "complete":
            verdict = verdict._replace(reason=f"{verdict.reason}; weights only, the optimizer is not in it")
    else:
        verdict = torch_dcp.verify(path, deep)
    if verdict.state == "foreign" and step_of(path.name) is not None:
        verdict = pieces.partial(f"{torch_dcp.METADATA}, which is written last, is not there")
    return verdict._replace(step=step_of(path.name))


LAYOUT = Layout(
    name="torchtitan",
    summary="TorchTitan: step-<n>/ of torch.distributed.checkpoint, or of safetensors with an index",
    resume=("--checkpoint.load_step", "{step}"),
    reshards=True,
    step_of=step_of,
    is_named=lambda name: step_of(name) is not None,
    is_one=lambda path: torch_dcp.LAYOUT.is_one(path) or pieces.holds(path, lambda names: _INDEX in names),
    verify=verify,
)
