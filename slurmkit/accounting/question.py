"""What a report is asked: the time, the jobs, the grouping."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slurmkit.accounting.periods import GROUPED_BY_TIME, local_zone
from slurmkit.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime, tzinfo

GROUPS = ("account", "user", "partition", "qos", "state", "cluster", "gpu_type", *GROUPED_BY_TIME)
"""What jobs may be grouped by, one or two at once."""

MOST_GROUPS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Which jobs, when, and how they are grouped. Empty tuples do not choose."""

    since: datetime | None = None
    """None: from the first record on."""
    until: datetime | None = None
    """This moment is outside; None: to the last record."""
    zone: tzinfo
    """Where days and hours are those of a person."""
    by: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    qos: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    """Of jobs; `*` and `?` stand for anything."""
    jobs: tuple[str, ...] = ()
    """Ids: 12, 12_3, 159+1; the number of an array or het job stands for all of it."""
    limit: int | None = None
    """Rows of a table that lists single things, such as jobs."""


def question(
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    zone: tzinfo | None = None,
    by: Iterable[str] = (),
    states: Iterable[str] = (),
    limit: int | None = None,
    **chosen: Iterable[str],
) -> Question:
    """A checked question; `chosen` are its other fields. Words may be joined by commas.

    Raises:
        UsageError: an unknown group or too many, or a window that ends before it begins.
    """
    groups = tuple(_group(word) for word in words(by))
    if len(groups) > MOST_GROUPS:
        raise UsageError(f"by takes at most two groups, not {len(groups)}: {', '.join(groups)}")
    if len(set(groups)) < len(groups):
        raise UsageError(f"by has {groups[0]} twice")
    if since and until and until <= since:
        raise UsageError(
            f"the window ends before it begins: since {since:%Y-%m-%d %H:%M}, until {until:%Y-%m-%d %H:%M}"
        )
    return Question(
        since=since,
        until=until,
        zone=zone or local_zone(),
        by=groups,
        states=tuple(word.upper() for word in words(states)),
        limit=limit,
        **{name: words(value) for name, value in chosen.items()},
    )


def words(given: Iterable[str]) -> tuple[str, ...]:
    """One text, or several, each of which may be a list with commas, as single words."""
    texts = [given] if isinstance(given, str) else given
    return tuple(word.strip() for text in texts for word in text.split(",") if word.strip())


def _group(word: str) -> str:
    name = word.lower().replace("-", "_").replace(" ", "_")
    if name not in GROUPS:
        from difflib import get_close_matches

        near = get_close_matches(name, GROUPS, 1)
        raise UsageError(
            f"jobs cannot be grouped by {word!r}",
            hint=f"did you mean {near[0]}?" if near else f"one of {', '.join(GROUPS)}",
        )
    return name
