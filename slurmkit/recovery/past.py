"""What has befallen a run so far, as its policy needs to know it. Pure: events in, facts out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from slurmkit.run.suspects import DAY, excluded, nodes_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from slurmkit.run.events import Event


class Failure(NamedTuple):
    """An end that was diagnosed, of whatever kind, and that something was decided about."""

    at: float
    """Seconds since 1970."""
    kind: str
    signature: str
    checkpoint_step: int | None = None
    """Of the newest complete checkpoint then."""
    at_step: int | None = None
    nodes: tuple[str, ...] = ()
    """Where it failed."""
    attempt: str = ""
    has_saved: bool = False
    """Whether a checkpoint became complete between the failure before and this one, whatever its step."""


class Past(NamedTuple):
    """The ends before the one in question, oldest first, and what was done about them."""

    failures: tuple[Failure, ...] = ()
    restarts: int = 0
    """In place, in this attempt, since the last progress."""
    requeues: int = 0
    """Requeues and resubmits of the run, of whatever reason, since the last progress."""
    best_checkpoint: int | None = None
    has_saved: bool = False
    """Whether a checkpoint has become complete since the last failure, whatever its step."""
    memory: int = 0
    """How often more memory has been asked for."""
    excluded: tuple[str, ...] = ()
    """Nodes that were left out of an allocation within the last day."""
    now: float = 0.0
    """Time of the last event, in seconds since 1970."""


def past(events: Iterable[Event], *, attempt: str | None) -> Past:
    """What the events say about an attempt and those before it; of an array, about its own task alone.

    A diagnosis counts once something was decided about it: the one in question is not part of it, whether it
    is written down already or not.
    """
    told = [event for event in events if _is_of_task(event, attempt)]
    failures: list[Failure] = []
    in_question: dict[str, Failure] = {}
    moved: set[str] = set()
    facts: dict[str, Any] = {"restarts": 0, "memory": 0, "best_checkpoint": None, "has_saved": False}
    for event in told:
        name = event.text("attempt") or ""
        match event.kind:
            case "diagnosed":
                in_question[name] = _failure(event, name)
            case "decided":
                action = event.text("action")
                facts["restarts"] += action == "restart" and name == attempt
                if action in {"requeue", "resubmit"}:
                    moved.add(name)
                    facts["memory"] += event.fields.get("memory") is not None
                if name in in_question:
                    failures.append(in_question.pop(name)._replace(has_saved=facts["has_saved"]))
                    facts["has_saved"] = False
            case "checkpoint-complete":
                facts["has_saved"] = True
                step, best = event.number("at_step"), facts["best_checkpoint"]
                if step is None or best is None or step > best:
                    # A run that comes on may be started as often as it takes.
                    facts |= {"restarts": 0, "best_checkpoint": best if step is None else step}
                    moved.clear()
    now = told[-1].time.timestamp() if told else 0.0
    return Past(
        failures=tuple(failures),
        requeues=len(moved),
        excluded=tuple(node for node, at in excluded(told).items() if now - at <= DAY),
        now=now,
        **facts,
    )


def task_of(attempt: str) -> str:
    """The task of an array that an attempt is of: "7" of `1234_7-0`; empty where there is none."""
    return attempt.rpartition("-")[0].partition("_")[2]


def _is_of_task(event: Event, attempt: str | None) -> bool:
    name = event.text("attempt")
    return attempt is None or name is None or task_of(name) == task_of(attempt)


def _failure(event: Event, attempt: str) -> Failure:
    return Failure(
        at=event.time.timestamp(),
        kind=event.text("kind") or "unknown",
        signature=event.text("signature") or "",
        checkpoint_step=event.number("checkpoint_step"),
        at_step=event.number("at_step"),
        nodes=nodes_of(event),
        attempt=attempt,
    )
