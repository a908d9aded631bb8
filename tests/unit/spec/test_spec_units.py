"""Times, memory and counts: what each text means, and that what is written can be read."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmkit.spec import units

MINUTE, HOUR, DAY = 60, 3_600, 86_400


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90 * MINUTE),
        ("90:00", 90 * MINUTE),
        ("90:30", 90 * MINUTE + 30),
        ("1:30:00", 90 * MINUTE),
        ("01:30:00", 90 * MINUTE),
        ("1-12", 36 * HOUR),
        ("1-12:30", 36 * HOUR + 30 * MINUTE),
        ("1-12:30:15", 36 * HOUR + 30 * MINUTE + 15),
        ("  5  ", 5 * MINUTE),
        ("1h30m", 90 * MINUTE),
        ("1h 30m", 90 * MINUTE),
        ("1.5h", 90 * MINUTE),
        ("2d", 2 * DAY),
        ("90s", 90),
        ("1w", 7 * DAY),
        ("2 hours", 2 * HOUR),
        ("10 min", 10 * MINUTE),
        ("1D12H", 36 * HOUR),
        ("0", 0),
        (90, 90 * MINUTE),
        (datetime.time(4, 0), 4 * HOUR),
        (datetime.time(0, 1, 30), 90),
    ],
)
def test_a_time_is_read_as_slurm_or_a_person_means_it(text: str, seconds: int) -> None:
    assert units.parse_time(text) == seconds


@pytest.mark.parametrize("text", ["UNLIMITED", "unlimited", "INFINITE", "-1"])
def test_no_limit_is_none(text: str) -> None:
    assert units.parse_time(text) is None


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("4", 4),
        ("4:00", 4),
        ("90:30", 91),
        ("1:30:00", 90),
        ("1-0", 24 * 60),
        ("1-12", 36 * 60),
        ("2-12:30", 60 * 60 + 30),
        ("3-0:00", 72 * 60),
        ("0-0:59:30", 60),
    ],
)
def test_trap_129_slurm_keeps_whole_minutes_rounded_up(text: str, minutes: int) -> None:
    seconds = units.parse_time(text)
    assert seconds is not None
    assert units.slurm_minutes(seconds) == minutes


@pytest.mark.parametrize(("text", "seconds"), [("24h", DAY), ("1d", DAY)])
def test_trap_129_what_sbatch_refuses_is_read_in_its_human_form(text: str, seconds: int) -> None:
    assert units.parse_time(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "1:2:3:4",
        "two",
        "1h2h",
        "30m1h",
        "1x",
        "-5",
        "1--2",
        "1-",
        ":30",
        "1e3",
        "1,5h",
        "h",
        "99999999-0",
        "1-1:1:1:1",
        "٣",
        "1hx",
        "9" * 400,
    ],
)
def test_what_is_no_time_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a time|is outside") as caught:
        units.parse_time(text)
    assert text.strip() in str(caught.value)


def test_a_time_with_fractions_of_a_second_is_refused() -> None:
    with pytest.raises(ValueError, match="fractions"):
        units.parse_time(datetime.time(1, 2, 3, 4))


@given(st.integers(0, 2**31 - 1) | st.none())
def test_a_formatted_time_reads_back(seconds: int | None) -> None:
    assert units.parse_time(units.format_time(seconds)) == seconds


@given(st.integers(0, 2**31 - 1))
def test_a_formatted_duration_reads_back(seconds: int) -> None:
    assert units.parse_duration(units.format_duration(seconds)) == seconds
    assert units.parse_time(units.format_duration(seconds)) == seconds


@given(st.text(max_size=12))
def test_any_text_is_a_time_or_a_value_error(text: str) -> None:
    for parse in (units.parse_time, units.parse_duration, units.parse_memory, units.parse_count):
        try:
            value = parse(text)
        except ValueError:
            pass
        else:
            assert value is None or value >= 0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00:00"), (90, "0:01:30"), (5_400, "1:30:00"), (129_600, "1-12:00:00"), (None, "UNLIMITED")],
)
def test_slurms_own_form_of_a_time(seconds: int | None, text: str) -> None:
    assert units.format_time(seconds) == text


@pytest.mark.parametrize("text", ["30", "", "5:00", "x", "-1s", "UNLIMITED"])
def test_a_duration_needs_its_unit(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        units.parse_duration(text)


@pytest.mark.parametrize(
    ("value", "told"), [("4:00", True), (" 90:30 ", True), ("1:30:00", False), (90, False)]
)
def test_minutes_and_seconds_are_told_apart_from_hours(value: object, told: bool) -> None:
    assert units.is_minutes_and_seconds(value) is told


@pytest.mark.parametrize(
    ("text", "mebibytes"),
    [
        ("100", 100),
        ("1g", 1024),
        ("1GB", 1024),
        ("1GiB", 1024),
        ("1024K", 1),
        ("500k", 1),
        ("1T", 1024**2),
        ("0", 0),
        ("1.5G", 1536),
        ("64G", 65536),
        ("64000", 64000),
        ("1P", 1024**3),
        (" 2 G ", 2048),
        (64000, 64000),
    ],
)
def test_trap_131_memory_becomes_whole_mebibytes(text: str | int, mebibytes: int) -> None:
    assert units.parse_memory(text) == mebibytes


@pytest.mark.parametrize("text", ["2Gn", "", "G", "-1G", "1e3", "1,5G", "64Q", "1 2", "0x10", "٣G", "9" * 30])
def test_trap_131_what_is_no_memory_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a memory size"):
        units.parse_memory(text)


@given(st.integers(0, 2**52))
def test_a_formatted_size_reads_back(mebibytes: int) -> None:
    assert units.parse_memory(units.format_memory(mebibytes)) == mebibytes


@pytest.mark.parametrize(
    ("text", "count"), [("8", 8), (8, 8), ("2k", 2048), ("1M", 1024**2), (" 4 ", 4), ("0", 0)]
)
def test_a_count_is_a_whole_number(text: str | int, count: int) -> None:
    assert units.parse_count(text) == count


@pytest.mark.parametrize("text", ["-1", "", "1.5", "k", "1kb", "1 k", "٣", "9" * 19])
def test_what_is_no_count_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a count"):
        units.parse_count(text)


def test_a_count_below_the_least_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        units.parse_count(0, least=1)
