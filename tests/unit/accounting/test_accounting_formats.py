"""A report as text, for people and for programs."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from slurmkit.accounting import formats
from slurmkit.errors import UsageError
from tests.unit.accounting.answers import FRAME, answered

if TYPE_CHECKING:
    from pathlib import Path

    from slurmkit.accounting.report import Kind


def test_people_read_hours_aligned_and_a_total() -> None:
    assert formats.as_text(answered(notes=("2 lines could not be read",))).splitlines() == [
        "usage by account, 2026-11-01 00:00 to 2026-12-01 00:00 (UTC)",
        "",
        "ACCOUNT   JOBS  GPU-HOURS   SHARE        WAIT  SINCE",
        "physics  1,200    1,000.0  75.0 %  1-02:03:04  2026-11-01 10:00:00",
        "-            1   0.000278       -           -  -",
        "total    1,201    1,000.0",
        "",
        "! physics has nearly all of it",
        "note: 2 lines could not be read",
    ]


def test_a_narrow_terminal_cuts_names_and_no_figures() -> None:
    wide = FRAME.assign(account=["a-very-long-name-of-an-account-that-goes-on", "b"])
    lines = formats.as_text(answered(wide), width=80).splitlines()
    assert max(map(len, lines[2:6])) <= 80
    assert lines[3].startswith("a-very-long-")
    assert "… " in lines[3]
    assert "1-02:03:04" in lines[3]


def test_a_name_cannot_steer_the_terminal() -> None:
    text = formats.as_text(answered(FRAME.assign(account=["\x1b[2J\n", "b"])))
    assert "\\x1b[2J\\n" in text
    assert "\x1b" not in text


def test_no_rows_are_said() -> None:
    assert "(nothing)" in formats.as_text(answered(FRAME[:0]))


def test_programs_read_whole_seconds_from_csv() -> None:
    first, second = csv.DictReader(io.StringIO(formats.as_csv(answered())))
    assert (first["account"], first["gpu_seconds"], first["since"]) == (
        "physics",
        "3600000",
        "2026-11-01 10:00:00+00:00",
    )
    assert (second["account"], second["share"]) == ("", "")


def test_json_has_every_key_and_null_for_what_is_not_known() -> None:
    data = json.loads(formats.as_json(answered(notes=("a note",))))
    assert data["tables"]["t0"][1] == {
        "account": None, "jobs": 1, "gpu_seconds": 1, "share": None, "wait": None, "since": None
    }  # fmt: skip
    assert data["since"] == "2026-11-01T00:00:00+00:00"
    assert data["stands_out"] == ["physics has nearly all of it"]
    assert data["notes"] == ["a note"]


def test_markdown_is_not_broken_by_names() -> None:
    lines = formats.as_markdown(answered(FRAME.assign(account=["a|b*", "c"]))).splitlines()
    assert lines[4:9] == [
        "| account | jobs | GPU-hours | share | wait | since |",
        "|---|---:|---:|---:|---:|---|",
        "| a\\|b\\* | 1,200 | 1,000.0 | 75.0 % | 1-02:03:04 | 2026-11-01 10:00:00 |",
        "| c | 1 | 0.000278 | - | - | - |",
        "| **total** | **1,201** | **1,000.0** |  |  |  |",
    ]


def test_parquet_keeps_numbers_and_times(tmp_path: Path) -> None:
    path = tmp_path / "it's usage.parquet"
    formats.write_parquet(answered(), path)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        found = connection.read_parquet(str(path)).fetchall()
    assert found[0][:3] == ("physics", 1200, 3_600_000)
    assert found[0][5] == datetime(2026, 11, 1, 10, tzinfo=UTC)
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def test_parquet_that_cannot_be_written_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        formats.write_parquet(answered(), tmp_path / "gone" / "usage.parquet")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (None, "text", "-"),
        (0, "hours", "0.0"),
        (90, "hours", "0.025"),
        (3600 * 12345, "hours", "12,345.0"),
        (1024 * 3600 * 5, "memory_hours", "5.0"),
        (0, "memory", "0"),
        (11 * 1024**3, "memory", "11G"),
        (int(3.5 * 1024**3), "memory", "3.5G"),
        (float("inf"), "duration", "unlimited"),
        (59.9, "duration", "00:00:59"),
        (-5, "duration", "-00:00:05"),
        (1.23456, "ratio", "1.23"),
        (123456.7, "ratio", "123,457"),
        (1, "share", "100.0 %"),
    ],
)
def test_values_are_written_for_people(value: Any, kind: Kind, text: str) -> None:
    assert formats.in_words(value, kind, UTC) == text
