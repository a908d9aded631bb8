"""Values of [resources]: each checked by its option's kind and brought into Slurm's own form.

Every function raises ValueError with a sentence that says what is wrong and what is right.
"""

from __future__ import annotations

import datetime
import re
from typing import TYPE_CHECKING, Final

from slurmkit.spec import units
from slurmkit.spec.checks import one_line, signal_name, variable_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from slurmkit.spec.model import OptionValue
    from slurmkit.spec.options import Kind, Option

_MOMENT: Final = re.compile(
    r"(?:now(?:\+\d+(?:second|minute|hour|day|week)?s?)?|today|tomorrow|midnight|noon|fika|teatime"
    r"|(?:\d{1,2}[/.]?\d{1,2}(?:[/.]?\d{2})?|\d{4}-\d{1,2}-\d{1,2}|today|tomorrow)?"
    r"[-T]?\d{1,2}:\d{2}(?::\d{2})?\s*(?:am|pm)?|\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[/.]?\d{1,2}(?:[/.]?\d{2})?)",
    re.ASCII | re.IGNORECASE,
)
_SIZES: Final = re.compile(r"\d+(?:-\d+(?::\d+)?)?(?:,\d+(?:-\d+(?::\d+)?)?)*", re.ASCII)


def normalise(option: Option, value: object) -> OptionValue:
    """`value`, as TOML has it, in the form in which Slurm takes it; True for an option without a value."""
    if option.takes == "flag":
        if value is True:
            return True
        raise ValueError("is true or false: the option has no value")
    if value is True:
        if option.takes == "optional value":
            return True
        raise ValueError(f"needs a value. {option.about}")
    if isinstance(value, list):
        if option.kind not in LISTS:
            raise ValueError(f"expected one value, got a list. {option.about}")
        value = ",".join(map(str, value))
    if isinstance(value, str):
        one_line(value)
    return _NORMALISERS[option.kind](option, value)


def _text(option: Option, value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return str(value)
    raise ValueError(f"expected text, got {value}; write it in quotes. {option.about}")


def _number_or_text(value: object) -> str | int:
    if isinstance(value, str | int):
        return value
    raise ValueError(f"expected a whole number or text, got {value}")


def _choice(option: Option, value: object) -> str:
    text = _text(option, value)
    if option.takes == "optional value" and text.lower() not in map(str.lower, option.choices):
        raise ValueError(f"`{text}` is not one of true, false, {', '.join(option.choices)}")
    return _one_of(option.choices, text)


def _one_of(choices: tuple[str, ...], text: str) -> str:
    for choice in choices:
        if choice.lower() == text.lower():
            return choice
    raise ValueError(f"`{text}` is not one of {', '.join(choices)}")


def _list(option: Option, value: object) -> str:
    parts = [part.strip() for part in _text(option, value).split(",")]
    if not all(parts):
        raise ValueError("has an empty element; take out the comma too many")
    if option.choices:
        parts = [_one_of(option.choices, part) for part in parts]
    return ",".join(parts)


def _export(option: Option, value: object) -> str:
    names = _list(option, value).split(",")
    for name in names:
        if "=" in name:
            raise ValueError(
                f"`{name}` sets a variable, and sbatch cuts values at commas; use [environment] variables"
            )
        if name.upper() in {"NONE", "NIL"} and len(names) > 1:
            raise ValueError(f"`{name}` stands alone: the job sees nothing of the submitting environment")
        if name.upper() not in {"ALL", "NONE", "NIL"}:
            variable_name(name)
    return ",".join(name.upper() if name.upper() in {"ALL", "NONE", "NIL"} else name for name in names)


def _count(option: Option, value: object) -> int:
    return units.parse_count(_number_or_text(value), least=option.least)


def _integer(_option: Option, value: object) -> int:
    text = str(_number_or_text(value))
    if not re.fullmatch(r"[+-]?\d{1,10}", text, re.ASCII):
        raise ValueError(f"`{text}` is not a whole number")
    return int(text)


def _nodes(_option: Option, value: object) -> str | int:
    text = str(_number_or_text(value)).replace(" ", "")
    if "," in text or ":" in text:
        if not _SIZES.fullmatch(text):
            raise ValueError(f"`{text}` is not a list of node counts; write `2,4-8:2`")
        return text
    least, dash, most = text.partition("-")
    first = units.parse_count(least, least=1)
    if not dash:
        return first
    last = units.parse_count(most, least=1)
    if last < first:
        raise ValueError(f"`{text}` ends before it begins; write `{last}-{first}`")
    return f"{first}-{last}" if last > first else first


def _time(option: Option, value: object) -> str:
    seconds = units.parse_time(value if isinstance(value, datetime.time) else _number_or_text(value))
    return units.format_time(None if seconds == 0 and option.name == "time" else seconds)


def _memory(_option: Option, value: object) -> str:
    return units.format_memory(units.parse_memory(_number_or_text(value)))


def _signal(option: Option, value: object) -> str:
    text = _text(option, value)
    match = re.fullmatch(r"(?:([RB]{1,2}):)?([A-Za-z0-9]+)(?:@(.+))?", text)
    if match is None:
        raise ValueError(f"`{text}` is not a signal request; write `USR1@120`, `B:TERM@2m`")
    who, name, before = match.groups()
    seconds = None if before is None else int(before) if before.isdecimal() else units.parse_duration(before)
    if seconds is not None and seconds > 65_535:
        raise ValueError(f"`{before}` is too long before the end: at most 65535 seconds")
    return (f"{who}:" if who else "") + signal_name(name) + ("" if seconds is None else f"@{seconds}")


def _array(_option: Option, value: object) -> str:
    from slurmkit.spec.arrays import parse_array

    return str(parse_array(_number_or_text(value)))


def _dependency(_option: Option, value: object) -> str:
    from slurmkit.spec.dependencies import parse_dependency

    return str(parse_dependency(_number_or_text(value)))


def _gres(option: Option, value: object) -> str:
    from slurmkit.spec.gres import parse_gres

    text = _text(option, value)
    return "none" if text.lower() == "none" else ",".join(map(str, parse_gres(text)))


def _gpus(_option: Option, value: object) -> str | int:
    from slurmkit.spec.gres import format_gpus, parse_gpus

    text = format_gpus(parse_gpus(_number_or_text(value)))
    return int(text) if text.isdigit() else text


def _tres(option: Option, value: object) -> str:
    from slurmkit.spec.gres import parse_tres

    text = _text(option, value).replace(" ", "")
    parse_tres(text)
    return text


def _moment(_option: Option, value: object) -> str:
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None:
            raise ValueError("Slurm takes the cluster's local time; leave out the offset (`Z`, `+01:00`)")
        return value.isoformat(timespec="seconds")
    if isinstance(value, datetime.time):
        return value.isoformat(timespec="seconds")
    if isinstance(value, datetime.date):
        return value.isoformat()
    text = str(_number_or_text(value))
    if not _MOMENT.fullmatch(text):
        raise ValueError(f"`{text}` is not a moment; write `16:00`, `now+1hour` or `2026-12-24T08:00:00`")
    return text


def _at(option: Option, value: object) -> str:
    """`count@time`, as of `--switches`."""
    count, at, wait = str(_number_or_text(value)).partition("@")
    number = units.parse_count(count, least=option.least)
    return f"{number}@{units.format_time(units.parse_time(wait))}" if at else str(number)


def _margin(option: Option, value: object) -> str:
    if "@" not in str(value):
        raise ValueError(f"`{value}` has no delay; write margin and delay: `20@1:00:00`")
    return _at(option, value)


LISTS: Final = frozenset({"list", "export", "gres", "gpus", "tres", "array", "dependency"})
_NORMALISERS: Final[dict[Kind, Callable[[Option, object], OptionValue]]] = {
    "text": _text,
    "list": _list,
    "export": _export,
    "choice": _choice,
    "path": _text,
    "pattern": _text,
    "count": _count,
    "integer": _integer,
    "nodes": _nodes,
    "time": _time,
    "memory": _memory,
    "signal": _signal,
    "array": _array,
    "dependency": _dependency,
    "gres": _gres,
    "gpus": _gpus,
    "tres": _tres,
    "moment": _moment,
    "switches": _at,
    "margin": _margin,
}
