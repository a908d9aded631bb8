from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from slurmkit.errors import UsageError
from slurmkit.run import events
from slurmkit.run.logs import FIRST_PAUSE, LONGEST_PAUSE, attempts, choose_attempt, files, follow, rank_of
from slurmkit.run.survey import open_dossier

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from slurmkit.run.paths import RunPaths
    from tests.unit.run.conftest import FakeClock

    Make = Callable[..., RunPaths]


def write(path: Path, data: bytes = b"x\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


@pytest.fixture
def paths(make_run: Make) -> RunPaths:
    paths = make_run()
    for restart in range(2):
        events.append(paths, "attempt-started", attempt=f"12-{restart}", job_id="12")
    return paths


def test_rank_0_of_the_last_attempt_is_the_default(paths: RunPaths) -> None:
    write(paths.rank_log("12-0", 0))
    last = write(paths.rank_log("12-1", 0))
    assert files(open_dossier(paths)) == [last]


def test_an_attempt_that_has_printed_nothing_yet_leaves_the_one_before(paths: RunPaths) -> None:
    first = write(paths.rank_log("12-0", 0))
    assert files(open_dossier(paths)) == [first]


def test_a_rank_and_an_attempt_can_be_chosen(paths: RunPaths) -> None:
    write(paths.rank_log("12-1", 0))
    wanted = write(paths.rank_log("12-0", 3))
    assert files(open_dossier(paths), rank=3, attempt="12-0") == [wanted]


def test_all_ranks_come_in_order(paths: RunPaths) -> None:
    logs = [write(paths.rank_log("12-1", rank)) for rank in (0, 2, 10, 100)]
    assert files(open_dossier(paths), rank=None) == logs
    assert [rank_of(path) for path in logs] == [0, 2, 10, 100]


def test_the_batch_log_stands_in_while_no_rank_has_printed(paths: RunPaths) -> None:
    batch = write(paths.batch_log("12"))
    assert files(open_dossier(paths)) == [batch]
    assert rank_of(batch) is None


def test_batch_logs_of_an_array_are_those_of_its_tasks(make_run: Make) -> None:
    paths = make_run(array="0-1")
    logs = [write(paths.batch_log("12_0")), write(paths.batch_log("12_1"))]
    assert files(open_dossier(paths)) == logs


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("%j.out", "12.out"),
        ("%5j.out", "00012.out"),
        ("a%%b-%j", "a%b-12"),
        ("pre\\%j.out", "pre%j.out"),
        ("%x.out", "a name.out"),
        ("%u [1]*?.out", "ada [1]*?.out"),
        ("log-%N.out", "log-n1.out"),
        ("sub/%t", "sub/0"),
    ],
)
def test_trap_143_the_log_is_found_where_sbatch_put_it(
    make_run: Make, tmp_path: Path, pattern: str, name: str
) -> None:
    folder = tmp_path / "work [1]* dir"
    wanted = write(folder / name)
    assert files(open_dossier(make_run(output=pattern, directory=str(folder)))) == [wanted]


def test_a_run_without_a_job_has_no_logs(make_run: Make) -> None:
    assert files(open_dossier(make_run(job_id=None))) == []


@pytest.mark.parametrize(("text", "name"), [("1", "12-0"), ("2", "12-1"), ("-1", "12-1"), ("12-0", "12-0")])
def test_an_attempt_has_a_number_and_a_name(paths: RunPaths, text: str, name: str) -> None:
    assert choose_attempt(open_dossier(paths), text) == name


@pytest.mark.parametrize("text", ["0", "3", "-3", "x", "12-7", "", "../.."])
def test_an_attempt_that_is_none_is_answered_with_those_that_are(paths: RunPaths, text: str) -> None:
    with pytest.raises(UsageError, match=r"1: 12-0, 2: 12-1"):
        choose_attempt(open_dossier(paths), text)


def test_attempts_whose_event_was_lost_are_found_by_their_logs(paths: RunPaths) -> None:
    write(paths.rank_log("12-2", 0))
    assert attempts(open_dossier(paths)) == ["12-0", "12-1", "12-2"]


def test_a_log_is_followed_to_what_was_written_just_before_the_end(paths: RunPaths, clock: FakeClock) -> None:
    log = paths.rank_log("12-1", 0)
    script = iter([b"one\n", b"two\n", b""])
    state = {"over": False}

    def change() -> None:
        data = next(script)
        write(log, (log.read_bytes() if log.exists() else b"") + data)
        state["over"] = not data

    def is_over() -> bool:
        if state["over"]:
            write(log, log.read_bytes() + b"last\n")
        return state["over"]

    clock.on_sleep = change
    assert b"".join(chunk for _, chunk in follow(lambda: [log], is_over, clock)) == b"one\ntwo\nlast\n"


def test_following_goes_on_to_a_new_attempt(paths: RunPaths, clock: FakeClock) -> None:
    first, second = write(paths.rank_log("12-0", 0), b"first\n"), paths.rank_log("12-1", 0)
    looks = iter([False, False, True])

    def requeue() -> None:
        write(second, b"second\n")

    clock.on_sleep = requeue
    found = [
        chunk
        for _, chunk in follow(lambda: [p for p in (first, second) if p.exists()], lambda: next(looks), clock)
    ]
    assert found == [b"first\n", b"second\n"]


def test_trap_097_a_log_that_a_requeue_emptied_is_read_from_its_start(
    paths: RunPaths, clock: FakeClock
) -> None:
    log = write(paths.batch_log("12"), b"a long first attempt\n")
    looks = iter([False, True])

    def requeue() -> None:
        write(log, b"new\n")

    clock.on_sleep = requeue
    assert b"".join(chunk for _, chunk in follow(lambda: [log], lambda: next(looks), clock)).endswith(
        b"\nnew\n"
    )


def test_a_resting_log_is_looked_at_less_often(paths: RunPaths, clock: FakeClock) -> None:
    pauses: list[float] = []
    last = {"time": clock.time}

    def measure() -> None:
        pauses.append((clock.time - last["time"]).total_seconds())
        last["time"] = clock.time

    clock.on_sleep = measure
    looks = iter([False] * 8 + [True])
    list(follow(list, lambda: next(looks), clock))
    assert pauses[0] == pytest.approx(FIRST_PAUSE * 2)
    assert pauses[-1] == pytest.approx(LONGEST_PAUSE)
    assert pauses == sorted(pauses)


def test_bytes_that_are_no_text_pass(paths: RunPaths, clock: FakeClock) -> None:
    data: Any = os.urandom(3_000_000)
    log = write(paths.rank_log("12-1", 0), data)
    assert b"".join(chunk for _, chunk in follow(lambda: [log], lambda: True, clock)) == data
