"""An sbatch script as sbatch itself reads it.

Seen on sbatch 22.05: a directive begins in the first column and ends before the first command; blank and
comment lines may stand between. Values are cut at blanks outside quotes; a backslash takes the next character
as it is, in either kind of quotes too; `#` outside quotes begins a comment, inside a word as well. The words
of all lines are one command line, read as getopt_long does: `-N2`, `-N 2`, `-Ht5`, unique starts of names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from slurmkit.script.shell import commands
from slurmkit.spec.options import BY_SHORT, OPTIONS, Option, find

if TYPE_CHECKING:
    from collections.abc import Iterator

Fault = Literal["unknown", "ambiguous", "no value", "unwanted value", "stray word", "open quote"]
WORD: Final = "#SBATCH"
_NAMES: Final = tuple(option.flag_text for option in OPTIONS)
_ALIKE: Final = re.compile(r"(\s*)(#+)(\s*)SBATCH\s+-")
_SPACES: Final = " \t\v\f\r"


@dataclass(frozen=True, slots=True)
class Directive:
    """One option of one `#SBATCH` line. The value is text; None where the option stands without one."""

    line: int
    option: Option
    value: str | None


@dataclass(frozen=True, slots=True)
class Faulty:
    """What sbatch refuses a script for: the word, and what is wrong with it."""

    line: int
    word: str
    fault: Fault


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the script by its number, which counts from 1; without its end."""

    number: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SbatchFile:
    """What sbatch makes of a script. `body` is all but the `#!` line and the directives."""

    shebang: str | None
    directives: tuple[Directive, ...]
    faults: tuple[Faulty, ...]
    body: tuple[Line, ...]
    first_command: int | None
    """Number of the line that ends the directives."""
    has_dos_line_ends: bool

    @property
    def values(self) -> dict[str, str | None]:
        """Option names to values, the last of each, as sbatch takes it."""
        return {one.option.name: one.value for one in self.directives}


def parse(text: str) -> SbatchFile:
    """Read a script; nothing in it makes this fail."""
    lines = [Line(number, line.rstrip("\r")) for number, line in enumerate(text.split("\n"), 1)]
    shebang = lines[0].text if lines[0].text.startswith("#!") else None
    first_command = next((one.number for one in lines if one.text.strip() and not _is_comment(one)), None)
    words: list[Line] = []
    faults: list[Faulty] = []
    body: list[Line] = []
    for line in lines[1:] if shebang else lines:
        if not line.text.startswith(WORD) or (first_command and line.number > first_command):
            body.append(line)
            continue
        found, is_open = _words(line.text.removeprefix(WORD))
        words += (Line(line.number, word) for word in found)
        if is_open:
            faults.append(Faulty(line.number, found[-1], "open quote"))
    directives = []
    for one in _options(words):
        if isinstance(one, Directive):
            directives.append(one)
        else:
            faults.append(one)
    return SbatchFile(
        shebang=shebang,
        directives=tuple(directives),
        faults=tuple(sorted(faults, key=lambda fault: fault.line)),
        body=tuple(body),
        first_command=first_command,
        has_dos_line_ends="\r\n" in text,
    )


def ignored_directives(script: SbatchFile) -> tuple[tuple[Line, str], ...]:
    """Lines that look like directives and are none to sbatch, each with the reason."""
    inside = {
        one.line + offset
        for one in commands(script.body)
        if "<<" in one.text
        for offset in range(1, one.text.count("\n") + 1)
    }
    found = []
    for line in script.body:
        match = _ALIKE.match(line.text)
        if match is None or line.number in inside:
            continue
        indent, hashes, gap = match.groups()
        if len(hashes) > 1:
            reason = "has two `#`, which makes it a comment"
        elif gap:
            reason = "has a blank after the `#`, which makes it a comment"
        elif indent:
            reason = "is indented; a directive begins in the first column"
        else:
            reason = (
                f"stands after the first command (line {script.first_command}), where sbatch stops reading"
            )
        found.append((line, reason))
    return tuple(found)


def _is_comment(line: Line) -> bool:
    return line.text.lstrip().startswith("#")


def _words(text: str) -> tuple[list[str], bool]:
    """The words of a directive, and whether a quote is still open at its end."""
    words: list[str] = []
    word = quote = ""
    characters = iter(text)
    for character in characters:
        if character == "\\":
            word += next(characters, "")
        elif quote:
            if character == quote:
                quote = ""
            else:
                word += character
        elif character in "\"'":
            quote = character
        elif character == "#":
            break
        elif character in _SPACES:
            words += [word] if word else []
            word = ""
        else:
            word += character
    return [*words, word] if word or quote else words, bool(quote)


def _options(words: list[Line]) -> Iterator[Directive | Faulty]:
    """Options of a command line, as getopt_long finds them."""
    rest = iter(words)
    for word in rest:
        if word.text == "--":
            yield from (Faulty(one.number, one.text, "stray word") for one in rest)
        elif word.text.startswith("--"):
            yield _long(word, rest)
        elif word.text.startswith("-") and len(word.text) > 1:
            yield from _short(word, rest)
        else:
            yield Faulty(word.number, word.text, "stray word")


def _long(word: Line, rest: Iterator[Line]) -> Directive | Faulty:
    name, equals, value = word.text.partition("=")
    meant = [name] if name in _NAMES else [one for one in _NAMES if one.startswith(name)]
    option = find(meant[0]) if meant else None
    # getopt knows dashes only, the table underscores too.
    if option is None or "_" in name:
        return Faulty(word.number, name, "unknown")
    if len(meant) > 1:
        return Faulty(word.number, name, "ambiguous")
    if option.takes == "flag":
        fault = Faulty(word.number, word.text, "unwanted value")
        return fault if equals else Directive(word.number, option, None)
    if equals or option.takes == "optional value":
        return Directive(word.number, option, value if equals else None)
    return _with_next(word, name, option, rest)


def _short(word: Line, rest: Iterator[Line]) -> Iterator[Directive | Faulty]:
    text = word.text[1:]
    while text:
        letter, text = text[0], text[1:]
        option = BY_SHORT.get(letter)
        if option is None:
            yield Faulty(word.number, f"-{letter}", "unknown")
            return
        if option.takes == "flag":
            yield Directive(word.number, option, None)
            continue
        if text or option.takes == "optional value":
            yield Directive(word.number, option, text or None)
        else:
            yield _with_next(word, f"-{letter}", option, rest)
        return


def _with_next(word: Line, spelled: str, option: Option, rest: Iterator[Line]) -> Directive | Faulty:
    following = next(rest, None)
    if following is None:
        return Faulty(word.number, spelled, "no value")
    return Directive(word.number, option, following.text)
