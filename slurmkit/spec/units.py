"""Times, memory and counts: every form that Slurm takes and the human ones, out to Slurm's own.

Pure, and in the standard library only, so that commands which never read a job file may use it too.
Every parser raises ValueError with a sentence that says what is wrong and what is right.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import datetime

Seconds = int
"""A duration; None stands for UNLIMITED wherever a parser here gives `Seconds | None`."""

TIME_FORMS: Final = "90 (minutes), 1:30:00, 1-12:00:00, 1h30m, 2d or UNLIMITED"
MEMORY_FORMS: Final = "64G, 1.5G, 64000 (megabytes) or 0 (all of the node)"

_LARGEST_TIME: Final = 2**31 - 1
_LARGEST_MEMORY: Final = 2**53
_UNIT_SECONDS: Final = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_UNIT_NAMES: Final = {
    "w": ("w", "week", "weeks"),
    "d": ("d", "day", "days"),
    "h": ("h", "hr", "hrs", "hour", "hours"),
    "m": ("m", "min", "mins", "minute", "minutes"),
    "s": ("s", "sec", "secs", "second", "seconds"),
}
_UNIT_OF_NAME: Final = {name: unit for unit, names in _UNIT_NAMES.items() for name in names}
_HUMAN_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)\s*", re.ASCII)
_SLURM_TIME: Final = re.compile(
    r"(?:(?P<days>[0-9]{1,7})-)?(?P<clock>[0-9]{1,10}(?::[0-9]{1,10}){0,2})", re.ASCII
)
_MEMORY: Final = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*([KMGTP]?)(?:I?B)?", re.ASCII | re.IGNORECASE)
_MEGABYTES: Final = {"": 1.0, "K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3}
_COUNT: Final = re.compile(r"([0-9]{1,18})([KMGTP]?)", re.ASCII | re.IGNORECASE)


def parse_time(value: str | int | datetime.time) -> Seconds | None:
    """Seconds of a Slurm time or a human duration; None for UNLIMITED.

    A bare number is minutes and `a:b` is minutes and seconds, as sbatch reads them; a TOML time such as
    04:00:00 is hours, minutes and seconds.
    """
    if isinstance(value, int):
        return _bounded(value * 60, str(value))
    if not isinstance(value, str):
        if value.microsecond:
            raise ValueError("a time limit has no fractions of a second")
        return (value.hour * 60 + value.minute) * 60 + value.second
    text = value.strip()
    if text.upper() in {"UNLIMITED", "INFINITE", "-1"}:
        return None
    slurm = _SLURM_TIME.fullmatch(text)
    if slurm is not None:
        return _bounded(_clock_seconds(slurm["days"], slurm["clock"]), text)
    return parse_duration(text, bare="minutes")


def _clock_seconds(days: str | None, clock: str) -> int:
    parts = [int(part) for part in clock.split(":")]
    weights = (3_600, 60, 1) if days is not None or len(parts) == 3 else (60, 1)
    return int(days or 0) * 86_400 + sum(part * weight for part, weight in zip(parts, weights, strict=False))


def is_minutes_and_seconds(value: object) -> bool:
    """Whether `value` is text such as `4:00`, which Slurm reads as minutes and people as hours."""
    return isinstance(value, str) and re.fullmatch(r"\s*[0-9]+:[0-9]+\s*", value, re.ASCII) is not None


def parse_duration(value: str, *, bare: str | None = None) -> Seconds:
    """Seconds of a human duration such as `90s`, `2m`, `1h30m` or `1.5h`; `h:mm:ss` is taken too."""
    text = value.strip()
    if re.fullmatch(r"[0-9]+:[0-9]{1,2}:[0-9]{1,2}", text, re.ASCII):
        return _bounded(_clock_seconds(None, text), text)
    total = 0.0
    position = 0
    rank = -1
    while position < len(text):
        part = _HUMAN_PART.match(text, position)
        unit = _UNIT_OF_NAME.get(part[2].lower()) if part else None
        if part is None or unit is None or list(_UNIT_SECONDS).index(unit) <= rank:
            raise ValueError(_not_a_duration(value, bare))
        rank = list(_UNIT_SECONDS).index(unit)
        total += float(part[1]) * _UNIT_SECONDS[unit]
        position = part.end()
    if not text:
        raise ValueError(_not_a_duration(value, bare))
    return _bounded(math.ceil(round(total, 6)), text)


def _not_a_duration(text: str, bare: str | None) -> str:
    forms = TIME_FORMS if bare else "30s, 2m, 1h30m or 1:30:00"
    return f"`{text}` is not a {'time' if bare else 'duration'}; write {forms}"


def _bounded(seconds: int, text: str) -> int:
    if not 0 <= seconds <= _LARGEST_TIME:
        raise ValueError(f"`{text}` is outside what Slurm can hold (0 to {_LARGEST_TIME // 86_400} days)")
    return seconds


def format_time(seconds: Seconds | None) -> str:
    """Slurm's own form: `1:30:00`, `1-12:00:00`, `UNLIMITED`."""
    if seconds is None:
        return "UNLIMITED"
    days, rest = divmod(seconds, 86_400)
    hours, rest = divmod(rest, 3_600)
    minutes, left = divmod(rest, 60)
    if days:
        return f"{days}-{hours:02d}:{minutes:02d}:{left:02d}"
    return f"{hours}:{minutes:02d}:{left:02d}"


def format_duration(seconds: Seconds) -> str:
    """The human form that `parse_duration` reads: `2m`, `1h30m`, `0s`."""
    parts = []
    for unit in ("d", "h", "m", "s"):
        count, seconds = divmod(seconds, _UNIT_SECONDS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def slurm_minutes(seconds: Seconds) -> int:
    """The limit that Slurm keeps: whole minutes, rounded up."""
    return -(-seconds // 60)


def parse_memory(value: str | int) -> int:
    """MiB of a memory size, rounded up: a bare number is MiB, `1.5G` is 1536, 0 is all of the node."""
    if isinstance(value, int):
        value = str(value)
    match = _MEMORY.fullmatch(value.strip())
    if match is None:
        raise ValueError(f"`{value}` is not a memory size; write {MEMORY_FORMS}")
    number, unit = match[1], match[2].upper()
    exact = int(number) * _MEGABYTES[unit] if number.isdigit() else float(number) * _MEGABYTES[unit]
    if exact > _LARGEST_MEMORY:
        raise ValueError(f"`{value}` is more memory than Slurm can hold")
    return math.ceil(exact)


def format_memory(mebibytes: int) -> str:
    """Slurm's own form, always in M: `65536M`; `0` stands for all of the node."""
    return f"{mebibytes}M" if mebibytes else "0"


def parse_count(value: str | int, *, least: int = 0) -> int:
    """A whole number; `k`, `m`, `g` multiply by powers of 1024, as Slurm's counts have it."""
    match = _COUNT.fullmatch(str(value).strip())
    if match is None:
        raise ValueError(f"`{value}` is not a count; write a whole number such as 8 or 2k")
    factor: int = 1024 ** " KMGTP".index(match[2].upper() or " ")
    number = int(match[1]) * factor
    if number < least:
        raise ValueError(f"`{value}` is too small: at least {least}")
    if number >= 2**63:
        raise ValueError(f"`{value}` is more than Slurm can count")
    return number
