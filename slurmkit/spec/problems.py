"""What is wrong with a job file, as text: file:line:column, the line, a caret, and what is right.

Nothing here runs for a sound file: positions are looked up only to print a problem.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

    from slurmkit.spec.positions import Span

KeyPath = tuple[str | int, ...]
"""Where a value stands: keys of tables and indices of lists, from the top."""


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong, at a key or at its value."""

    path: KeyPath
    what: str
    right: str = ""
    at: Literal["key", "value"] = "value"
    also: KeyPath | None = None
    """The other side of a contradiction."""


class Source(msgspec.Struct, frozen=True):
    """Where values come from: a file, or one `--set`."""

    label: str
    """The file's name as it was given, or the whole `--set` argument."""
    text: str | None = None
    """The file's text; None for a `--set`."""
    prefix: KeyPath = ()
    """Where in the file the keys of the job file begin; `defaults` in a profile."""


def dotted(path: KeyPath) -> str:
    """The path as TOML writes it: `resources.nodes`, `environment.variables."A B"`, `command[2]`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            word = part if re.fullmatch(r"[A-Za-z0-9_-]+", part) else '"' + part.replace('"', '\\"') + '"'
            text += f".{word}" if text else word
    return text


def printable(text: str) -> str:
    """Text that neither breaks a line nor steers a terminal: control characters are escaped."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def place(source: Source, path: KeyPath, at: Literal["key", "value"] = "key") -> str:
    """`job.toml:7:1` for a value of a file; the label where there is no text."""
    span = span_of(source, path, at)
    return source.label if span is None else f"{source.label}:{span.line}:{span.column}"


def describe(problem: Problem, source_of: Callable[[KeyPath], Source]) -> str:
    """The whole text of one problem."""
    source = source_of(problem.path)
    span = span_of(source, problem.path, problem.at)
    lines = [printable(f"{place(source, problem.path, problem.at)}: {problem.what}")]
    if span is not None and source.text is not None and problem.path:
        lines += excerpt(source.text, span)
    if problem.also is not None:
        other = place(source_of(problem.also), problem.also)
        lines.append(printable(f"  the other one: {dotted(problem.also)} at {other}"))
    if problem.right:
        lines.append(printable(f"  {problem.right}"))
    return "\n".join(lines)


def excerpt(text: str, span: Span, *, widest: int = 160) -> list[str]:
    """The line of `span` with its number, and a caret under what is meant; long lines are cut around it."""
    lines = text.split("\n")
    line = lines[span.line - 1].rstrip("\r") if span.line <= len(lines) else ""
    start = max(0, span.column - 1 - widest // 2) if len(line) > widest else 0
    shown = "".join(letter if letter.isprintable() else "\t" if letter == "\t" else "?" for letter in line)
    shown = shown[start : start + widest]
    before = shown[: span.column - 1 - start]
    pad = "".join("\t" if letter == "\t" else " " for letter in before)
    carets = "^" * max(1, min(span.width, len(shown) - len(before)))
    number = str(span.line)
    return [f"  {number} | {shown}", f"  {' ' * len(number)} | {pad}{carets}"]


def span_of(source: Source, path: KeyPath, at: Literal["key", "value"]) -> Span | None:
    """Where `path`, or the nearest table around it that the file has, stands in the source."""
    if source.text is None:
        return None
    from slurmkit.spec.positions import Span, positions

    known = positions(source.text)
    full = source.prefix + path
    for length in range(len(full), 0, -1):
        found = known.get(full[:length])
        if found is not None:
            return found.value if at == "value" and length == len(full) else found.key
    return Span(1, 1, 1)
