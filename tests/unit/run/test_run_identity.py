from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmkit.run.identity import LONGEST_SLUG, new_run_id, slug


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ddp-tiny", "ddp-tiny"),
        ("DDP Tiny", "ddp-tiny"),
        ("größe é", "groe-e"),
        ("a/b\\c:d", "a-b-c-d"),
        ("--x--", "x"),
        ("../../etc", "etc"),
        ("$(rm -rf) `x`", "rm-rf-x"),
        ("日本", "run"),
        ("", "run"),
        ("x" * 99, "x" * LONGEST_SLUG),
        ("a" * 39 + " b", "a" * 39),
    ],
)
def test_a_name_becomes_a_slug(name: str, expected: str) -> None:
    assert slug(name) == expected


@given(st.text())
def test_a_run_id_is_safe_wherever_it_stands(name: str) -> None:
    run_id = new_run_id(name, datetime(2026, 12, 1, 12, tzinfo=UTC))
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*-20261(130|20[12])-[0-9a-f]{6}", run_id)


def test_two_ids_of_one_name_differ() -> None:
    now = datetime.now(UTC)
    assert len({new_run_id("x", now) for _ in range(50)}) == 50
