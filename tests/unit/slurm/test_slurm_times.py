from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from slurmkit.slurm.times import UNLIMITED, parse_duration, parse_epoch, parse_minutes


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1-02:03:04", 93784), ("12:25:02", 44702), ("00:00:00", 0), ("100-00:00:01", 8640001), ("0:05", 5)],
)
def test_trap_007_elapsed_with_days(text: str, seconds: int) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("00:03.211", 3.211),
        ("45:10.500", 2710.5),
        ("01:00:00", 3600),
        ("2-04:00:00", 187200),
        ("00:00.004", 0.004),
    ],
)
def test_trap_008_total_cpu_has_three_shapes(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


def test_trap_008_empty_is_not_zero() -> None:
    assert parse_duration("") is None


@pytest.mark.parametrize(
    ("text", "raw", "expected"),
    [
        ("UNLIMITED", "UNLIMITED", UNLIMITED),
        ("Partition_Limit", "Partition_Limit", None),
        ("3-00:00:00", "4320", timedelta(seconds=259200)),
        ("", "", None),
        ("00:10:00", "10", timedelta(seconds=600)),
    ],
)
def test_trap_009_a_time_limit_is_not_always_a_time(text: str, raw: str, expected: timedelta | None) -> None:
    assert parse_duration(text) == expected
    assert parse_minutes(raw) == expected


@pytest.mark.parametrize("text", ["Unknown", "None", "N/A", "", "0", "4294967294", "(null)"])
def test_trap_010_a_time_that_is_open_is_none(text: str) -> None:
    assert parse_epoch(text) is None


def test_trap_039_times_are_epoch_seconds_in_utc() -> None:
    assert parse_epoch("1730612400") == datetime(2024, 11, 3, 5, 40, tzinfo=UTC)


@pytest.mark.parametrize("text", ["2024-11-03T01:50:00", "16:26:22", "Ystday 09:10", "-5", "1.5"])
def test_trap_041_a_time_in_another_form_is_an_error_never_a_guess(text: str) -> None:
    with pytest.raises(ValueError, match="epoch seconds"):
        parse_epoch(text)


@pytest.mark.parametrize("text", ["1", "1d", "1:2:3:4", "-1:00", "1-2", "x"])
def test_what_is_no_duration_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration(text)
