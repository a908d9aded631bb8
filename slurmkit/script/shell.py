"""Bash, as far as an importer must know it: where a command ends, its words, and which words are fixed text.

No parser of bash: what it does not understand stays one command, whole and unchanged.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from slurmkit.script.sbatch_file import Line

_HEREDOC: Final = re.compile(r"<<(-?)\s*(?:'([^'\n]+)'|\"([^\"\n]+)\"|\\?([\w.-]+))")
_IN_DOUBLE: Final = r"""(?>\\.|\$\((?>[^()"]|"[^"]*+"|\([^()]*+\))*+\)|[^"\\])*+"""
_SUBSTITUTION: Final = (
    r"""\$\((?>[^()]|\((?>[^()]|\([^()]*+\))*+\))*+\)|\$\{[^}]*+\}|`[^`]*+`|[<>]\([^)]*+\)"""
)
_ARRAY: Final = (
    rf"""(?<=[\w\]]=)\((?>\#[^\n]*+|'[^']*+'|"{_IN_DOUBLE}"|{_SUBSTITUTION}|[^()'"#]|(?<!\s)\#)*+\)"""
)
# Every group is atomic: a script that ends in the middle must not be tried in all ways.
_TOKEN: Final = re.compile(
    r"(?P<blank>(?:[ \t]|\\\n)++)|(?P<comment>\#[^\n]*+)|(?P<end>[\n;])"
    r"|(?P<operator>&&|\|\|?|&>>?|[0-9]*[<>]&[0-9-]+|[0-9]*(?:>>|<<<|<<-?|[<>](?!\())|&|\(\(|\)\)|[()])"
    rf"""|(?P<word>(?>\\.|'[^']*+'|"{_IN_DOUBLE}"|\$'(?>\\.|[^'\\])*+'"""
    rf"""|{_SUBSTITUTION}|{_ARRAY}|[^ \t\n\\'"`;&|<>()])++)""",
    re.DOTALL,
)
LONGEST: Final = 250
"""Lines; what does not end before is taken for one command with all that follows."""
_OPEN: Final = frozenset({"if", "case", "for", "while", "until", "select", "{", "(", "(("})
_CLOSE: Final = frozenset({"fi", "esac", "done", "}", ")", "))"})
_CONTINUE: Final = frozenset({"&&", "|", "||"})
_BEFORE_COMMAND: Final = frozenset({"then", "do", "else", "elif", "!", "time"})
_KEYWORDS: Final = _OPEN | _CLOSE | _BEFORE_COMMAND
_EXPANSION: Final = re.compile(r"[$`*?\[]|^~|(?<=[=:])~|\{[^}]*(?:,|\.\.)[^}]*\}")


@dataclass(frozen=True, slots=True)
class Word:
    """One word or operator of a command. `value` is its text without quotes; None where bash expands it."""

    raw: str
    value: str | None
    start: int
    is_operator: bool = False


@dataclass(frozen=True, slots=True)
class Command:
    """One command of the script's top level, with everything that belongs to it, and its first line."""

    line: int
    text: str

    @property
    def is_comment(self) -> bool:
        """Whether it says nothing to the shell."""
        return not self.text.strip() or self.text.lstrip().startswith("#")

    @property
    def parts(self) -> tuple[Command, ...]:
        """The commands of a list joined by `;` or `&&`; the command alone where it is more than a list."""
        found = self.words
        begun = [word.raw for word in found[:1]]
        begun += [word.raw for before, word in pairwise(found) if before.is_operator]
        joins = {"||", "&"}.intersection(word.raw for word in found)
        if "<<" in self.text or joins or not _KEYWORDS.isdisjoint(begun):
            return (self,)
        cuts = [(word.start, word.start + len(word.raw)) for word in found if word.raw in {";", "&&"}]
        begins = [0, *(end for _, end in cuts)]
        ends = [*(start for start, _ in cuts), len(self.text)]
        pieces = (self.text[begin:end].strip() for begin, end in zip(begins, ends, strict=True))
        return tuple(Command(self.line, piece) for piece in pieces if piece) or (self,)

    @property
    def words(self) -> tuple[Word, ...]:
        """Its words and operators; comments are left out."""
        return words(self.text)


def words(text: str) -> tuple[Word, ...]:
    """The words and operators of a command; what follows something not understood is one more word."""
    found: list[Word] = []
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            return (*found, Word(text[place:], None, place))
        if match.lastgroup == "word":
            found.append(Word(match[0], fixed(match[0]), place))
        elif match.lastgroup in {"operator", "end"}:
            found.append(Word(match[0], None, place, is_operator=True))
        place = match.end()
    return tuple(found)


def fixed(raw: str) -> str | None:
    """The text that a word stands for, where bash would expand nothing in it."""
    made = ""
    place = 0
    pieces = re.compile(r"\\\n|\\(.)|'([^']*)'|\"((?:\\.|[^\"\\])*)\"|([^\\'\"]+)", re.DOTALL)
    while place < len(raw):
        piece = pieces.match(raw, place)
        if piece is None:
            return None
        place = piece.end()
        escaped, single, double, bare = piece.groups()
        if double is not None:
            if re.search(r"(?<!\\)(?:\\\\)*[$`]", double):
                return None
            made += re.sub(r"\\([$`\"\\\n])", lambda match: match[1].strip("\n"), double)
        elif bare is not None:
            if _EXPANSION.search(bare) or "(" in bare:
                return None
            made += bare
        else:
            made += escaped or single or ""
    return made


def commands(lines: Iterable[Line]) -> tuple[Command, ...]:
    """The top-level commands of a script in order; blank lines and comments count as commands."""
    made: list[Command] = []
    kept: list[Line] = []
    heredocs: list[tuple[str, bool]] = []
    for line in lines:
        kept.append(line)
        if heredocs:
            end, strips = heredocs[0]
            if (line.text.lstrip("\t") if strips else line.text) == end:
                heredocs.pop(0)
        else:
            heredocs = _heredocs(line.text)
        text = "\n".join(one.text for one in kept)
        if not heredocs and len(kept) <= LONGEST and _is_complete(text):
            made.append(Command(kept[0].number, text))
            kept = []
    if kept:
        made.append(Command(kept[0].number, "\n".join(one.text for one in kept)))
    return tuple(made)


def _heredocs(text: str) -> list[tuple[str, bool]]:
    if text.lstrip().startswith("#"):
        return []
    return [
        (match[2] or match[3] or match[4], bool(match[1]))
        for match in _HEREDOC.finditer(text)
        if not text[match.start() :].startswith("<<<") and not text[: match.start()].endswith("<")
    ]


def _is_complete(text: str) -> bool:
    """Whether a command may end here: no quote, block or pipeline is open."""
    if _HEREDOC.search(text):
        text = text.partition("\n")[0]
    if text.endswith("\\") and not text.lstrip().startswith("#"):
        return False
    depth = 0
    begins = True
    in_case = False
    last = ""
    for word in words(text):
        if word.value is None and _TOKEN.fullmatch(word.raw) is None:
            return False
        if begins and word.raw in {"case", "esac"}:
            in_case = word.raw == "case"
        if word.raw in _OPEN and (begins or word.is_operator):
            depth += 1
        elif word.raw in _CLOSE and (begins or word.is_operator) and not (in_case and word.raw == ")"):
            depth -= 1
        begins = word.is_operator or word.raw in _BEFORE_COMMAND or (word.raw == "{" and begins)
        last = word.raw if word.raw != "\n" else last
    return depth <= 0 and last not in _CONTINUE
