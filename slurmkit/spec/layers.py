"""Layers of values, weakest first: merged into one set of tables, each value with the layer it came from."""

from __future__ import annotations

import copy
import tomllib
from typing import TYPE_CHECKING, Any, Final

import msgspec

from slurmkit.errors import JobFileError
from slurmkit.spec.files import is_deep
from slurmkit.spec.problems import KeyPath, Source, printable

if TYPE_CHECKING:
    from collections.abc import Mapping

BUILT_IN: Final = Source("built-in default")

ALTERNATIVES: Final = (
    ("mem", "mem_per_cpu", "mem_per_gpu"),
    ("exclusive", "oversubscribe"),
    ("requeue", "no_requeue"),
    ("core_spec", "thread_spec"),
    ("cpus_per_task", "cpus_per_gpu"),
)
"""Options of which Slurm takes one: a stronger layer's choice puts out the weaker layers' others."""


class Merged(msgspec.Struct):
    """What all layers so far add up to."""

    values: dict[str, Any] = {}
    sources: dict[KeyPath, Source] = {}
    raw: dict[KeyPath, str] = {}
    """Texts of `--set` values that TOML reads as something else than text."""

    def add(self, values: Mapping[str, Any], source: Source) -> None:
        """Lay one more layer over the others: tables merge, all else is replaced."""
        resources = values.get("resources")
        below = self.values.get("resources")
        if isinstance(resources, dict) and isinstance(below, dict):
            for group in ALTERNATIVES:
                if any(resources.get(name, False) is not False for name in group):
                    for name in group:
                        below.pop(name, None)
        self._merge(self.values, values, source, ())

    def source_of(self, path: KeyPath) -> Source:
        """The layer that a value, or the nearest table around it, came from."""
        for length in range(len(path), -1, -1):
            found = self.sources.get(path[:length])
            if found is not None:
                return found
        return BUILT_IN

    def _merge(self, base: dict[str, Any], layer: Mapping[str, Any], source: Source, path: KeyPath) -> None:
        for key, value in layer.items():
            place = (*path, key)
            self.sources[place] = source
            if isinstance(value, dict):
                inner = base.get(key)
                if not isinstance(inner, dict):
                    inner = base[key] = {}
                self._merge(inner, value, source, place)
            else:
                base[key] = copy.copy(value)
                self.raw.pop(place, None)


def add_override(merged: Merged, argument: str) -> None:
    """Lay `key.path=value` of `--set` over all else; the value is TOML where it parses as such, else text.

    Raises:
        JobFileError: the argument is not of that form.
    """
    key, equals, text = argument.partition("=")
    source = Source(f"--set {argument}")
    path = _key_path(key.strip())
    if not equals or path is None:
        what = "is not `key.path=value`, such as `resources.nodes=4`"
        raise JobFileError([printable(f"--set {argument}: {what}")])
    value = _value(text.strip())
    table: dict[str, Any] = {path[-1]: value}
    for part in reversed(path[:-1]):
        table = {part: table}
    if is_deep(table):
        raise JobFileError([printable(f"--set {argument}: is nested too deeply to read")])
    merged.add(table, source)
    if not isinstance(value, str | dict):
        merged.raw[path] = text


def _key_path(text: str) -> tuple[str, ...] | None:
    if "\n" in text or "=" in text or text.startswith(("[", "#")):
        return None
    try:
        inner: object = tomllib.loads(f"{text} = 0")
    except (ValueError, RecursionError):
        return None
    path = []
    while isinstance(inner, dict):
        if not inner:
            return None
        name, inner = next(iter(inner.items()))
        path.append(name)
    return tuple(path)


def _value(text: str) -> object:
    try:
        tables = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return tables["value"] if len(tables) == 1 else text
