"""What the clients of one cluster may tell differently, and how their records are laid side by side."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from slurmkit.slurm.exitcode import ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from slurmkit.slurm.records import Job, Node, Partition

MOMENT = timedelta(seconds=2)
"""The clients are asked one after the other: what still runs has grown older meanwhile."""

ALL = ("v0.0.38", "v0.0.42", "v0.0.45")


class Forced(NamedTuple):
    """A field that an API version does not tell as the commands do, what stands there instead, and why."""

    apis: tuple[str, ...]
    record: str
    field: str
    instead: tuple[object, ...]
    why: str


FORCED = (
    Forced(("v0.0.38",), "accounting", "submit_line", (None,), "the API has no such field"),
    Forced(
        ("v0.0.38",),
        "accounting",
        "exit_code",
        (None,),
        "for every program that ended by itself it writes SUCCESS and 0, whatever its code was",
    ),
    Forced(
        ("v0.0.38",),
        "accounting",
        "time_limit",
        (None,),
        "of jobs that have not started it writes null for UNLIMITED, as for a limit that is not set",
    ),
    Forced(
        ("v0.0.38",),
        "queue",
        "cpus",
        (3,),
        "of a waiting exclusive job it tells those asked for: one on each of three nodes, not all of theirs",
    ),
    Forced(("v0.0.38",), "step", "exit_code", (None,), "as for jobs"),
    Forced(("v0.0.42",), "accounting", "exit_code", (ExitCode(137, 0),), "it tells 137; sacct makes 9 of it"),
    Forced(("v0.0.42",), "step", "exit_code", (ExitCode(137, 0), ExitCode(143, 0)), "as for jobs"),
    Forced(("v0.0.42",), "partition", "is_default", (False,), "the API leaves the flags of a partition out"),
    Forced(ALL, "config", "*", (None,), "the API has no page for the configuration: what it tells aside"),
)
"""Nothing else may differ."""

CANNOT = {
    "signal": ("v0.0.38",),
    "requeue": ("v0.0.38", "v0.0.42"),
    "end_steps": ALL,
    "topology": ALL,
    "update of one task of an array": ("v0.0.42", "v0.0.45"),
}
"""What is refused, with the command that does it on the cluster, because the API version has no way to."""


def differences(
    kind: str, api: str, ours: Sequence[Job | Node | Partition], theirs: Sequence[Job | Node | Partition]
) -> list[str]:
    """Every field that two clients tell differently, but for those that the table allows."""
    left, right = _by_name(ours), _by_name(theirs)
    missing = [f"only one of the two has {name}" for name in left.keys() ^ right.keys()]
    return missing + [
        text
        for name in left.keys() & right.keys()
        for text in _fields(kind, api, name, left[name], right[name])
    ]


def _by_name(records: Iterable[Any]) -> dict[str, Any]:
    return {_name(one): one for one in records}


def _name(one: Any) -> str:
    """The id of a job and of its attempt, of a step, or the name of what has no id."""
    if not hasattr(one, "id"):
        return str(one.name)
    return f"{one.id} of {one.submit_time}" if hasattr(one, "submit_time") else str(one.id)


def _fields(kind: str, api: str, name: str, left: Any, right: Any) -> Iterator[str]:
    for field in left._fields:
        ours, theirs = getattr(left, field), getattr(right, field)
        if field == "steps":
            yield from differences("step", api, ours, theirs)
        elif ours != theirs and not (
            _is_forced(kind, api, field, theirs) or _has_grown(field, left, ours, theirs)
        ):
            yield f"{kind} {name}: {field} is {ours!r} to the commands, {theirs!r} over {api}"


def _is_forced(kind: str, api: str, field: str, theirs: object) -> bool:
    return any(
        api in row.apis and row.record == kind and row.field in {field, "*"} and theirs in row.instead
        for row in FORCED
    )


def _has_grown(field: str, left: Any, ours: Any, theirs: Any) -> bool:
    is_open = left.end_time is None if hasattr(left, "end_time") else False
    return field == "elapsed" and is_open and abs(ours - theirs) <= MOMENT
