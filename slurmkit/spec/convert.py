"""Tables of TOML into a JobSpec, field by field, so that everything that is wrong comes at once."""

from __future__ import annotations

import re
import types
import typing
from typing import TYPE_CHECKING, Any, Final, get_args, get_origin

import msgspec

from slurmkit.spec.checks import CHECKS, variable_name
from slurmkit.spec.model import JobSpec, OptionValue, Section
from slurmkit.spec.options import ALLOWED, BY_NAME
from slurmkit.spec.problems import KeyPath, Problem, dotted
from slurmkit.spec.values import normalise

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

OWN: Final = ("spare_nodes",)
"""Keys of [resources] that are slurmkit's own and not sbatch's; each is a field of JobSpec."""

_FAILED: Final = msgspec.UNSET
_KINDS: Final = {str: "text", bool: "true or false", int: "a whole number", float: "a number"}
_BOUND: Final = re.compile(r"(>=|>|<=|<) (-?[0-9.]+)")
_BOUND_WORDS: Final = {">=": "at least", ">": "more than", "<=": "at most", "<": "less than"}


def convert(
    values: Mapping[str, Any], raw: Mapping[KeyPath, str] | None = None
) -> tuple[JobSpec | None, list[Problem]]:
    """The model of merged tables, or all problems; `raw` has the texts of `--set` values."""
    if too_large := list(_too_large(values)):
        return None, too_large
    conversion = _Conversion(raw or {})
    return conversion.job(values), conversion.problems


def _too_large(values: Mapping[str, Any], path: KeyPath = ()) -> Iterator[Problem]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _too_large(value, (*path, key))
        elif isinstance(value, list):
            yield from _too_large({str(index): one for index, one in enumerate(value)}, (*path, key))
        elif isinstance(value, int) and not -(2**63) <= value < 2**63:
            yield Problem(
                (*path, key), f"{dotted((*path, key))}: the number is larger than TOML allows (64 bits)"
            )


def home_of_keys() -> dict[str, str]:
    """Every key of every table but [resources], and the table that it stands in; "" is the top."""
    homes: dict[str, str] = {}
    for info in msgspec.structs.fields(JobSpec):
        section = section_of(info.type)
        if info.name not in OWN:
            homes[info.name] = ""
        for inner in msgspec.structs.fields(section) if section else ():
            homes.setdefault(inner.name, info.name)
    return homes | dict.fromkeys(OWN, "resources")


def section_of(kind: object) -> type[Section] | None:
    """The table's class where `kind` is one, perhaps optional."""
    return next((branch for branch in _branches(kind) if _is_section(branch)), None)


class _Conversion:
    """The problems found so far, and what may be read as text."""

    def __init__(self, raw: Mapping[KeyPath, str]) -> None:
        self.problems: list[Problem] = []
        self._raw = raw

    def job(self, values: Mapping[str, Any]) -> JobSpec | None:
        table = values.get("resources", {})
        if not isinstance(table, dict):
            self._mismatch(("resources",), "a table", table)
            table = {}
        own = {name: table[name] for name in OWN if name in table}
        made = self._fields(JobSpec, {k: v for k, v in values.items() if k != "resources"}, (), hidden=OWN)
        made |= self._fields(JobSpec, own, ("resources",), only=OWN)
        made["resources"] = self._resources({k: v for k, v in table.items() if k not in own})
        return None if self.problems else JobSpec(**made)

    def _fields(
        self, kind: type[Section], table: Mapping[str, Any], path: KeyPath, *, hidden: Iterable[str] = (),
        only: Iterable[str] | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """What could be made of a table; problems of its keys and values are noted."""
        known = {info.name: info for info in msgspec.structs.fields(kind) if info.name not in hidden}
        made = {}
        for key, value in table.items():
            if key not in known:
                self._unknown(key, path, known)
                continue
            one = self._value(known[key].type, value, (*path, key))
            if one is not _FAILED:
                made[key] = one
        for name, info in known.items():
            if info.required and name not in table and only is None:
                self._note(path, f"`{name}` is missing{_in_table(path)}", about_of(info.type), at="key")
        return made

    def _value(self, kind: object, value: object, path: KeyPath) -> object:
        branches = _branches(kind)
        section = section_of(kind)
        inner = next((get_args(one)[0] for one in branches if get_origin(one) is tuple), None)
        if value is False and types.NoneType in branches:
            return None
        if section is not None:
            return self._section(section, value, path)
        if any(get_origin(one) is dict for one in branches):
            return self._variables(value, path)
        if isinstance(value, list) and inner is not None:
            return self._list(kind, inner, value, path)
        return self._scalar(kind, value, path)

    def _scalar(self, kind: object, value: object, path: KeyPath) -> object:
        try:
            made = msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            if path in self._raw and not isinstance(value, str) and str in _branches(kind):
                return self._scalar(kind, self._raw[path], path)
            return self._refused(kind, value, path, str(error))
        return self._checked(kind, made, path)

    def _section(self, kind: type[Section], value: object, path: KeyPath) -> object:
        if not isinstance(value, dict):
            return self._mismatch(path, "a table", value, f"write `[{dotted(path)}]` and its keys below it")
        before = len(self.problems)
        made = self._fields(kind, value, path)
        return kind(**made) if len(self.problems) == before else _FAILED

    def _list(self, kind: object, inner: object, value: list[object], path: KeyPath) -> object:
        if _check_of(kind) == "command" and value[:1] in ([], [""]):
            place = (*path, 0) if value else path
            return self._note(place, f"{dotted(place)}: is empty; name the program to run")
        made = [self._value(inner, one, (*path, index)) for index, one in enumerate(value)]
        if any(one is _FAILED for one in made):
            return _FAILED
        check = "argument" if _check_of(kind) == "command" else _check_of(kind)
        checked = [self._run_check(check, one, (*path, index)) for index, one in enumerate(made)]
        return _FAILED if any(one is _FAILED for one in checked) else tuple(checked)

    def _variables(self, value: object, path: KeyPath) -> object:
        if not isinstance(value, dict):
            return self._mismatch(path, "a table", value, 'write `variables = { NAME = "value" }`')
        made = {}
        for name, one in value.items():
            place = (*path, name)
            try:
                variable_name(name)
            except ValueError as error:
                self._note(place, f"{dotted(path)}: {error}", at="key")
                continue
            if place in self._raw:
                made[name] = self._run_check("variables", self._raw[place], place)
            elif isinstance(one, str | int) and not isinstance(one, bool):
                made[name] = self._run_check("variables", str(one), place)
            else:
                self._mismatch(place, "text", one, "the program sees text: write it in quotes")
        return made

    def _resources(self, table: Mapping[str, Any]) -> dict[str, OptionValue]:
        made: dict[str, OptionValue] = {}
        for name, value in table.items():
            path = ("resources", name)
            option = BY_NAME.get(name)
            if option is None:
                self._unknown(name, ("resources",), (*ALLOWED, *OWN))
            elif option.refused is not None:
                self._note(path, f"`{name}` cannot stand in a job file", option.refused, at="key")
            elif value is False:
                if name == "requeue":
                    made["no_requeue"] = True
            elif self._is_option_value(path, value):
                try:
                    made[name] = normalise(option, value)
                except ValueError as error:
                    if path in self._raw and not isinstance(value, str):
                        made |= self._resources({name: self._raw[path]})
                    else:
                        self._note(path, f"{dotted(path)}: {error}")
        return {name: made[name] for name in ALLOWED if name in made}

    def _is_option_value(self, path: KeyPath, value: object) -> bool:
        """Whether an option may be given that kind of value at all; else the problem is noted."""
        before = len(self.problems)
        if isinstance(value, dict):
            self._mismatch(path, "a value", value)
        elif isinstance(value, list):
            if not value:
                self._note(path, f"{dotted(path)}: is an empty list; leave the key out instead")
            for index, one in enumerate(value):
                if isinstance(one, bool) or not isinstance(one, str | int):
                    self._mismatch((*path, index), "text", one, "write it in quotes")
        return len(self.problems) == before

    def _checked(self, kind: object, value: object, path: KeyPath) -> object:
        return self._run_check(_check_of(kind), value, path) if isinstance(value, str) else value

    def _run_check(self, check: str | None, value: object, path: KeyPath) -> object:
        if check is None or not isinstance(value, str):
            return value
        try:
            return CHECKS[check](value)
        except ValueError as error:
            return self._note(path, f"{dotted(path)}: {error}")

    def _refused(self, kind: object, value: object, path: KeyPath, error: str) -> object:
        """Note why msgspec would not take a value, in our words."""
        choices = [
            word for one in _branches(kind) if get_origin(one) is typing.Literal for word in get_args(one)
        ]
        bound = _BOUND.search(error)
        if bound and not isinstance(value, str):
            text = f"{dotted(path)}: {value} is outside what it may be: {_BOUND_WORDS[bound[1]]} {bound[2]}"
            return self._note(path, text, about_of(kind))
        forms = 'text such as "30s"' if _check_of(kind) == "duration" else expected(kind)
        if choices and isinstance(value, str):
            return self._note(path, f"{dotted(path)}: `{value}` is not known; write {forms}", about_of(kind))
        is_list = forms.startswith("a list of texts") and isinstance(value, str)
        return self._mismatch(path, forms, value, f'write `["{value}"]`' if is_list else about_of(kind))

    def _mismatch(self, path: KeyPath, expected: str, value: object, right: str = "") -> object:
        return self._note(path, f"{dotted(path)}: expected {expected}, got {_kind_of(value)}", right)

    def _unknown(self, key: str, path: KeyPath, known: Iterable[str]) -> None:
        from slurmkit.spec.names import unknown_key

        table = dotted(path)
        right = unknown_key(key, table, known, home_of_keys())
        self._note((*path, key), f"unknown key `{key}`{_in_table(path)}", right, at="key")

    def _note(
        self, path: KeyPath, what: str, right: str = "", *, at: typing.Literal["key", "value"] = "value"
    ) -> object:
        self.problems.append(Problem(path, what, right, at))
        return _FAILED


def _in_table(path: KeyPath) -> str:
    return f" in [{dotted(path)}]" if path else ""


def _is_section(kind: object) -> typing.TypeGuard[type[Section]]:
    return isinstance(kind, type) and issubclass(kind, Section)


def _branches(kind: object) -> tuple[object, ...]:
    """The members of a union, or the type alone; what Annotated adds is taken off."""
    while get_origin(kind) is typing.Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) in {typing.Union, types.UnionType}:
        return tuple(one for branch in get_args(kind) for one in _branches(branch))
    return (kind,)


def _metas(kind: object) -> list[msgspec.Meta]:
    return [one for one in getattr(kind, "__metadata__", ()) if isinstance(one, msgspec.Meta)]


def _check_of(kind: object) -> str | None:
    return next((meta.extra["check"] for meta in _metas(kind) if meta.extra), None)


def about_of(kind: object) -> str:
    """What the model says that a field of that type means."""
    return next((meta.description for meta in _metas(kind) if meta.description), "")


def expected(kind: object) -> str:
    """What a value of that type is, in words; empty for a table."""
    words = []
    for branch in _branches(kind):
        if get_origin(branch) is typing.Literal:
            words += [f'"{word}"' for word in get_args(branch)]
        elif get_origin(branch) is tuple:
            words.append(
                "a list of " + ("whole numbers" if int in _branches(get_args(branch)[0]) else "texts")
            )
        elif branch in _KINDS:
            words.append(_KINDS[branch])
    return " or ".join(words)


def _kind_of(value: object) -> str:
    for kind in (bool, int, float):
        if isinstance(value, kind):
            return str(value).lower()
    if isinstance(value, str):
        return f'the text "{value}"' if len(value) <= 40 and value.isprintable() else "text"
    return "a list" if isinstance(value, list) else "a table" if isinstance(value, dict) else "a date or time"
