"""Names of log files: what sbatch makes of a pattern, and which patterns lose the log."""

from __future__ import annotations

import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmkit.spec.patterns import FIELDS, as_glob, check, expand, fields

VALUES: dict[str, str | int] = {
    "j": 80,
    "A": 74,
    "a": 3,
    "x": "sim",
    "N": "host-0",
    "u": "me",
    "J": 80,
    "s": "batch",
    "t": 0,
    "n": 0,
}


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("job%j.out", "job80.out"),
        ("%5j.out", "00080.out"),
        ("%99j.out", "0000000080.out"),
        ("%A_%4a.log", "74_0003.log"),
        ("a%%b-%A", "a%b-74"),
        ("%%j", "%j"),
        ("%%%j", "%80"),
        ("%5N.out", "host-0.out"),
        ("%x-%u", "sim-me"),
        ("%s.%2t", "batch.00"),
        ("100%", "100%"),
        ("%z-%5z", "%z-%5z"),
        ("pre\\%j.out", "pre%j.out"),
        ("pre\\\\%j.out", "pre\\%j.out"),
        ("plain", "plain"),
        ("", ""),
    ],
)
def test_trap_143_a_pattern_is_expanded_as_sbatch_does(pattern: str, name: str) -> None:
    assert expand(pattern, VALUES) == name


def test_a_field_without_a_value_stays_as_it_is() -> None:
    assert expand("%x-%5j.out", {"x": "sim"}) == "sim-%5j.out"


def test_trap_143_what_is_unknown_becomes_a_glob_and_the_rest_is_escaped() -> None:
    pattern = as_glob("[logs]/%x*%N-%5j.out", {"x": "a?[b]", "j": 80})
    assert fnmatch.fnmatchcase("[logs]/a?[b]*host-0-00080.out", pattern)
    assert not fnmatch.fnmatchcase("l/a?[b]*host-0-00080.out", pattern)


@given(st.text(alphabet="%jAaxN5\\/ .b*[]?", max_size=16))
def test_the_glob_of_a_pattern_matches_the_file_that_sbatch_makes(pattern: str) -> None:
    name = expand(pattern, VALUES | {"b": 3})
    assert fnmatch.fnmatchcase(name, as_glob(pattern, {"x": "sim"}))


def test_fields_are_listed_in_order() -> None:
    assert fields("%x/%5j-%%-%a") == ("x", "j", "a")
    assert fields("\\%j") == ()


@pytest.mark.parametrize("letter", FIELDS)
def test_every_field_may_stand_in_a_file_name(letter: str) -> None:
    assert check(f"logs/%{letter}.out") is None


@pytest.mark.parametrize(
    "pattern", ["logs/%x/%j.out", "%u/%j", "/tmp/my logs/%j.out", "%%j/%j", "/dev/null", "logs/$x`y`/%j"]
)
def test_a_directory_known_before_the_submit_is_sound(pattern: str) -> None:
    assert check(pattern, name="big sim") is None


@pytest.mark.parametrize("pattern", ["logs/%j/out", "%A/%a.out", "%N/x", "a/%5t/x", "%s/x", "%r/%x"])
def test_trap_140_a_directory_known_only_later_is_refused(pattern: str) -> None:
    wrong = check(pattern)
    assert wrong is not None
    assert "known only once the job runs" in wrong


def test_trap_141_a_slash_in_the_name_is_refused_where_the_name_is_used() -> None:
    assert "exp/lr=0.1" in (check("%x-%j.out", name="exp/lr=0.1") or "")
    assert check("%j.out", name="exp/lr=0.1") is None


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("logs/", "names a directory"),
        ("", "names a directory"),
        ("%z.out", "`%z` is not a field"),
        ("%5z.out", "`%5z` is not a field"),
        ("100%", "`%` is not a field"),
        ("rel\\%j", "backslash"),
    ],
)
def test_a_wrong_pattern_is_named(pattern: str, told: str) -> None:
    assert told in (check(pattern) or "")


def test_an_array_needs_a_name_for_each_task() -> None:
    assert "same file" in (check("%x.out", array=True) or "")
    assert check("%A_%a.out", array=True) is None
    assert check("%j.out", array=True) is None
