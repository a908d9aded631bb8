"""How values stand in a script: as words of bash, and in `#SBATCH` lines."""

from __future__ import annotations

import re
import shlex
from typing import Final

_STEERING: Final = re.compile(r"[\x01-\x08\x0b-\x1f\x7f]")
_RESERVED: Final = frozenset({"if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done",
                              "case", "esac", "in", "select", "function", "time", "coproc"})  # fmt: skip
_PLAIN: Final = re.compile(r"[\w@%+=:,./\[\]*&|^~!()-]+", re.ASCII)


def shell_quoted(text: str) -> str:
    """A word that bash reads back as `text`.

    Control characters are spelled out: sbatch refuses a script with a carriage return at the end of a line.
    """
    if (text.startswith("=") or text in _RESERVED) and shlex.quote(text) == text:
        return f"'{text}'"  # bash needs no quotes here, but readers and shellcheck see syntax
    if not _STEERING.search(text):
        return shlex.quote(text)
    plain = text.replace("\\", "\\\\").replace("'", "\\'")
    return "$'" + _STEERING.sub(lambda found: f"\\{ord(found[0]):03o}", plain) + "'"


def directive_quoted(text: str) -> str:
    """A value on one line as sbatch's own parser of directives reads it back.

    It cuts at blanks, takes `#` for a comment, knows quotes and backslashes in them, and expands nothing.
    """
    if _PLAIN.fullmatch(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
