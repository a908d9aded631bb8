"""Values of slurmrestd's JSON, as v0.0.38 writes them (numbers, null, sentinels) and as later versions do.

Since v0.0.40 a number that may be open or unlimited is an object: `{"set": true, "infinite": false,
"number": 5}`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from slurmkit.slurm.exitcode import ExitCode
from slurmkit.slurm.rows import text_or_none
from slurmkit.slurm.states import JOB_STATES, JobState
from slurmkit.slurm.times import UNLIMITED
from slurmkit.slurm.tres import Tres

if TYPE_CHECKING:
    from collections.abc import Mapping

Json = dict[str, Any]

_INFINITE = frozenset({-1, 2**16 - 1, 2**32 - 1, 2**64 - 1})
_OPEN = frozenset({-2, 2**16 - 2, 2**32 - 2, 2**64 - 2})
_IN_MEBIBYTES = frozenset({"mem", "bb"})
_SHOWN_FIRST = (
    "COMPLETING", "STAGE_OUT", "CONFIGURING", "RESIZING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD",
    "SPECIAL_EXIT", "STOPPED", "REVOKED", "RESV_DEL_HOLD", "SIGNALING",
)  # fmt: skip
"""The order in which Slurm's commands show one flag of a state in the place of the state."""
_KNOWN_STATES = frozenset(row.name for row in JOB_STATES)


class FieldMissing(ValueError):
    """A field that must be there is not, or is of another kind."""


def need(record: Mapping[str, Any], *path: str) -> object:
    """The value of a field that every answer has.

    Raises:
        FieldMissing: names the field.
    """
    value: object = record
    for name in path:
        if not isinstance(value, dict) or name not in value:
            raise FieldMissing(f"there is no field {'/'.join(path)}")
        value = value[name]
    return value


def look(record: Mapping[str, Any], *path: str) -> object:
    """The value of a field that may be missing: None where it is."""
    try:
        return need(record, *path)
    except FieldMissing:
        return None


def records(answer: Mapping[str, Any], name: str) -> list[Json]:
    """The list of records in an answer.

    Raises:
        FieldMissing: there is no such list.
    """
    found = need(answer, name)
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise FieldMissing(f"{name} is no list of records")
    return found


def number(value: object) -> int | None:
    """A count; None where it is open or unlimited.

    Raises:
        FieldMissing: it is no number at all.
    """
    if isinstance(value, dict):
        return None if is_infinite(value) or not value.get("set", True) else number(value.get("number"))
    if value is None or value == "":
        return None
    if isinstance(value, str) and value.lstrip("-").isdigit():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FieldMissing(f"expected a number, got {value!r}")
    return None if value in _INFINITE | _OPEN else int(value)


def is_infinite(value: object) -> bool:
    """Whether it stands for UNLIMITED."""
    if isinstance(value, dict):
        return bool(value.get("infinite")) or (bool(value.get("set")) and value.get("number") in _INFINITE)
    return isinstance(value, int) and value in _INFINITE


def moment(value: object) -> datetime | None:
    """A time in seconds since 1970; 0 is none."""
    seconds = number(value)
    return datetime.fromtimestamp(seconds, UTC) if seconds else None


def minutes(value: object, *, null: timedelta | None = None) -> timedelta | None:
    """A limit in minutes; `null` is what a bare null stands for."""
    if value is None:
        return null
    if is_infinite(value):
        return UNLIMITED
    count = number(value)
    return None if count is None else timedelta(minutes=count)


def seconds(value: object) -> timedelta | None:
    """A duration in seconds."""
    count = number(value)
    return None if count is None else timedelta(seconds=count)


def text(value: object) -> str | None:
    """Text; None where it is empty, or one of Slurm's words for none.

    Raises:
        FieldMissing: it is no text.
    """
    if value is not None and not isinstance(value, str | int):
        raise FieldMissing(f"expected text, got {value!r}")
    return text_or_none(None if value is None else str(value))


def words(value: object) -> tuple[str, ...]:
    """A list of words, which older versions write as one text with commas."""
    if isinstance(value, list):
        return tuple(str(one) for one in value)
    given = text(value)
    return tuple(given.split(",")) if given else ()


def state(value: object) -> JobState:
    """A job's state as Slurm's commands show it: one flag, where there is one, in place of the state.

    Raises:
        FieldMissing: there is none.
    """
    told = [value] if isinstance(value, str) else list(words(value))
    if not told or not told[0]:
        raise FieldMissing(f"expected a state, got {value!r}")
    names = [word.upper() for word in told]
    shown = next((flag for flag in _SHOWN_FIRST if flag in names), None)
    base = next((name for name in names if name in _KNOWN_STATES), names[0])
    return JobState.parse(shown or base)


def exit_code(value: object) -> ExitCode | None:
    """An exit code: the status of wait(2), or an object of code and signal."""
    if isinstance(value, dict):
        told = value.get("signal") or {}
        signal = number(told.get("id", told.get("signal_id")))
        return ExitCode(number(value.get("return_code")) or 0, signal or 0)
    status = number(value)
    return None if status is None else ExitCode(status >> 8 & 255, status & 127)


def tres(value: object) -> Tres | None:
    """Resources: Slurm's own text, or a list of objects in which memory counts in MiB."""
    if not isinstance(value, list):
        given = text(value)
        return Tres.parse(given) if given else None
    counts = {}
    for one in value:
        kind, name, count = need(one, "type"), look(one, "name"), number(look(one, "count"))
        unit = 1024**2 if kind in _IN_MEBIBYTES else 1
        if count is not None:
            counts[f"{kind}/{name}" if name else str(kind)] = count * unit
    return Tres.of(counts) if counts else None
