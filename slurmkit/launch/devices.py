"""Which GPUs are a task's own, among those that it sees. Pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing itself costs a rank milliseconds
    from collections.abc import Mapping

VISIBLE_DEVICES = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")


def visible(environ: Mapping[str, str]) -> int | None:
    """How many GPUs this process sees; None where nothing tells."""
    for name in VISIBLE_DEVICES:
        text = environ.get(name)
        if text is not None:
            words = [word for word in text.split(",") if word.strip()]
            return 0 if words == ["NoDevFiles"] else len(words)
    return None


def device(environ: Mapping[str, str], local_rank: int) -> int | None:
    """The index of this task's GPU among those it sees; None where it sees none, or nothing tells.

    With devices bound to tasks each task sees its own from 0 on, whatever its local rank.
    """
    count = visible(environ)
    if not count:
        return None
    return 0 if _are_bound(environ, count) else local_rank % count


def own_devices(environ: Mapping[str, str], local_rank: int, local_world_size: int | None) -> list[int]:
    """The indices of all GPUs that are for this task: its bound ones, or its share of what the node's see."""
    count = visible(environ) or 0
    if count and _are_bound(environ, count):
        return list(range(count))
    share = count // (local_world_size or count or 1)
    if share > 1:
        return list(range(local_rank * share, (local_rank + 1) * share))
    index = device(environ, local_rank)
    return [] if index is None else [index]


def _are_bound(environ: Mapping[str, str], count: int) -> bool:
    """Whether the task sees its own GPUs only: there are more in the step on this node."""
    on_node = environ.get("SLURM_GPUS_ON_NODE", "")
    # Below torchrun one worker after the other has its own of what the one task sees.
    return on_node.isdigit() and int(on_node) > count and "TORCHELASTIC_RUN_ID" not in environ
