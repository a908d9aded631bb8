"""Slurm's texts as SQL: tables of cases, and agreement with the readers in Python."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmkit.accounting import sql_values as sql
from slurmkit.accounting.ledger import connect
from slurmkit.slurm.gres import by_type
from slurmkit.slurm.times import UNLIMITED, parse_duration
from slurmkit.slurm.tres import Tres, parse_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import tzinfo

    from duckdb import DuckDBPyConnection


@pytest.fixture(scope="module")
def database() -> Iterator[DuckDBPyConnection]:
    connection = connect(threads=1)
    yield connection
    connection.close()


def value(database: DuckDBPyConnection, expression: str, text: str) -> Any:
    """What an expression over `text` gives."""
    sql_text = f"SELECT {expression} FROM (SELECT CAST($text AS VARCHAR) AS text)"
    return database.execute(sql_text, {"text": text}).fetchall()[0][0]


CASES: list[tuple[Callable[[str], str], dict[str, object]]] = [
    (sql.word, {"": None, "N/A": None, "(null)": None, "None": None, "physics": "physics"}),
    (
        sql.count,
        {
            "": None, "0": 0, "12": 12, "2K": 2048, "4294967294": None, "4294967295": None,
            "18446744073709551614": None, "18446744073709551615": None, "abc": None, "-3": None, "1.5K": 1536,
        },
    ),
    (
        sql.seconds,
        {
            "": None, "00:00:00": 0, "12:25:02": 44702, "1-02:03:04": 93784, "45:10.500": 2710.5,
            "00:03.211": 3.211, "100-00:00:01": 8640001, "90": 90, "Unknown": None, "INVALID": None,
            "abc": None, "1:2:3:4": None, "4294967294": None,
        },
    ),
    (
        sql.limit,
        {
            "UNLIMITED": math.inf, "Partition_Limit": None, "3-00:00:00": 259200, "": None, "00:10:00": 600,
            "10": 600, "INFINITE": math.inf, "4294967295": math.inf, "4294967294": None, "0": 0,
        },
    ),
    (
        lambda text: sql.memory(text, "M"),
        {
            "": None, "0": 0, "472K": 483328, "16.5M": 17301504, "1.50T": 1649267441664, "2P": 2**51,
            "64G": 64 * 2**30, "1000": 1000 * 2**20, "12X": None, "G": None, "1.2.3G": None,
            "8388608K": 2**33,
            "999999T": 999999 * 2**40, "18446744073709551615": None, "4GB": 2**32,
            "99999999E": None,
        },
    ),
    (
        sql.joules,
        {"4580000": 4580000, "101.63K": 101630, "4.58M": 4580000, "18446744073709551614": None, "x": None},
    ),
    (sql.gres_gpus, {"gpu:4": 4, "gpu": 1, "gpu:a100:2,gpu:1": 3, "gpu:h100:3(IDX:0,4-5)": 3, "": None}),
    (sql.array_tasks, {"12": 1, "12_3": 1, "12_[0-9%2]": 10, "188_[1-99:2]": 50, "7_[1-2,...]": None}),
]  # fmt: skip


@pytest.mark.parametrize(("reader", "cases"), CASES)
def test_each_text_has_its_value(
    database: DuckDBPyConnection, reader: Callable[[str], str], cases: dict[str, object]
) -> None:
    assert {text: value(database, reader("text"), text) for text in cases} == cases


NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "zone", "right"),
    [
        ("2026-07-01T12:00:00", UTC, NOON),
        ("2026-07-01T14:00:00", ZoneInfo("Europe/Berlin"), NOON),
        ("2026-07-01T14:00:00", timezone(timedelta(hours=2)), NOON),
        ("2026-07-01T12:00:00Z", ZoneInfo("Europe/Berlin"), NOON),
        ("2026-07-01T13:00:00+01:00", UTC, NOON),
        ("2026-07-01T13:00:00+0100", UTC, NOON),
        (f"{int(NOON.timestamp())}", ZoneInfo("Europe/Berlin"), NOON),
        ("0", UTC, None),
        ("4294967294", UTC, None),
        ("99999999999999999999", UTC, None),
        ("Unknown", UTC, None),
        ("None", UTC, None),
        ("", UTC, None),
        ("2026-13-01T12:00:00", UTC, None),
        ("16:26:22", UTC, None),
    ],
)
def test_moments(database: DuckDBPyConnection, text: str, zone: tzinfo, right: datetime | None) -> None:
    assert value(database, sql.moment("text", zone), text) == right


@given(st.integers(0, 2**40), st.sampled_from(["", "K", "M", "G", "T"]))
def test_sizes_are_what_slurms_reader_makes_of_them(number: int, unit: str) -> None:
    text = f"{number}{unit}"
    right = parse_memory(text, unit="M")
    with connect(threads=1) as database:
        got = value(database, sql.memory("text", "M"), text)
    marks = {str(one) for one in (2**32 - 1, 2**32 - 2)}
    assert got == (None if text in marks or (right or 0) >= 2**63 else right)


@given(
    st.integers(0, 400), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59), st.booleans()
)  # fmt: skip
@settings(max_examples=50)
def test_durations_are_what_slurms_reader_makes_of_them(
    days: int, hours: int, minutes: int, seconds: int, short: bool
) -> None:
    clock = f"{hours:02}:{minutes:02}:{seconds:02}"
    text = f"{minutes:02}:{seconds:02}.250" if short else f"{days}-{clock}" if days else clock
    right = parse_duration(text)
    assert right is not None
    assert right != UNLIMITED
    with connect(threads=1) as database:
        assert value(database, sql.seconds("text"), text) == right.total_seconds()


TYPES = st.sampled_from(["a100", "h100", "a100_1g.5gb", "nvidia_h100_80gb_hbm3"])
ENTRIES = st.one_of(
    st.tuples(
        st.sampled_from(["cpu", "node", "billing", "gres/gpu", "gres/shard", "license/x"]),
        COUNTS := st.integers(0, 9999).map(str),
    ),
    st.tuples(
        st.just("mem"),
        st.tuples(st.integers(0, 9999).map(str), st.sampled_from(["", "K", "M", "G", "T"])).map("".join),
    ),
    st.tuples(TYPES.map(lambda kind: f"gres/gpu:{kind}"), COUNTS),
    st.tuples(st.just("energy"), st.just("18446744073709551614")),
)


@given(st.lists(ENTRIES, max_size=8, unique_by=lambda entry: entry[0]))
def test_tres_is_what_slurms_reader_makes_of_it(entries: list[tuple[str, str]]) -> None:
    text = ",".join(f"{name}={count}" for name, count in entries)
    right = Tres.parse(text)
    whole = sql.in_tres("text", "gres/gpu")
    expressions = {
        "mem": sql.memory(sql.in_tres("text", "mem"), "M"),
        "gpus": f"coalesce({sql.tres_sum('text', 'gpu', whole)}, 0)",
        **{name: sql.count(sql.in_tres("text", name)) for name in ("cpu", "node", "billing", "energy")},
    }
    with connect(threads=1) as database:
        got = {name: value(database, expression, text) for name, expression in expressions.items()}
        types = value(database, sql.tres_types("text"), text)
    assert got.pop("gpus") == right.gpus
    assert got == dict.fromkeys(got) | {name: right[name] for name in got if name in right}
    kinds = sorted(f"{kind}={count}" for kind, count in right.gpus_by_type.items())
    assert types == (kinds[0].partition("=")[0] if len(kinds) == 1 else ",".join(kinds))


@given(
    st.lists(
        st.tuples(st.sampled_from(["gpu", "gpu:a100", "gpu:h100", "shard"]), st.integers(1, 99)), max_size=5
    )
)
@settings(max_examples=50)
def test_gres_lists_are_what_slurms_reader_makes_of_them(entries: list[tuple[str, int]]) -> None:
    text = ",".join(f"{name}:{count}" for name, count in entries)
    with connect(threads=1) as database:
        got = value(database, sql.gres_gpus("text"), text)
    assert (got or 0) == sum(by_type(text).values())
