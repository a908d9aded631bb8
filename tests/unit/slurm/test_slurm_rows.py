from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmkit.slurm.ids import JobId
from slurmkit.slurm.rows import DELIMITER, by_base, is_wanted, rows

COLUMNS = ("JobID", "State", "Comment", "JobName")
free_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=["\0", "\x1e"]), max_size=30)
records = st.tuples(
    st.from_regex(r"[0-9]{1,6}(_[0-9]|\+[0-9])?", fullmatch=True), st.just("RUNNING"), free_text, free_text
)


def printed(*records: tuple[str, ...]) -> str:
    return "".join("".join(f"{cell}{DELIMITER}" for cell in record) + "\n" for record in records)


def cells(text: str) -> list[tuple[str, ...]]:
    return [tuple(row[column] for column in COLUMNS) for row in rows(text, COLUMNS)]


def test_trap_003_a_pipe_in_a_name_shifts_no_column() -> None:
    record = ("4", "COMPLETED", "x|y", "a|b")
    assert cells(printed(record)) == [record]


def test_trap_004_a_newline_in_a_name_is_not_a_new_record() -> None:
    both = [("5", "COMPLETED", "", "line1\nline2"), ("6", "COMPLETED", "", "ok")]
    assert cells(printed(*both)) == both


@pytest.mark.parametrize("name", ["d\x1fe\x1ff", "c\n5\x1fx", "\n7\x1f\n", "\n", "8_[1-3]", "\x1f"])
def test_trap_003_no_stray_delimiter_in_a_name_breaks_the_rows(name: str) -> None:
    both = [("5", "RUNNING", name, name), ("6", "RUNNING", "", "ok")]
    assert cells(printed(*both)) == both


@given(st.lists(records, max_size=5))
def test_rows_come_back_as_they_were_printed(given_records: list[tuple[str, str, str, str]]) -> None:
    assert cells(printed(*given_records)) == given_records


def test_lines_of_a_sites_wrapper_are_passed_over() -> None:
    record = ("5", "RUNNING", "", "x")
    text = f"Welcome to System3\nCLUSTER: c1\n{printed(record)}\nCLUSTER: c2\n{printed(record)}bye 123\n"
    assert cells(text) == [record, record]


@pytest.mark.parametrize("text", ["", "\n", "no jobs\n"])
def test_no_rows_are_none(text: str) -> None:
    assert cells(text) == []


def test_trap_003_a_row_with_too_few_columns_is_an_error_that_holds_it() -> None:
    with pytest.raises(ValueError, match=r"3 columns instead of 4.*'5"):
        cells(printed(("5", "RUNNING", "x")))


@pytest.mark.parametrize(
    ("job", "raw", "wanted"),
    [
        ("12", "12", True),
        ("56_1", "57", True),
        ("56_2", "58", False),
        ("159+1", "160", True),
        ("161+1", "162", True),
        ("99", "99", False),
        ("170_1", "171", False),
    ],
)
def test_trap_029_a_row_is_wanted_by_its_id_or_by_the_number_that_slurm_gave_it(
    job: str, raw: str, wanted: bool
) -> None:
    ids = by_base(map(JobId.parse, ["12", "56_1", "160", "161"]))
    assert is_wanted(JobId.parse(job), raw, ids) is wanted
