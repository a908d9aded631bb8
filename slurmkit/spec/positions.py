"""Line and column of every key and value of a TOML text. Imported only to print an error or `--explain`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import tree_sitter
import tree_sitter_toml

from slurmkit.spec.problems import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from slurmkit.spec.problems import KeyPath


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of one line; line and column count from 1, in characters."""

    line: int
    column: int
    width: int


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a key stands, and where its value does."""

    key: Span
    value: Span


@dataclass(frozen=True, slots=True)
class Defect:
    """A place that is no TOML, or a key that stands there twice."""

    span: Span
    what: str


@lru_cache(maxsize=8)
def positions(text: str) -> Mapping[KeyPath, Entry]:
    """Every key path of the text, elements of lists included, with its place."""
    found: dict[KeyPath, Entry] = {}
    for path, key, value in _Walk(text).entries():
        found.setdefault(path, Entry(key, value))
    return found


def defects(text: str) -> list[Defect]:
    """Places that do not parse, and keys given twice, in order."""
    walk = _Walk(text)
    made = [Defect(span, "this is not TOML") for span in walk.broken()]
    seen: dict[KeyPath, Span] = {}
    for path, key in (*walk.headers(), *((path, key) for path, key, _ in walk.entries(tables=False))):
        if path in seen:
            made.append(Defect(key, f"`{dotted(path)}` stands there twice; first in line {seen[path].line}"))
        seen.setdefault(path, key)
    return sorted(made, key=lambda one: (one.span.line, one.span.column))


class _Walk:
    """One walk over the syntax tree of a text."""

    def __init__(self, text: str) -> None:
        self._source = text.encode()
        self._lines = self._source.split(b"\n")
        parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_toml.language()))
        self._root = parser.parse(self._source).root_node

    def broken(self) -> Iterator[Span]:
        """Where the parser gave up or had to invent something."""
        waiting = [self._root]
        while waiting:
            node = waiting.pop()
            if node.is_error or node.is_missing:
                yield self._span(node)
            else:
                waiting += node.children

    def headers(self) -> Iterator[tuple[KeyPath, Span]]:
        """Every `[table]`, of which there may be one each."""
        for node in self._root.children:
            name = next((child for child in node.named_children if _is_key(child)), None)
            if node.type == "table" and name is not None and (path := self._key(name)):
                yield path, self._span(name)

    def entries(self, *, tables: bool = True) -> Iterator[tuple[KeyPath, Span, Span]]:
        """(path, key, value) of every pair; with `tables` of every table and list element too."""
        counts: dict[KeyPath, int] = {}
        for node in self._root.children:
            if node.type == "pair":
                yield from self._pair(node, (), tables=tables)
            elif node.type in {"table", "table_array_element"}:
                name = next((child for child in node.named_children if _is_key(child)), None)
                path: KeyPath = self._key(name) if name is not None else ()
                if name is None or not path:
                    continue
                if node.type == "table_array_element":
                    index = counts.get(path, 0)
                    counts[path] = index + 1
                    path = (*path, index)
                if tables:
                    for length in range(1, len(path) + 1):
                        yield path[:length], self._span(name), self._span(name)
                for child in node.named_children:
                    if child.type == "pair":
                        yield from self._pair(child, path, tables=tables)

    def _pair(
        self, node: tree_sitter.Node, table: KeyPath, *, tables: bool
    ) -> Iterator[tuple[KeyPath, Span, Span]]:
        children = node.named_children
        if len(children) < 2 or not (name := self._key(children[0])):
            return
        key, value = self._span(children[0]), children[-1]
        path = (*table, *name)
        if tables:
            for length in range(len(table) + 1, len(path)):
                yield path[:length], key, key
        yield path, key, self._span(value)
        yield from self._inside(value, path, tables=tables)

    def _inside(
        self, node: tree_sitter.Node, path: KeyPath, *, tables: bool
    ) -> Iterator[tuple[KeyPath, Span, Span]]:
        if node.type == "inline_table":
            for child in node.named_children:
                if child.type == "pair":
                    yield from self._pair(child, path, tables=tables)
        elif node.type == "array" and tables:
            elements = (child for child in node.named_children if child.type != "comment")
            for index, child in enumerate(elements):
                span = self._span(child)
                yield (*path, index), span, span
                yield from self._inside(child, (*path, index), tables=tables)

    def _key(self, node: tree_sitter.Node) -> tuple[str, ...]:
        try:
            table = tomllib.loads((node.text or b"").decode() + " = 0")
        except tomllib.TOMLDecodeError:
            return ()
        names = []
        inner: object = table
        while isinstance(inner, dict):
            name, inner = next(iter(inner.items()))
            names.append(name)
        return tuple(names)

    def _span(self, node: tree_sitter.Node) -> Span:
        row, start = node.start_point
        end_row, end = node.end_point
        line = self._lines[row] if row < len(self._lines) else b""
        if end_row > row:
            end = len(line.rstrip())
        column = len(line[:start].decode(errors="replace")) + 1
        return Span(row + 1, column, max(1, len(line[start:end].decode(errors="replace"))))


def _is_key(node: tree_sitter.Node) -> bool:
    return node.type in {"bare_key", "quoted_key", "dotted_key"}
