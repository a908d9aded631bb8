"""How Slurm writes which step a process is a task of, and how many there are on each node."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing itself costs a rank milliseconds
    from collections.abc import Mapping


def step_of(environ: Mapping[str, str]) -> str | None:
    """The id of the step that Slurm started this process in; None in the batch shell, and in what it starts.

    Up to 24.11 the batch shell has no variable for it. In 26.05 it has -5, which its programs inherit.
    """
    step = environ.get("SLURM_STEP_ID") or environ.get("SLURM_STEPID") or ""
    return step if step.isdigit() else None


def tasks_per_node(text: str) -> list[int]:
    """The task count of each node in the step's order: `4(x2),2` is [4, 4, 2].

    Raises:
        ValueError: the text is not of that form; the message names the faulty part.
    """
    counts = []
    for part in text.split(","):
        count, bracket, times = part.strip().partition("(x")
        repeat = times[:-1] if bracket and times.endswith(")") else "" if bracket else "1"
        if not (_is_count(count) and _is_count(repeat)):
            raise ValueError(f"{part!r} is not a task count such as 4 or 4(x2), in {text!r}")
        counts.extend([int(count)] * int(repeat))
    return counts


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text) > 0
