"""What the agent found out about the last step of a run: unfit nodes, stragglers, a hang, the first failure.

Pure: events in, findings out. Each start of an attempt begins anew; that of a step keeps what the checks of
its nodes found.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from slurmkit.run import sentences
from slurmkit.run.progress import Straggler

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from slurmkit.run.events import Event

Reasons = dict[str, tuple[str, ...]]
"""Nodes, and what was found wrong with each."""


class Hang(NamedTuple):
    """A step in which no rank got on any more."""

    time: datetime
    since: float | None = None
    """When the last progress was heard of, in seconds since 1970."""
    step: int | None = None
    after: float | None = None
    """Seconds of silence after which it counted as hung."""
    stacks: str | None = None
    """The folder of the ranks' stacks."""


class Findings(NamedTuple):
    """All that is known; what was not found is empty or None."""

    unfit: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    warnings: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    stragglers: tuple[Straggler, ...] = ()
    hang: Hang | None = None
    first_failure: Mapping[str, Any] | None = None
    """Of `step-ended`: rank, host, exit_code or signal, stderr_tail, at, cause."""
    ranks_failed: int = 0
    """How many others failed after it."""

    def troubles(self) -> Iterator[str]:
        """What keeps the run from going on, but for the failure: a sentence each."""
        for node, reasons in self.unfit.items():
            yield f"unfit node {sentences.unfit(node, reasons)}"
        if self.hang:
            yield hang_in_words(self.hang)

    def doubts(self) -> Iterator[str]:
        """What only slows it down, or may: a sentence each."""
        yield from map(sentences.straggler, self.stragglers)
        for node, reasons in self.warnings.items():
            yield f"doubtful node {sentences.unfit(node, reasons)}"

    def sentences(self) -> Iterator[str]:
        """Everything but the failure, what is worst first."""
        yield from self.troubles()
        yield from self.doubts()


def findings(events: Iterable[Event], attempt: str | None) -> Findings:
    """What was found in an attempt, up to its last event."""
    found = Findings()
    slow: dict[tuple[int | None, str], Straggler] = {}
    for event in events:
        if attempt is None or event.text("attempt") not in {attempt, None}:
            continue
        match event.kind:
            case "attempt-started":
                found, slow = Findings(), {}
            case "step-started":
                found, slow = Findings(unfit=found.unfit, warnings=found.warnings), {}
            case "straggler":
                one = straggler_of(event)
                slow[one.rank, one.host] = one
            case "straggler-gone":
                slow.pop((event.number("rank"), event.text("host") or ""), None)
            case _:
                found = found._replace(**_changes(event))
    return found._replace(stragglers=tuple(slow.values()))


def _changes(event: Event) -> dict[str, Any]:
    match event.kind:
        case "nodes-checked":
            return {"unfit": nodes_of(event, "unfit"), "warnings": nodes_of(event, "warnings")}
        case "hung":
            return {"hang": hang_of(event)}
        case "step-ended":
            failure = event.fields.get("first_failure")
            return {
                "first_failure": failure if isinstance(failure, dict) else None,
                "ranks_failed": event.number("ranks_failed") or 0,
            }
    return {}


def nodes_of(event: Event, name: str) -> Reasons:
    """The nodes that an event lists with their reasons."""
    listed = event.fields.get(name)
    return {
        str(one.get("node")): tuple(map(str, one.get("reasons") or ()))
        for one in (listed if isinstance(listed, list) else ())
        if isinstance(one, dict)
    }


def straggler_of(event: Event) -> Straggler:
    """The straggler that an event names."""
    own, median = event.fields.get("own"), event.fields.get("median")
    return Straggler(
        event.number("rank"),
        event.text("host") or "",
        phase=event.text("phase"),
        own=own if isinstance(own, int | float) else None,
        median=median if isinstance(median, int | float) else None,
        since=event.time,
    )


def hang_of(event: Event) -> Hang:
    """The hang that an event tells of."""
    since, after = event.fields.get("since"), event.fields.get("after")
    return Hang(
        event.time,
        since=since if isinstance(since, int | float) else None,
        step=event.number("step"),
        after=after if isinstance(after, int | float) else None,
        stacks=event.text("stacks"),
    )


def hang_in_words(hang: Hang) -> str:
    """For how long nothing moved, at which step, and where the stacks are."""
    text = "hung: no rank made progress"
    if hang.since is not None:
        text += f" for {sentences.duration(hang.time.timestamp() - hang.since)}"
    if hang.step is not None:
        text += f", the last step was {hang.step}"
    return text + (f"; stacks: {hang.stacks}" if hang.stacks else "")
