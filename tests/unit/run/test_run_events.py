from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from slurmkit.run import events
from slurmkit.run.paths import RunPaths

if TYPE_CHECKING:
    from pathlib import Path

WHEN = datetime(2026, 12, 1, 10, 0, 0, 250000, tzinfo=UTC)


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    return RunPaths(tmp_path)


def test_what_is_appended_is_read(paths: RunPaths) -> None:
    events.append(paths, "submitting", at=WHEN, tag="t")
    events.append(paths, "submitted", at=WHEN, job_id="12", cluster=None)
    first, second = events.read(paths)
    assert (first.kind, first.time, first.fields) == ("submitting", WHEN, {"tag": "t"})
    assert (second.text("job_id"), second.text("cluster"), second.text("nothing")) == ("12", None, None)


def test_a_run_without_a_log_has_no_events(paths: RunPaths) -> None:
    assert events.read(paths) == []


def test_an_unknown_kind_is_not_written(paths: RunPaths) -> None:
    with pytest.raises(ValueError, match="submited"):
        events.append(paths, "submited")
    assert not paths.events.exists()


def test_an_unknown_kind_is_read_since_a_newer_version_may_have_written_it(paths: RunPaths) -> None:
    paths.events.write_text('{"time": 1, "event": "moved", "to": "mars"}\n')
    assert [event.kind for event in events.read(paths)] == ["moved"]


@pytest.mark.parametrize("length", range(1, 40))
def test_a_line_cut_short_is_passed_over_and_the_next_one_stands(paths: RunPaths, length: int) -> None:
    events.append(paths, "submitting", at=WHEN)
    whole = paths.events.read_bytes()
    paths.events.write_bytes(whole + whole[:length])
    assert [event.kind for event in events.read(paths)] == ["submitting"]
    events.append(paths, "submitted", at=WHEN, job_id="7")
    assert [event.kind for event in events.read(paths)] == ["submitting", "submitted"]


@pytest.mark.parametrize(
    "line",
    [b"", b"null", b"[]", b"3", b'"x"', b'{"time": 1}', b'{"event": "submitted"}',
     b'{"time": "x", "event": "y"}', b'{"time": 1e300, "event": "y"}', b'{"time": NaN, "event": "y"}',
     b"\xff\xfe", b"\0\0\0"],
)  # fmt: skip
def test_a_damaged_line_is_passed_over(paths: RunPaths, line: bytes) -> None:
    events.append(paths, "submitting", at=WHEN)
    with paths.events.open("ab") as file:
        file.write(line + b"\n")
    events.append(paths, "submitted", at=WHEN, job_id="7")
    assert [event.kind for event in events.read(paths)] == ["submitting", "submitted"]


@pytest.mark.parametrize("text", ["a b", "'\"", "$HOME `id`", "new\nline", "é", "\udcff", "-x", "\x1b[31m"])
def test_any_text_survives_and_a_line_stays_a_line_of_ascii(paths: RunPaths, text: str) -> None:
    events.append(paths, "not-submitted", at=WHEN, reason=text)
    assert events.read(paths)[0].text("reason") == text
    assert paths.events.read_bytes().count(b"\n") == 1
    assert paths.events.read_bytes().isascii()


def test_times_are_seconds_since_1970(paths: RunPaths) -> None:
    events.append(paths, "submitting", at=WHEN)
    assert json.loads(paths.events.read_bytes())["time"] == WHEN.timestamp()


def test_the_present_is_the_default(paths: RunPaths) -> None:
    before = datetime.now(UTC)
    events.append(paths, "submitting")
    assert abs((events.read(paths)[0].time - before).total_seconds()) < 60
