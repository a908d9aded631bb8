"""The job file as JSON Schema and as a list of keys, from the model and the table of options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from slurmkit.spec.convert import OWN, about_of, expected, section_of
from slurmkit.spec.model import JobSpec
from slurmkit.spec.options import OPTIONS, Option
from slurmkit.spec.values import LISTS

_TEXT: Final = {"type": "string"}
_NUMBER: Final = {"type": "integer"}
_NUMBERS: Final = frozenset(
    {"count", "integer", "nodes", "time", "memory", "gpus", "array", "dependency", "switches", "signal"}
    | {"text", "list"}  # an account may be 2023001
)
_FORMS: Final = {
    "flag": "true or false", "count": "whole number", "integer": "whole number", "nodes": "number or range",
    "time": "time", "memory": "size", "list": "text or list", "export": "text or list",
    "choice": "one of a few", "pattern": "file name with fields", "path": "path",
    "gpus": "number, or type and number", "gres": "text or list", "tres": "text or list",
    "moment": "date or time", "array": "indices", "signal": "signal and seconds",
    "switches": "number and time", "margin": "percentage and time",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Key:
    """One key of the job file, as the reference page shows it. `table` is "" for the top."""

    table: str
    name: str
    form: str
    about: str
    required: bool = False
    default: object = None
    since: str = ""
    until: str = ""


def schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of the job file, for editors."""
    made = msgspec.json.schema(JobSpec)
    definitions = made["$defs"]
    top = definitions.pop(JobSpec.__name__)
    properties = top["properties"]
    own = {name: properties.pop(name) for name in OWN}
    definitions["Environment"]["properties"]["variables"]["additionalProperties"] = {
        "anyOf": [_TEXT, _NUMBER]
    }
    properties["extends"] = _TEXT | {
        "description": "A job file whose values hold where this one says nothing."
    }
    properties["resources"] = {
        "type": "object",
        "description": "Any option of sbatch, with underscores.",
        "properties": {option.name: option_schema(option) for option in OPTIONS if option.refused is None}
        | own,
        "additionalProperties": False,
    }
    whole = {"$schema": "https://json-schema.org/draft/2020-12/schema", **top, "title": "slurmkit job file"}
    taken_back: dict[str, Any] = _false_for_null(whole | {"$defs": definitions})
    return taken_back


def option_schema(option: Option) -> dict[str, Any]:
    """JSON Schema of one option of [resources]; false takes back what a weaker layer set."""
    if option.takes == "flag":
        return {"type": "boolean", "description": option.about}
    element: dict[str, Any] = _TEXT
    if option.kind == "choice":
        element = {"enum": [*option.choices, *(int(one) for one in option.choices if one.isdigit())]}
    forms: list[dict[str, Any]] = [
        element,
        {"type": "boolean"} if option.takes == "optional value" else {"const": False},
    ]
    if option.kind in _NUMBERS:
        least = {"minimum": option.least} if option.kind in {"count", "nodes"} else {}
        forms.insert(0, _NUMBER | least)
    if option.kind in LISTS:
        forms.append({"type": "array", "items": {"type": ["string", "integer"]}, "minItems": 1})
    return {"anyOf": forms, "description": option.about}


def keys() -> list[Key]:
    """Every key of the job file in the model's order, with its form, its meaning and its default."""
    listed = []
    for info in msgspec.structs.fields(JobSpec):
        section = section_of(info.type)
        if info.name == "resources":
            listed += [_option_key(option) for option in OPTIONS if option.refused is None]
        elif section is None:
            listed.append(_field_key("resources" if info.name in OWN else "", info))
        else:
            listed += [_field_key(info.name, inner) for inner in msgspec.structs.fields(section)]
    return listed


def _option_key(option: Option) -> Key:
    form = _FORMS.get(option.kind, "text")
    return Key(
        "resources",
        option.name,
        form if option.takes != "optional value" else f"true, or {form}",
        option.about,
        since=_release(option.since),
        until=_release(option.until),
    )


def _field_key(table: str, info: msgspec.structs.FieldInfo) -> Key:
    form = expected(info.type) or "table"
    default = None if info.default is msgspec.NODEFAULT else info.default
    if info.default_factory is not msgspec.NODEFAULT:
        default = info.default_factory()
    return Key(table, info.name, form, about_of(info.type), required=info.required, default=default)


def _release(version: tuple[int, int] | None) -> str:
    return "" if version is None else f"{version[0]}.{version[1]:02d}"


def _false_for_null(value: Any) -> Any:  # noqa: ANN401  a tree of builtins
    """TOML has no null: where the model takes None, the file takes false."""
    if isinstance(value, dict):
        if value.get("type") == "null":
            return {"const": False}
        kept = {k: v for k, v in value.items() if not (k == "default" and v is None)}
        return {key: _false_for_null(one) for key, one in kept.items()}
    return [_false_for_null(one) for one in value] if isinstance(value, list) else value
