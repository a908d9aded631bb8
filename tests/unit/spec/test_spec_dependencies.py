"""Dependencies on jobs and on runs."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmkit.spec.dependencies import KINDS, Condition, Dependency, Target, parse_dependency

RUN = "ddp-tiny-20261201-a1b2"


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("afterok:20:21,afterany:23", None),
        ("afterok:20?afternotok:21", None),
        ("after:12+30:13", None),
        ("aftercorr:5", None),
        ("afterburstbuffer:5", None),
        ("singleton", None),
        ("afterok:12_4", None),
        ("afterany:12_*", None),
        (f"afterok:{RUN}", None),
        ("afterok:last", None),
        ("123", "afterany:123"),
        ("123,124", "afterany:123,afterany:124"),
        (RUN, f"afterany:{RUN}"),
        ("AfterOK:20, singleton", "afterok:20,singleton"),
    ],
)
def test_every_kind_is_read_and_printed(text: str, canonical: str | None) -> None:
    assert str(parse_dependency(text)) == (canonical or text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("afterok:1,afterany:2?after:3", "cannot stand in one"),
        ("afterk:12", "not a dependency"),
        ("expand:12", "not a dependency"),
        ("afterok", "names no job"),
        ("afterok:", "names no job"),
        ("afterok:1::2", "neither a job id nor a run id"),
        ("afterok:-1", "neither a job id nor a run id"),
        ("afterok:12+5", "only with `after:`"),
        ("after:12+0", "more than 0"),
        ("12+5", "not a dependency"),
        ("singleton:5", "not a dependency"),
        ("", "not a dependency"),
        ("afterok:1,", "not a dependency"),
        ("afterok:$(id)", "neither a job id nor a run id"),
    ],
)
def test_what_is_wrong_is_named(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        parse_dependency(text)


def test_runs_are_told_from_jobs_and_each_named_once() -> None:
    dependency = parse_dependency(f"afterok:12:{RUN},afterany:{RUN}:last")
    assert dependency.runs == (RUN, "last")


def test_runs_are_replaced_by_their_jobs_and_jobs_stay() -> None:
    dependency = parse_dependency(f"afterok:12:{RUN}?after:last+5")
    assert str(dependency.resolved({RUN: "77", "last": "78"}.__getitem__)) == "afterok:12:77?after:78+5"


TARGETS = st.builds(
    Target, st.from_regex(r"[1-9][0-9]{0,6}(_[0-9]{1,3})?|[a-z][a-z0-9-]{0,12}", fullmatch=True)
)
CONDITIONS = st.builds(
    Condition, st.sampled_from(KINDS), st.lists(TARGETS, min_size=1, max_size=4).map(tuple)
)


@given(st.lists(CONDITIONS, min_size=1, max_size=4).map(tuple), st.booleans())
def test_a_printed_dependency_reads_back(conditions: tuple[Condition, ...], any_of: bool) -> None:
    dependency = Dependency(conditions, any_of=any_of and len(conditions) > 1)
    assert parse_dependency(str(dependency)) == dependency
