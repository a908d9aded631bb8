from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click
import pytest
from click.testing import CliRunner

from slurmkit.cli.output import Answer, cell, output, print_answer
from slurmkit.slurm.ids import JobId

if TYPE_CHECKING:
    from collections.abc import Callable

WHEN = datetime(2026, 12, 1, 10, 0, tzinfo=UTC)
ROWS = [{"id": "a", "state": "running", "since": WHEN}, {"id": "long-name", "state": "failed", "since": None}]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        ("", ""),
        (0, "0"),
        (timedelta(seconds=5), "00:00:05"),
        (timedelta(hours=30, minutes=2), "1-06:02:00"),
        (timedelta(seconds=59.9), "00:00:59"),
        ((), "-"),
        (("n1", "n2"), "n1,n2"),
        (JobId(12, task=3), "12_3"),
        ("a\nb\tc\x1b[31m", "a\\nb\\tc\\x1b[31m"),
        ("é日", "é日"),
    ],
)
def test_a_value_prints_as_a_person_reads_it(value: object, text: str) -> None:
    assert cell(value) == text


def test_a_time_prints_as_local_time() -> None:
    assert cell(WHEN) == WHEN.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def test_a_pipe_gets_aligned_text(capsys: pytest.CaptureFixture[str]) -> None:
    print_answer(Answer(data=ROWS, columns=("id", "state")))
    assert capsys.readouterr().out == "ID         STATE\na          running\nlong-name  failed\n"


def test_a_pipe_never_imports_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    print_answer(Answer(data=ROWS, columns=("id", "state")))


def test_a_terminal_gets_a_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_answer(Answer(data=ROWS, columns=("id", "state")))
    lines = click.unstyle(capsys.readouterr().out).splitlines()
    assert [line.split() for line in lines[:2]] == [
        ["ID", "STATE"],
        ["a", "running"],
    ]


def test_an_empty_table_is_a_sentence_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    print_answer(Answer(data=[], columns=("id",), empty="none so far"))
    assert capsys.readouterr() == ("", "none so far\n")


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (timedelta(minutes=1.5), 90.0),
        (JobId(12, task=3), "12_3"),
        (None, None),
        (("n1",), ["n1"]),
        ("\udcff", "\udcff"),
    ],
)
def test_json_is_plain(value: object, plain: object, capsys: pytest.CaptureFixture[str]) -> None:
    print_answer(Answer(data={"key": value}), as_json=True)
    assert json.loads(capsys.readouterr().out) == {"key": plain}


def test_times_in_json_are_iso_8601_with_offset(capsys: pytest.CaptureFixture[str]) -> None:
    print_answer(Answer(data=[{"at": WHEN}], columns=("at",)), as_json=True)
    text = json.loads(capsys.readouterr().out)[0]["at"]
    assert datetime.fromisoformat(text) == WHEN
    assert text[-6] in "+-"


def run(function: Callable[..., Any], *arguments: str) -> tuple[str, int]:
    result = CliRunner().invoke(click.command()(output(function)), list(arguments), catch_exceptions=False)
    return result.stdout, result.exit_code


def test_the_decorator_adds_json_and_passes_the_exit_code_on() -> None:
    answer = Answer(data={"a": 1}, text="one", exit_code=4)
    assert run(lambda: answer) == ("one\n", 4)
    assert run(lambda: answer, "--json") == ('{\n  "a": 1\n}\n', 4)


def test_a_command_that_has_printed_all_itself_returns_its_exit_code() -> None:
    assert run(lambda: 7) == ("", 7)
    assert run(lambda: 0, "--json") == ("", 0)
