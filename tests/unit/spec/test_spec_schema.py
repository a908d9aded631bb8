"""The JSON Schema of the job file: it takes every good file, and knows every key and no other."""

from __future__ import annotations

import datetime
import json
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from slurmkit.spec.convert import OWN
from slurmkit.spec.json_schema import keys, schema
from slurmkit.spec.model import JobSpec
from slurmkit.spec.options import ALLOWED, OPTIONS

HERE = Path(__file__).parent
GOOD = sorted((HERE / "cases" / "good").glob("*.toml"))
EXAMPLES = sorted((HERE.parents[2] / "examples").rglob("job*.toml"))
SCHEMA = schema()
KINDS: dict[str, tuple[type, ...]] = {
    "string": (str, datetime.date, datetime.time),  # an editor's TOML hands dates over as text
    "integer": (int,), "number": (int, float), "boolean": (bool,), "object": (dict,), "array": (list,),
}  # fmt: skip


WORDS = {
    "$schema", "$ref", "$defs", "title", "description", "default", "type", "properties", "required", "items",
    "additionalProperties", "anyOf", "enum", "const", "minimum", "maximum", "exclusiveMinimum", "minItems",
}  # fmt: skip


def accepts(rule: dict[str, Any], value: object) -> bool:
    """Whether the value fits: only the words of JSON Schema that ours uses, and an error for any other."""
    assert set(rule) <= WORDS
    if "$ref" in rule:
        return accepts(SCHEMA["$defs"][rule["$ref"].rpartition("/")[2]], value)
    named = rule.get("type", list(KINDS))
    kinds = [kind for name in ([named] if isinstance(named, str) else named) for kind in KINDS[name]]
    return (
        isinstance(value, tuple(kinds))
        and (bool in kinds or not isinstance(value, bool))
        and ("anyOf" not in rule or any(accepts(one, value) for one in rule["anyOf"]))
        and value in rule.get("enum", [value])
        and value == rule.get("const", value)
        and (not isinstance(value, int | float) or number_fits(rule, value))
        and (not isinstance(value, list) or list_fits(rule, value))
        and (not isinstance(value, dict) or table_fits(rule, value))
    )


def number_fits(rule: dict[str, Any], value: float) -> bool:
    within = rule.get("minimum", value) <= value <= rule.get("maximum", value)
    return bool(within and rule.get("exclusiveMinimum", value - 1) < value)


def list_fits(rule: dict[str, Any], value: list[object]) -> bool:
    return len(value) >= rule.get("minItems", 0) and all(accepts(rule.get("items", {}), one) for one in value)


def table_fits(rule: dict[str, Any], value: dict[str, object]) -> bool:
    known, more = rule.get("properties", {}), rule.get("additionalProperties", {})
    return set(rule.get("required", [])) <= set(value) and all(
        accepts(known[key], one) if key in known else more is not False and accepts(more, one)
        for key, one in value.items()
    )


@pytest.mark.parametrize("case", [*GOOD, *EXAMPLES], ids=lambda case: f"{case.parent.name}/{case.stem}")
def test_a_good_file_fits_the_schema(case: Path) -> None:
    assert accepts(SCHEMA, tomllib.loads(case.read_text()))


@pytest.mark.parametrize(
    "case",
    ["unknown_key_at_the_top", "unknown_table", "unknown_resource", "missing_command", "type_inside_lists",
     "type_at_the_top", "number_outside_its_bounds", "choice_that_is_not_known", "section_that_lacks_a_key",
     "option_that_cannot_stand_in_a_job_file", "type_in_an_inline_table", "key_in_the_wrong_table"],
)  # fmt: skip
def test_a_wrong_file_does_not_fit_the_schema(case: str) -> None:
    assert not accepts(SCHEMA, tomllib.loads((HERE / "cases" / f"{case}.toml").read_text()))


def test_the_keys_of_resources_are_sbatchs_options_and_our_own() -> None:
    assert set(SCHEMA["properties"]["resources"]["properties"]) == {*ALLOWED, *OWN}


def test_the_top_and_every_section_have_the_models_keys_and_no_other() -> None:
    fields = {info.name for info in msgspec.structs.fields(JobSpec)}
    assert set(SCHEMA["properties"]) == fields - set(OWN) | {"extends"}
    assert all(one["additionalProperties"] is False for one in (SCHEMA, *SCHEMA["$defs"].values()))


def test_every_key_is_described() -> None:
    tables = [SCHEMA, SCHEMA["properties"]["resources"], *SCHEMA["$defs"].values()]
    lacking = [
        key for table in tables for key, one in table["properties"].items()
        if "description" not in one and "$ref" not in json.dumps(one)
    ]  # fmt: skip
    assert lacking == []


@pytest.mark.parametrize("option", [one for one in OPTIONS if one.refused is None], ids=lambda one: one.name)
def test_false_takes_any_option_back(option: Any) -> None:
    assert accepts(SCHEMA["properties"]["resources"]["properties"][option.name], False)


@pytest.mark.parametrize(
    "table", [{"checkpoint": False}, {"environment": {"venv": False}}, {"launch": {"mpi": False}}]
)
def test_false_takes_back_what_may_be_left_out(table: dict[str, object]) -> None:
    assert accepts(SCHEMA, {"name": "x", "command": "true", **table})


def test_the_schema_is_json_and_names_no_null() -> None:
    assert '"null"' not in json.dumps(SCHEMA)


def test_the_list_of_keys_is_the_schemas() -> None:
    listed = {(key.table, key.name) for key in keys()}
    assert len(listed) == len(keys())
    assert {name for table, name in listed if table == "resources"} == {*ALLOWED, *OWN}
    assert {table for table, _ in listed} - {""} <= set(SCHEMA["properties"])
    assert all(key.about and key.form for key in keys())
