from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from slurmkit.run.progress import SILENT_AFTER, as_fields, parse, read, read_current
from slurmkit.run.state import RunState
from tests.unit.run.conftest import NOW

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from slurmkit.run.paths import RunPaths

    Make = Callable[..., RunPaths]

EPOCH = NOW.timestamp()
FULL: dict[str, Any] = {
    "attempt": "12-0",
    "step_start": 0,
    "updated": EPOCH,
    "started": EPOCH - 60,
    "world_size": 8,
    "ranks_heard": 8,
    "step": 120,
    "step_max": 121,
    "total": 1000,
    "steps_per_second": 12.25,
    "seconds_left": 71.8,
    "source": "datagrams",
    "phases": {"data": 0.01, "compute": 0.06},
    "metrics": {"loss": 0.5},
    "history": [[EPOCH - 10, 11.0], [EPOCH - 5, 12.25]],
    "slowest": [
        {"rank": 3, "host": "n2", "step": 120, "own": 0.07, "sync": None, "in": "data", "heard": EPOCH}
    ],
    "stragglers": [{"rank": None, "host": "n2", "phase": "data", "own": 0.3, "median": 0.2, "since": EPOCH}],
    "last_checkpoint": {"at": EPOCH - 30, "step": 100},
    "hung": False,
}


def running(attempt: str | None = "12-0", state: str = "running") -> RunState:
    return RunState("r", state, attempt=attempt)


def write(path: Path, fields: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(fields if isinstance(fields, str) else json.dumps(fields))
    return path


def test_every_key_is_read() -> None:
    progress = parse(FULL)
    assert progress is not None
    fields = as_fields(progress)
    assert (progress.updated, fields["slowest"][0].pop("phase")) == (NOW, "data")
    for name in (
        "step",
        "step_max",
        "total",
        "steps_per_second",
        "seconds_left",
        "metrics",
        "phases",
        "hung",
    ):
        assert fields[name] == FULL[name]
    assert [time.timestamp() for time, _ in progress.history] == [EPOCH - 10, EPOCH - 5]
    assert progress.slowest[0].heard == progress.stragglers[0].since == NOW
    assert progress.last_checkpoint is not None
    assert progress.last_checkpoint.step == 100
    json.dumps(fields, default=str, allow_nan=False)


@pytest.mark.parametrize(
    "contents",
    ["", "{", '{"updated": 17', "[]", "null", "12", "\x00\xff", "{}", '{"step": 3}', '{"updated": "now"}',
     '{"updated": 1e400}', '{"updated": 1e300}', "[" * 100_000, '{"updated": true}'],
    ids=lambda text: text[:16] or "empty",
)  # fmt: skip
def test_a_half_or_foreign_file_is_none(tmp_path: Path, contents: str) -> None:
    assert read(write(tmp_path / "progress.json", contents)) is None


def test_no_file_and_a_folder_in_its_place_are_none(tmp_path: Path) -> None:
    assert read(tmp_path / "nothing") is None
    assert read(tmp_path) is None


@pytest.mark.parametrize("value", [None, "x", [], {}, True, [[]], [[1]], [["a", "b"]], [None], {"at": "x"}])
@pytest.mark.parametrize("name", [name for name in FULL if name != "updated"])
def test_a_value_of_another_kind_is_not_known(name: str, value: object) -> None:
    progress = parse({**FULL, name: value, "of a newer version": 1})
    assert progress is not None
    got = getattr(progress, name)
    assert not got or got in {True, "x"}


def test_numbers_that_are_none_are_not_passed_on() -> None:
    progress = parse(json.loads(f'{{"updated": {EPOCH}, "step": NaN, "seconds_left": Infinity, '
                                '"total": 1e999, "metrics": {"loss": NaN}}'))  # fmt: skip
    assert progress is not None
    assert (progress.step, progress.seconds_left, progress.total) == (None, None, None)
    assert progress.metrics["loss"] != progress.metrics["loss"]
    assert as_fields(progress)["metrics"] == {"loss": None}


def test_the_last_attempts_file_counts(make_run: Make) -> None:
    paths = make_run()
    write(paths.progress("12-0"), FULL)
    write(paths.progress("12-1"), {**FULL, "step": 7})
    last = read_current(paths, running("12-1"), NOW)
    assert last is not None
    assert last.step == 7
    assert read_current(paths, running("12-2"), NOW) is None
    assert read_current(paths, running(None), NOW) is None


@pytest.mark.parametrize(
    ("state", "age", "expected"),
    [
        ("running", timedelta(), 12.25),
        ("running", SILENT_AFTER, 12.25),
        ("running", SILENT_AFTER + timedelta(seconds=1), None),
        ("completed", timedelta(), None),
        ("pending", timedelta(), None),
    ],
)
def test_what_was_reached_stands_and_what_was_expected_only_while_it_runs(
    make_run: Make, state: str, age: timedelta, expected: float | None
) -> None:
    paths = make_run()
    write(paths.progress("12-0"), FULL)
    progress = read_current(paths, running(state=state), NOW + age)
    assert progress is not None
    assert (progress.step, progress.total) == (120, 1000)
    assert progress.steps_per_second == expected
    assert (progress.seconds_left is None, progress.stragglers == ()) == (expected is None, expected is None)


def test_a_clock_that_goes_before_ours_is_no_silence() -> None:
    progress = parse(FULL)
    assert progress is not None
    assert not progress.is_silent(datetime(2026, 1, 1, tzinfo=UTC))
