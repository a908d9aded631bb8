"""Job arrays: the indices of `--array`, and what a cluster's MaxArraySize allows of them."""

from __future__ import annotations

from slurmkit.slurm.ids import TaskSet


def parse_array(value: str | int) -> TaskSet:
    """The tasks of `0-99%10`, `0-15:4`, `1,3,7` or a single index.

    Raises:
        ValueError: names the part that is wrong.
    """
    text = str(value).replace(" ", "")
    try:
        tasks = TaskSet.parse(text.replace("[", "").replace("]", ""))
    except ValueError as error:
        raise ValueError(f"{error}; write `0-99%10`, `0-15:4` or `1,3,7`") from None
    if tasks.throttle == 0:
        raise ValueError("`%0` lets no task run; leave the limit out, or give at least 1")
    return tasks


def beyond_limit(tasks: TaskSet, max_array_size: int) -> str | None:
    """Why a cluster with that MaxArraySize refuses the array; None where it does not.

    MaxArraySize bounds the highest index, not the number of tasks: `1001-2000` is refused where it is 1001.
    """
    highest = max(tasks.indices)
    if highest < max_array_size:
        return None
    return f"index {highest} is over {max_array_size - 1}, the highest that this cluster takes (MaxArraySize)"


def chunks(count: int, max_array_size: int) -> tuple[tuple[int, TaskSet], ...]:
    """Arrays that together run tasks 0 to count - 1 once each: (offset to add to the index, its tasks)."""
    return tuple(
        (offset, TaskSet(tuple(range(min(max_array_size, count - offset)))))
        for offset in range(0, count, max_array_size)
    )
