"""What has befallen a run so far, as its policy needs to know it. Pure: events in, facts out."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from slurmkit.run.events import Event


class Failure(NamedTuple):
    """An end that was diagnosed, of whatever kind, and that something was decided about."""

    at: float
    kind: str
    signature: str
    checkpoint_step: int | None = None
    """Of the newest complete checkpoint then."""
    at_step: int | None = None
    nodes: tuple[str, ...] = ()
    """Where it failed."""
    attempt: str = ""


class Past(NamedTuple):
    """The ends before the one in question, oldest first, and what was done about them."""

    failures: tuple[Failure, ...] = ()
    restarts: int = 0
    """In place, in this attempt."""
    requeues: int = 0
    """Requeues and resubmits of the run."""
    best_checkpoint: int | None = None
    saved_since: bool = False
    """Whether a checkpoint has become complete since the last failure, whatever its step."""


def past(events: Iterable[Event], *, attempt: str | None) -> Past:
    """What the events say about an attempt and those before it; of an array, about its own task alone.

    A diagnosis counts once something was decided about it: the one in question, written or not, is not part of it.
    """
    task = None if attempt is None else task_of(attempt)
    failures: list[Failure] = []
    open_ones: dict[str, Failure] = {}
    moved: set[str] = set()
    restarts, best, saved_since = 0, None, False
    for event in events:
        name = event.text("attempt") or ""
        if task is not None and name and task_of(name) != task:
            continue
        if event.kind == "diagnosed":
            open_ones[name] = _failure(event, name)
        elif event.kind == "decided":
            if name in open_ones:
                failures.append(open_ones.pop(name))
                saved_since = False
            action = event.text("action")
            restarts += action == "restart" and name == attempt
            if action in {"requeue", "resubmit"}:
                moved.add(name)
        elif event.kind == "checkpoint-complete":
            saved_since = True
            step = event.number("at_step")
            if step is not None:
                best = step if best is None else max(best, step)
    return Past(tuple(failures), restarts, len(moved), best, saved_since)


def task_of(attempt: str) -> str:
    """The task of an array that an attempt is of: "7" of `1234_7-0`; empty where there is none."""
    return attempt.rpartition("-")[0].partition("_")[2]


def _failure(event: Event, attempt: str) -> Failure:
    nodes = event.fields.get("nodes") or [event.fields.get("host")]
    return Failure(
        at=event.time.timestamp(),
        kind=event.text("kind") or "unknown",
        signature=event.text("signature") or "",
        checkpoint_step=event.number("checkpoint_step"),
        at_step=event.number("at_step"),
        nodes=tuple(str(node) for node in nodes if node),
        attempt=attempt,
    )
