"""Nodes that are better left out: which ones failed, how often, and for what."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.run import events, index

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from slurmkit.run.events import Event

DAY = 86400.0
"""Seconds within which two failures for the same reason make a node suspect."""
MOST_EXCLUDED = 32
"""Nodes that a run excludes at once: more say that something else is wrong."""
MOST_RUNS = 500
"""Runs that are read, the newest of those in which anything happened within the day."""

AT_ONCE = frozenset({"node-died", "node-unfit"})
"""Kinds of ends for which the node itself is to blame, the first time already."""
PERHAPS = frozenset(
    {"crashed", "communication-timeout", "storage-failed", "disk-full", "launch-failed", "port-in-use"}
)
"""Kinds for which a node may be to blame, where they come back on it and not elsewhere."""


class Blame(NamedTuple):
    """One failure on one node."""

    node: str
    at: float
    """Seconds since 1970."""
    kind: str
    signature: str = ""
    run: str = ""

    @property
    def reason(self) -> str:
        """What is the same where a failure comes back: of a crash, the error as well."""
        return (self.signature or self.kind) if self.kind == "crashed" else self.kind


class Suspect(NamedTuple):
    """A node that failed more than once for the same reason within a day."""

    node: str
    times: int
    """Failures within the day, for whatever reason a node may be to blame for."""
    reasons: tuple[str, ...]
    """Those that came back, the most frequent first."""
    runs: tuple[str, ...]
    last: float
    is_excluded: bool = False
    """Whether a run has left it out because of that."""


def blames(told: Iterable[Event], run: str = "") -> list[Blame]:
    """The failures in a run's events for which a node is or may be to blame."""
    found: list[Blame] = []
    for event in told:
        kind = event.text("kind") or ""
        if event.kind == "diagnosed" and kind in AT_ONCE | PERHAPS:
            at, signature = event.time.timestamp(), event.text("signature") or ""
            found += [Blame(node, at, kind, signature, run) for node in nodes_of(event)]
    return found


def nodes_of(event: Event) -> tuple[str, ...]:
    """The nodes that a diagnosis names: those to blame, else where it failed."""
    named = event.fields.get("nodes") or [event.fields.get("host")]
    return tuple(str(node) for node in named if node) if isinstance(named, list) else ()


def excluded(told: Iterable[Event]) -> dict[str, float]:
    """The nodes that a run has left out of another allocation, and when last."""
    found: dict[str, float] = {}
    for event in told:
        if event.kind == "decided" and event.text("action") in {"requeue", "resubmit"}:
            nodes = event.fields.get("without")
            found |= {str(node): event.time.timestamp() for node in nodes or ()}
    return found


def bad_nodes(told: Sequence[Event], *, now: float | None = None) -> tuple[str, ...]:
    """The nodes that the next job of a run should leave out, those that failed last first.

    `now` in seconds since 1970; without it, the time of the last event. Failures count for a day.
    """
    if now is None:
        now = max((event.time.timestamp() for event in told), default=0.0)
    found = [one for one in blames(told) if 0 <= now - one.at <= DAY]
    left_out = {node: at for node, at in excluded(told).items() if now - at <= DAY}
    bad = {
        one.node: one.at for one in found if one.kind in AT_ONCE or is_suspect(one.node, one.reason, found)
    }
    return tuple(sorted(bad | left_out, key=lambda node: -max(bad.get(node, 0), left_out.get(node, 0))))[
        :MOST_EXCLUDED
    ]


def is_suspect(node: str, reason: str, within_a_day: Iterable[Blame]) -> bool:
    """Whether a node failed at least twice for a reason, and all others together less often.

    What befalls one node after the other is no fault of theirs.
    """
    where = Counter(one.node for one in within_a_day if one.reason == reason)
    return where[node] >= 2 and 2 * where[node] > where.total()


def suspects(
    found: Sequence[Blame], *, now: float, left_out: Iterable[str] = (), within: float = DAY
) -> tuple[Suspect, ...]:
    """The nodes with at least two failures for the same reason within a day, the worst first."""
    excluded_ones = set(left_out)
    by_node: dict[str, list[Blame]] = {}
    for one in found:
        if now - within <= one.at <= now + within:  # other hosts' clocks may be ahead
            by_node.setdefault(one.node, []).append(one)
    made = [_suspect(node, those, is_excluded=node in excluded_ones) for node, those in by_node.items()]
    return tuple(sorted((one for one in made if one), key=lambda one: (-one.times, -one.last, one.node)))


def _suspect(node: str, those: Sequence[Blame], *, is_excluded: bool) -> Suspect | None:
    reasons = [reason for reason, times in Counter(one.reason for one in those).most_common() if times >= 2]
    if not reasons:
        return None
    runs = dict.fromkeys(one.run for one in sorted(those, key=lambda one: -one.at))
    return Suspect(node, len(those), tuple(reasons), tuple(runs), max(one.at for one in those), is_excluded)


def of_all_runs(links: index.Index, *, now: float, within: float = DAY) -> tuple[Suspect, ...]:
    """The suspects of all runs that the index knows; a run that cannot be read is passed over."""
    found: list[Blame] = []
    left_out: set[str] = set()
    for told, run in _recent(links, since=now - within):
        found += blames(told, run)
        left_out |= {node for node, at in excluded(told).items() if at >= now - within}
    return suspects(found, now=now, left_out=left_out, within=within)


def _recent(links: index.Index, *, since: float) -> Iterator[tuple[list[Event], str]]:
    """The events of the newest runs in which something has happened since then, and the ids of the runs."""
    read = 0
    for paths in index.all_runs(links):
        try:
            if paths.events.stat().st_mtime < since:
                continue
            told = events.read(paths)
        except OSError:
            continue
        yield told, paths.run_id
        read += 1
        if read >= MOST_RUNS:
            return
