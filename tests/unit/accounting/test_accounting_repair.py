"""Broken lines, by themselves: what is put together, what is lost."""

from __future__ import annotations

import pytest

from slurmkit.accounting.repair import Line, Record, mend, repair

COLUMNS = ("jobid", "jobname", "state", "exitcode", "comment")


def lines(*texts: str, newlines: int = 1) -> list[Line]:
    return [Line(number, text, newlines) for number, text in enumerate(texts, 2)]


@pytest.mark.parametrize(
    ("texts", "cells"),
    [
        (["5|a", "b|COMPLETED|0:0|"], ("5", "a\nb", "COMPLETED", "0:0", "")),
        (["5|a", "b", "", "c|COMPLETED|0:0|"], ("5", "a\nb\n\nc", "COMPLETED", "0:0", "")),
        (["5|a|b|COMPLETED|0:0|"], ("5", "a|b", "COMPLETED", "0:0", "")),
        (["5|a|b|COMPLETED|0:0|x|y"], ("5", "a|b", "COMPLETED", "0:0", "x|y")),
        (["5|a|COMPLETED|0:0|x|y|z"], ("5", "a", "COMPLETED", "0:0", "x|y|z")),
        (["5|||COMPLETED|0:0|"], ("5", "|", "COMPLETED", "0:0", "")),
        (["5|a|", "|COMPLETED|0:0|"], ("5", "a|\n", "COMPLETED", "0:0", "")),
    ],
)
def test_free_text_takes_what_is_too_much(texts: list[str], cells: tuple[str, ...]) -> None:
    got = repair(lines(*texts), COLUMNS, "|")
    assert got.records == (Record(2, cells),)
    assert got.lost == ()


def test_a_record_that_stays_broken_costs_no_other() -> None:
    got = repair(lines("abc", "5|a", "b|COMPLETED|0:0|", "6|trunc"), COLUMNS, "|")
    assert [record.cells[0] for record in got.records] == ["5"]
    assert [line.number for line in got.lost] == [2, 5]


def test_lines_with_a_whole_record_between_them_are_not_joined() -> None:
    far = [Line(2, "5|a"), Line(4, "b|COMPLETED|0:0|", newlines=40)]
    assert [line.number for line in repair(far, COLUMNS, "|").lost] == [2, 4]


def test_how_many_broken_lines_stand_before_each_record_is_known() -> None:
    got = repair(lines("abc", "5|a", "b|COMPLETED|0:0|", "6|c|d|FAILED|1:0|"), COLUMNS, "|")
    assert got.before == (1, 3)


def test_no_guess_puts_a_wrong_text_in_a_typed_field() -> None:
    got = repair(lines("5|COMPLETED|0:0|COMPLETED|0:0|x"), COLUMNS, "|")
    assert got.records == (Record(2, ("5", "COMPLETED|0:0", "COMPLETED", "0:0", "x")),)


def test_a_directory_begins_with_a_slash_and_so_tells_which_text_had_the_delimiter() -> None:
    got = repair(lines("5|a|b|/home/x|name"), ("jobid", "comment", "workdir", "jobname"), "|")
    assert got.records[0].cells == ("5", "a|b", "/home/x", "name")


def test_a_longer_delimiter_is_put_back_as_it_was() -> None:
    got = repair(lines("5^|^a^|^b^|^COMPLETED^|^0:0^|^"), COLUMNS, "^|^")
    assert got.records[0].cells == ("5", "a^|^b", "COMPLETED", "0:0", "")


LAST = ("jobid", "state", "jobname")
FIRST = ("jobname", "state", "jobid")


@pytest.mark.parametrize(
    ("columns", "texts", "right"),
    [
        (LAST, ["1|COMPLETED|a", "b", "2|FAILED|c"], [("1", "COMPLETED", "a\nb"), ("2", "FAILED", "c")]),
        (LAST, ["1|COMPLETED|a", "", "b|c"], [("1", "COMPLETED", "a\n\nb|c")]),
        (LAST, ["abc", "1|COMPLETED|a"], [2, ("1", "COMPLETED", "a")]),
        (LAST, ["1|COMPLETED|a", "2|FAI"], [("1", "COMPLETED", "a"), 3]),
        (FIRST, ["a", "b|COMPLETED|1", "c|FAILED|2"], [("a\nb", "COMPLETED", "1"), ("c", "FAILED", "2")]),
        (FIRST, ["c|FAILED|2", "a"], [("c", "FAILED", "2"), 3]),
        (("jobid", "submit"), ["1|", "b", "2|"], [("1", ""), 3, ("2", "")]),
    ],
)  # fmt: skip
def test_with_all_lines_in_a_row_each_finds_its_record(
    columns: tuple[str, ...], texts: list[str], right: list[object]
) -> None:
    got = mend(lines(*texts), columns, "|")
    assert [one.number if isinstance(one, Line) else one.cells for one in got] == right
