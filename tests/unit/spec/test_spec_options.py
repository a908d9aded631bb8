"""The table of options against sbatch's own, release by release."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmkit.spec.options import ALLOWED, BY_NAME, BY_SHORT, OPTIONS, find

SBATCH = [
    tuple(line.split())
    for line in (Path(__file__).parent / "sbatch_options.txt").read_text().splitlines()
    if not line.startswith("#")
]
TAKES = {"value": "value", "flag": "flag", "optional": "optional value"}


def release(text: str) -> tuple[int, int] | None:
    return None if text == "-" else (int(text[:2]), int(text[3:]))


def test_every_long_option_of_sbatch_is_in_the_table_and_nothing_else() -> None:
    assert {option.name.replace("_", "-") for option in OPTIONS} == {row[0] for row in SBATCH}


@pytest.mark.parametrize("row", SBATCH, ids=lambda row: row[0])
def test_the_table_agrees_with_sbatch(row: tuple[str, ...]) -> None:
    name, takes, short, since, until, where = row
    option = BY_NAME[name.replace("-", "_")]
    assert option.since == release(since)
    assert option.until == release(until)
    assert option.short == (None if short == "-" else short)
    assert (option.where == "command line") == (where == "early" or option.name == "autocomplete")
    if name != "get-user-env":  # a flag since 25.05, and older releases take a value
        assert option.takes == TAKES[takes]


def test_names_and_letters_are_each_used_once() -> None:
    assert len(BY_NAME) == len(OPTIONS)
    assert len(BY_SHORT) == sum(1 for option in OPTIONS if option.short)


def test_every_option_says_what_it_is_in_one_sentence() -> None:
    for option in OPTIONS:
        assert option.about
        assert "\n" not in option.about
        assert option.refused is not None or option.about.endswith(".") or option.about.endswith("`")


def test_choices_stand_with_the_kinds_that_check_them() -> None:
    assert all((option.kind == "choice") <= bool(option.choices) for option in OPTIONS)
    assert all(bool(option.choices) <= (option.kind in {"choice", "list"}) for option in OPTIONS)


@pytest.mark.parametrize(
    ("spelled", "name"),
    [
        ("--ntasks-per-node", "ntasks_per_node"),
        ("-n", "ntasks"),
        ("-N", "nodes"),
        ("-J", "job_name"),
        ("cpus_per_task", "cpus_per_task"),
        ("--cluster", "clusters"),
        ("--tasks-per-node", "ntasks_per_node"),
    ],
)
def test_an_option_is_found_by_every_spelling_of_sbatch(spelled: str, name: str) -> None:
    option = find(spelled)
    assert option is not None
    assert option.name == name


@pytest.mark.parametrize("spelled", ["--cores", "-Y", "", "-", "--", "--NODES"])
def test_what_sbatch_does_not_have_is_not_found(spelled: str) -> None:
    assert find(spelled) is None


@pytest.mark.parametrize(
    ("name", "version", "exists"),
    [
        ("power", (22, 5, 8), True),
        ("power", (23, 11, 10), True),
        ("power", (24, 5, 0), False),
        ("tres_per_task", (22, 5, 8), False),
        ("tres_per_task", (23, 2, 0), True),
        ("mem_update", (26, 5, 0), True),
        ("nodes", (99, 1, 0), True),
    ],
)
def test_an_option_knows_the_releases_that_have_it(
    name: str, version: tuple[int, int, int], exists: bool
) -> None:
    assert BY_NAME[name].exists_in(version) is exists


def test_refused_options_are_not_among_the_allowed_and_say_why() -> None:
    refused = {option.name for option in OPTIONS if option.refused}
    assert refused.isdisjoint(ALLOWED)
    assert {"wrap", "job_name", "wait", "test_only", "parsable", "quiet", "verbose", "help"} <= refused


def test_a_flag_text_is_what_stands_in_a_script() -> None:
    assert BY_NAME["gpus_per_node"].flag_text == "--gpus-per-node"
