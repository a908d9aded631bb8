"""Dumps of every make: fields, delimiters, packing, and what is no dump."""

from __future__ import annotations

import gzip
import subprocess
from contextlib import closing
from datetime import UTC
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurmkit.accounting import dump as module
from slurmkit.accounting.dump import SAMPLE, open_dump
from slurmkit.accounting.schema import JOBS, STEPS
from slurmkit.errors import UsageError
from tests.bench import trace_text
from tests.bench.trace import generate, truth
from tests.unit.accounting.dumps import asked, text_of

if TYPE_CHECKING:
    from pathlib import Path

ROWS = [
    {"JobID": str(number), "JobName": name, "State": "COMPLETED", "Comment": ""}
    for number, name in enumerate(
        ["plain", 'with "quotes', "it's", "#no comment", "\\N", "größe-模型-🚀", " x "]
    )
]


@pytest.mark.parametrize("delimiter", ["|", "\x1f", "\x1f\x1e", "\t", ",", ";", "^|^", "||||", "~"])
@pytest.mark.parametrize("end", ["", "trailing"])
def test_any_delimiter_at_the_end_of_lines_too(tmp_path: Path, delimiter: str, end: str) -> None:
    text = text_of(ROWS, delimiter)
    if end:
        text = text.replace("\n", delimiter + "\n")
    assert asked(tmp_path, text, "name") == [row["JobName"] for row in ROWS]


def test_any_fields_in_any_order_and_case(tmp_path: Path) -> None:
    dump = "STATE|cputimeraw|jobid|JOBNAME|SomethingNew\nCOMPLETED|5|1|x|y\n"
    path = tmp_path / "dump"
    path.write_text(dump)
    with closing(open_dump(path)) as ledger:
        rows = ledger.connection.execute("SELECT job_id, state, name, account FROM jobs").fetchall()
        assert rows == [("1", "COMPLETED", "x", None)]
        assert ledger.notes == ("columns that sacct does not have were passed over: somethingnew",)


@pytest.mark.parametrize("name", ["Reserved", "Planned"])
def test_a_field_is_known_by_the_name_that_an_older_release_gave_it(tmp_path: Path, name: str) -> None:
    path = tmp_path / "dump"
    path.write_text(f"JobID|{name}\n1|00:01:05\n")
    with closing(open_dump(path)) as ledger:
        assert ledger.connection.execute("SELECT job_id FROM jobs").fetchall() == [("1",)]
        assert ledger.notes == ()


def test_the_views_have_the_columns_of_the_schema(tmp_path: Path) -> None:
    path = tmp_path / "dump"
    path.write_text("JobID\n1\n1.0\n")
    with closing(open_dump(path)) as ledger:
        for view, columns in (("jobs", JOBS), ("steps", STEPS)):
            got = ledger.connection.execute(f"DESCRIBE {view}").fetchall()
            right = [
                (one.name, one.type.replace("TIMESTAMPTZ", "TIMESTAMP WITH TIME ZONE")) for one in columns
            ]
            assert [(name, kind) for name, kind, *_ in got] == right


@pytest.mark.parametrize("text", ["JobID|State\n", "JobID|State", "\ufeffJobID|State\n"])
def test_no_records_are_no_error(tmp_path: Path, text: str) -> None:
    assert asked(tmp_path, text, "*") == []
    assert asked(tmp_path, text, "*", "steps") == []


def test_lines_may_end_as_on_windows(tmp_path: Path) -> None:
    dump = "JobID|JobName|State\r\n1|a|COMPLETED\r\n2|b|FAILED\r\n"
    assert asked(tmp_path, dump, "name, state") == [("a", "COMPLETED"), ("b", "FAILED")]


def test_a_carriage_return_in_a_name_stays(tmp_path: Path) -> None:
    dump = 'JobID|JobName|State\n1|a\rb|COMPLETED\n2|"c\n|d\r|FAILED\n'
    assert asked(tmp_path, dump, "name, state") == [("a\rb", "COMPLETED"), ('"c\n|d\r', "FAILED")]


@pytest.mark.parametrize("columns", [None, ["name"]], ids=["as it is", "at once"])
@pytest.mark.parametrize(
    "dump",
    [
        "JobID|State|JobName\n1|COMPLETED|a\nb\n2|COMPLETED|c\n3|FAILED|d\n\n",
        "JobName|State|JobID\na\nb|COMPLETED|1\nc|COMPLETED|2\nd|FAILED|3\n",
        "JobID|Comment|State|JobName|\n1|x|y|COMPLETED|a\nb|\n2||COMPLETED|c|\n3|x|FAILED|d|\n",
        "JobID|JobName|State\n1|a\nb|COMPLETED\n2|c|COMPLETED\n3|d|FAILED\n",
    ],
    ids=["last field", "first field", "by chance as long as a whole line", "middle"],
)
def test_a_newline_in_any_field_is_part_of_it(tmp_path: Path, dump: str, columns: list[str] | None) -> None:
    path = tmp_path / "dump"
    path.write_text(dump)
    with closing(open_dump(path, columns=columns)) as ledger:
        rows = ledger.connection.execute("SELECT rtrim(name, chr(10)), state FROM jobs ORDER BY 1").fetchall()
        assert rows == [("a\nb", "COMPLETED"), ("c", "COMPLETED"), ("d", "FAILED")]
        assert ledger.notes == ()


def test_packed_dumps_are_read_whatever_their_name(tmp_path: Path) -> None:
    assert asked(tmp_path, gzip.compress(text_of(ROWS).encode()), "name") == [row["JobName"] for row in ROWS]
    broken = b"JobID|JobName|State\n1|lat\xedn|COMPLETED\n2|a\nb|COMPLETED\n"
    assert asked(tmp_path, gzip.compress(broken), "name") == ["lat�n", "a\nb"]


def test_zstandard_dumps_are_read(tmp_path: Path) -> None:
    for number, text in enumerate([text_of(ROWS).encode(), b"JobID|JobName\n1|lat\xedn\n2|x\n"]):
        plain = tmp_path / f"{number}.txt"
        plain.write_bytes(text)
        subprocess.run(["zstd", "-q", plain], check=True)
        with closing(open_dump(plain.with_suffix(".txt.zst"))) as ledger:
            names = ledger.connection.execute("SELECT name FROM jobs ORDER BY job_id").fetchall()
        assert [name for (name,) in names] == (["lat�n", "x"] if number else [row["JobName"] for row in ROWS])


@pytest.mark.parametrize("name", ["a'b", "[1]*?.txt", "größe {x}"])
def test_the_name_of_the_file_may_be_any(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("JobID\n7\n")
    with closing(open_dump(path)) as ledger:
        assert ledger.connection.execute("SELECT job_id FROM jobs").fetchall() == [("7",)]


@pytest.mark.parametrize(
    ("text", "said", "line"),
    [
        (b"", "empty", ":1"),
        (b"1|a|COMPLETED\n2|b|COMPLETED\n", "does not name sacct's fields", ":1"),
        (bytes(range(256)) * 64, "does not name sacct's fields", ":1"),
        (b"JobName|State\nx|COMPLETED\n", "no column JobID", ":1"),
        (b"JobID|State|state\n1|COMPLETED|x\n", "state twice", ":1"),
        (b"JobID|State|User\n" + b"1,COMPLETED,x\n" * 9, "9 lines do not have the 3 fields", ":2"),
        (b"JobID|State\n" + b"1,COMPLETED\n" * 9, "9 lines do not have the 2 fields", ":2"),
        (gzip.compress(b"JobID\n" + bytes(range(48, 58)) * 99_999)[:-900], "cannot be read", ""),
    ],
    ids=["empty", "no header", "rubbish", "no id", "twice", "delimiter", "two fields", "truncated"],
)
def test_what_is_no_dump_is_refused_with_its_line(tmp_path: Path, text: bytes, said: str, line: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        asked(tmp_path, text, "*")
    assert caught.value.exit_code == 2
    assert caught.value.where == f"{tmp_path / 'dump'}{line}"


def test_a_delimiter_that_is_not_in_the_header_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "dump"
    path.write_text("JobID|State\n1|COMPLETED\n")
    with pytest.raises(UsageError, match="is not in the header"):
        open_dump(path, delimiter=";")


@pytest.mark.parametrize("missing", ["nothing", "."])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, missing: str) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        open_dump(tmp_path / missing)


def test_lines_that_could_not_be_read_are_told_by_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / "dump"
    path.write_text("JobID|JobName|State\n1|a|COMPLETED\n2|b|COMPLETED\nabc\n3|c|COMPLETED\n4|trunc")
    for columns in (None, ["name"]):
        with closing(open_dump(path, columns=columns)) as ledger:
            assert len(ledger.connection.execute("SELECT name FROM jobs").fetchall()) == 3
            (note,) = ledger.notes
            assert note == "2 lines were no whole record and could not be read: line 4, 6"


def test_the_rest_of_a_cut_record_with_a_whole_ones_fields_is_no_job(tmp_path: Path) -> None:
    path = tmp_path / "dump"
    path.write_text("JobID|State\n1|COMPLETED\nrest|of it\n2|COMPLETED\n")
    for columns in (None, ["job_id"]):
        with closing(open_dump(path, columns=columns)) as ledger:
            rows = ledger.connection.execute("SELECT job_id FROM jobs ORDER BY 1").fetchall()
            assert rows == [("1",), ("2",)]
            assert ledger.notes == ("1 line was no whole record and could not be read: line 3",)


@pytest.mark.parametrize("delimiter", ["|", "\x1f\x1e"])
@pytest.mark.parametrize("epoch", [False, True])
def test_a_generated_trace_comes_back_with_its_exact_sums(
    tmp_path: Path, delimiter: str, epoch: bool
) -> None:
    trace = generate(3000, seed=5, days=30)
    path = tmp_path / "dump"
    with path.open("wb") as file:
        trace_text.write(trace, file, delimiter=delimiter, epoch=epoch, steps=True, odd=0.02)
    wanted = {key: tuple(used) for key, used in truth(trace).items()}
    sums = (
        'SELECT account, "user", count(*), sum(cpus * elapsed), sum(gpus * elapsed) FROM jobs'
        " WHERE start_time IS NOT NULL AND NOT is_runaway GROUP BY ALL"
    )
    for columns in (None, [column.name for column in JOBS]):
        with closing(open_dump(path, zone=UTC, columns=columns)) as ledger:
            rows = ledger.connection.execute(sums).fetchall()
            assert {(row[0], row[1]): tuple(map(int, row[2:])) for row in rows} == wanted
            assert ledger.notes == ()
            if columns is None:
                lone = "SELECT count(*) FROM steps WHERE job_submit_time IS NULL"
                assert ledger.connection.execute(lone).fetchall() == [(0,)]


@pytest.mark.parametrize("sample", [1, 50, SAMPLE])
def test_read_once_or_for_every_query_the_records_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sample: int
) -> None:
    monkeypatch.setattr("slurmkit.accounting.dump.SAMPLE", sample)
    path = tmp_path / "dump"
    with path.open("wb") as file:
        trace_text.write(generate(2000, seed=6, days=20), file, odd=0.02)
    got = []
    for columns in (None, [column.name for column in JOBS]):
        with closing(open_dump(path, zone=UTC, columns=columns)) as ledger:
            got.append(sorted(ledger.connection.execute("SELECT * FROM jobs").fetchall(), key=repr))
    assert got[0] == got[1]


def test_nothing_is_left_behind_once_it_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    path = tmp_path / "dump"
    path.write_bytes(b"JobID|JobName\n1|lat\xedn\n2|b\n")
    for columns in (None, ["name"]):
        open_dump(path, columns=columns).close()
        assert list(scratch.iterdir()) == []


def test_a_dump_of_another_kind_is_not_repaired_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_BROKEN", 10)
    with pytest.raises(UsageError, match="11 lines do not have"):
        asked(tmp_path, "JobID|State\n" + "1|COMPLETED\n" * 50 + "nothing\n" * 11, "*")


ANY = st.text(st.characters(codec="utf-8", exclude_characters="\x1e\x1f\r"), max_size=30)
RECORDS = st.lists(st.tuples(ANY, ANY, st.sampled_from(["COMPLETED", "FAILED", "TIMEOUT"])), max_size=20)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records=RECORDS)
def test_what_slurmkit_asks_for_comes_back_whatever_users_write(
    tmp_path: Path, records: list[tuple[str, str, str]]
) -> None:
    """With its own delimiter after each field nothing that a user can write is lost or moved."""
    rows = [
        {"JobID": str(number), "State": state, "JobName": name, "Comment": comment}
        for number, (name, comment, state) in enumerate(records, 1)
    ]
    fields = ["JobID", "State", "JobName", "Comment"]
    lines = [fields, *([row[name] for name in fields] for row in rows)]
    dump = "".join("".join(cell + "\x1f\x1e" for cell in line) + "\n" for line in lines)
    got = asked(tmp_path, dump, "job_id, state, name, comment")
    assert sorted(got, key=lambda row: int(row[0])) == [
        (row["JobID"], row["State"], row["JobName"], row["Comment"] or None) for row in rows
    ]


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\r\0"), max_size=12).filter(
    lambda name: name.count("|") <= 4 and not any(line[:1].isdigit() for line in name.split("\n")[1:])
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(NAMES, min_size=1, max_size=8))
def test_names_with_newlines_and_the_delimiter_are_put_together_again(
    tmp_path: Path, names: list[str]
) -> None:
    """Of a dump with a plain delimiter, as long as no line within a name looks like a record."""
    rows = [
        {
            "JobID": str(number), "JobName": name, "State": "COMPLETED", "ExitCode": "0:0",
            "Submit": "2026-01-01T00:00:00", "AllocTRES": "cpu=1", "ElapsedRaw": "5",
        }
        for number, name in enumerate(names, 1)
    ]  # fmt: skip
    rows.append(rows[0] | {"JobID": "99", "JobName": "the last"})
    got = asked(tmp_path, text_of(rows), "job_id, name, elapsed")
    assert [(row[0], row[1]) for row in got] == [(row["JobID"], row["JobName"]) for row in rows]
