"""What a text of the job file must be, beyond being text. Each check returns the text, perhaps tidied.

The model names a check by its key in `CHECKS`; it is made on every element of a list. It raises ValueError
with a sentence that says what is wrong and what is right.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from slurmkit.spec import units

if TYPE_CHECKING:
    from collections.abc import Callable

SIGNALS: Final = ("HUP", "INT", "QUIT", "ABRT", "KILL", "ALRM", "TERM", "USR1", "USR2", "URG", "CONT", "STOP",
                  "TSTP", "TTIN", "TTOU", "XCPU")  # fmt: skip
"""Signals that Slurm knows by name."""

AXES: Final = ("tensor", "pipeline", "context", "expert", "data")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_VARIABLE_PATTERN: Final = re.compile(r"[A-Za-z_*?][A-Za-z0-9_*?]*", re.ASCII)


def no_nul(text: str) -> str:
    """Text that a program can be given at all."""
    if "\0" in text:
        raise ValueError("contains a NUL character, which no program or file name can carry")
    return text


def one_line(text: str) -> str:
    """Text on one line, not empty."""
    if not no_nul(text):
        raise ValueError("is empty; leave the key out instead")
    if "\n" in text or "\r" in text:
        raise ValueError("contains a line break; it must stand on one line")
    return text


def job_name(text: str) -> str:
    """A name that Slurm, logs and mails can show: any printable text on one line."""
    one_line(text)
    if not text.strip():
        raise ValueError("is blank; give the job a name")
    if not text.isprintable():
        bad = next(letter for letter in text if not letter.isprintable())
        raise ValueError(f"contains the unprintable character U+{ord(bad):04X}; a name is printable text")
    if len(text.encode()) > 200:
        raise ValueError("is over 200 bytes long; file names are made of it")
    return text


def command(text: str) -> str:
    """A line of bash; line breaks as Unix has them."""
    if not no_nul(text).strip():
        raise ValueError("is empty; name the program to run")
    return bash(text)


def bash(text: str) -> str:
    """Lines of bash; line breaks as Unix has them."""
    return no_nul(text).replace("\r\n", "\n")


def variable_name(text: str) -> str:
    """The name of an environment variable."""
    if not _VARIABLE.fullmatch(text):
        raise ValueError(
            f"`{text}` cannot name a variable: letters, digits and `_`, not beginning with a digit"
        )
    return text


def variable_pattern(text: str) -> str:
    """The name of a variable, with `*` and `?` standing for any characters."""
    if not _VARIABLE_PATTERN.fullmatch(text):
        raise ValueError(f"`{text}` is not the name of a variable; `*` and `?` may stand in it")
    return text


def duration(text: str) -> str:
    """A duration in its human form: `2m`, `1h30m`."""
    return units.format_duration(units.parse_duration(text))


def signal_name(text: str) -> str:
    """The name of a signal, without SIG: `USR1`; a number of one is taken too."""
    name = text.strip().upper().removeprefix("SIG")
    if name not in SIGNALS and not (name.isascii() and name.isdigit() and 1 <= int(name) <= 64):
        raise ValueError(f"`{text}` is not a signal; Slurm knows {', '.join(SIGNALS)}")
    return name


def regular_expression(text: str) -> str:
    """A regular expression of Python's with a group."""
    try:
        groups = re.compile(one_line(text)).groups
    except re.error as error:
        raise ValueError(f"is not a regular expression: {error}") from None
    if not groups:
        raise ValueError("has no group; put the number in parentheses: `step (\\d+)`")
    return text


def axis(text: str) -> str:
    """The name of an axis of the mesh."""
    if text not in AXES:
        raise ValueError(f"`{text}` is not an axis; the mesh has {', '.join(AXES)}")
    return text


CHECKS: Final[dict[str, Callable[[str], str]]] = {
    "name": job_name,
    "command": command,
    "bash": bash,
    "word": one_line,
    "words": one_line,
    "path": one_line,
    "argument": no_nul,
    "names": variable_pattern,
    "variables": no_nul,
    "duration": duration,
    "signal": signal_name,
    "pattern": regular_expression,
    "axes": axis,
}
