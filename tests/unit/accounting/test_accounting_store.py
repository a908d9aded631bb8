"""The store: each attempt once, whatever is added in whatever order, and all of an addition or none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmkit.accounting import manifest, merge
from slurmkit.accounting.manifest import load, sweep, writing
from slurmkit.accounting.schema import VERSION
from slurmkit.accounting.store import add, default_store, open_store
from slurmkit.errors import UsageError
from tests.unit.accounting.attempts import Record, at, job, ledger, pending, running, step

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

KEY = "job_number, epoch(submit_time)::BIGINT, epoch(start_time)::BIGINT"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store of 'ada' é"


def put(store: Path, jobs: Iterable[Record] = (), steps: Iterable[Record] = (), **how: Any) -> None:
    with writing(store), closing(ledger(jobs, steps)) as given:
        add(store, given, **how)


def rows(store: Path, columns: str = "job_number, state", table: str = "jobs") -> list[Any]:
    with closing(open_store(store)) as kept:
        found = kept.connection.execute(f"SELECT {columns} FROM {table} ORDER BY ALL").fetchall()
    return [row[0] if len(row) == 1 else row for row in found]


def files(store: Path, kind: str = "jobs") -> dict[str, int]:
    kept = load(store)
    assert kept is not None
    return {file.part: file.rows for file in getattr(kept.clusters["aurora"], kind)}


def test_what_is_added_is_there_and_stands_by_the_day_of_its_end(store: Path) -> None:
    late = job(2, at(11), 2, name="a|b\n'c'", gpus=None)
    put(store, [job(1), late, running(3)], [step(late), step(late, "0")])
    assert rows(store) == [(1, "COMPLETED"), (2, "COMPLETED"), (3, "RUNNING")]
    assert files(store) == {"": 1, "2026-11-10": 1, "2026-11-11": 1}
    assert files(store, "steps") == {"2026-11-11": 2}
    assert rows(store, "name", "jobs WHERE job_number = 2") == ["a|b\n'c'"]


def test_adding_the_same_again_changes_nothing(store: Path) -> None:
    jobs = [job(1), job(2, at(30)), running(3), pending(4, at(0))]
    put(store, jobs, [step(jobs[0])])
    before = rows(store, "*"), rows(store, "*", "steps")
    put(store, jobs, [step(jobs[0])])
    assert (rows(store, "*"), rows(store, "*", "steps")) == before


def test_a_record_that_is_there_is_replaced(store: Path) -> None:
    put(store, [job(1, name="before")], [step(job(1), max_rss=1), step(job(1), "0")])
    put(store, [job(1, name="after")], [step(job(1), max_rss=2)])
    assert rows(store, "name") == ["after"]
    assert rows(store, "step, max_rss", "steps") == [("0", None), ("batch", 2)]


def test_trap_030_attempts_of_one_job_are_apart_and_a_record_twice_in_a_dump_is_one(store: Path) -> None:
    again = job(1, at(5), state="COMPLETED")
    put(store, [job(1, state="REQUEUED"), again, again])
    assert rows(store) == [(1, "COMPLETED"), (1, "REQUEUED")]


def test_a_job_that_waited_then_runs_then_ends_is_one_attempt(store: Path) -> None:
    submit = at(-1)
    put(store, [pending(1, submit)])
    put(store, [running(1)], [step(running(1))])
    assert rows(store) == [(1, "RUNNING")]
    put(store, [job(1, hours=3)], [step(job(1, hours=3))])
    assert rows(store) == [(1, "COMPLETED")]
    assert rows(store, "step, end_time", "steps") == [("batch", at(3))]
    assert files(store) == {"2026-11-10": 1}


@pytest.mark.parametrize("older", [pending(1, at(-1)), running(1, hours=0.5)], ids=["waits", "runs"])
def test_an_older_dump_does_not_bring_an_attempt_back(store: Path, older: Record) -> None:
    put(store, [job(1)])
    put(store, [older])
    assert rows(store) == [(1, "COMPLETED")]


def test_of_an_open_attempt_the_newer_record_stays(store: Path) -> None:
    put(store, [running(1, hours=5)])
    put(store, [running(1, hours=2), pending(1, at(-1))])
    assert rows(store, "elapsed") == [5 * 3600]


def test_the_last_task_of_an_array_takes_the_number_of_those_that_waited(store: Path) -> None:
    put(store, [pending(7, at(-1), job_id="7_[3-99%4]", array_tasks=97)])
    put(store, [pending(7, at(-1), job_id="7_[9-99%4]", array_tasks=91), running(8, job_id="7_3")])
    assert rows(store, "job_id") == ["7_3", "7_[9-99%4]"]
    put(store, [job(7, job_id="7_99")])
    assert rows(store, "job_id") == ["7_3", "7_99"]


def test_a_resized_job_keeps_both_records(store: Path) -> None:
    submit = at(-1)
    first = job(1, at(0), 2, state="RESIZING", submit_time=submit)
    put(store, [first, running(1, at(2), 1, submit_time=submit)])
    put(store, [first])
    assert rows(store) == [(1, "RESIZING"), (1, "RUNNING")]


def test_an_end_that_was_corrected_moves_the_attempt_and_its_steps(store: Path) -> None:
    put(store, [job(1), job(2)], [step(job(1)), step(job(2))])
    put(store, [job(1, hours=40)])
    assert files(store) == {"2026-11-10": 1, "2026-11-12": 1}
    assert files(store, "steps") == {"2026-11-10": 1, "2026-11-12": 1}


def test_an_attempt_with_two_ends_in_one_dump_is_there_once(store: Path) -> None:
    put(store, [job(1, hours=40), job(1)])
    assert rows(store, "end_time") == [at(40)]


def test_what_ended_after_the_records_are_complete_waits_with_the_open(store: Path) -> None:
    put(store, [job(1), job(2, at(0), 30)], [step(job(2, at(0), 30))], horizon=at(12))
    assert files(store) == {"": 1, "2026-11-10": 1}
    put(store, [job(3, at(13))], horizon=at(36))
    assert files(store) == {"2026-11-10": 1, "2026-11-11": 2}
    assert rows(store, "job_number", "steps") == [2]


def test_months_long_past_become_one_file_and_can_still_be_added_to(store: Path) -> None:
    def month(number: int) -> list[Record]:
        return [job(number * 100 + day, datetime(2026, number, day, tzinfo=UTC)) for day in range(1, 20)]

    put(store, [*month(7), *month(8)])
    assert len(files(store)) == 38
    put(store, month(9))
    assert [(part, count) for part, count in files(store).items() if len(part) == 7] == [("2026-07", 19)]
    old = month(7)[3]
    put(store, [{**old, "name": "again"}, job(9, datetime(2026, 7, 30, tzinfo=UTC))], [step(old)])
    assert files(store)["2026-07"] == 20
    assert len(rows(store)) == 58
    assert rows(store, "name", "jobs WHERE name IS NOT NULL") == ["again"]
    assert files(store, "steps") == {"2026-07": 1}


def test_a_month_of_more_than_fits_stays_in_days(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge, "MONTH", 2)
    monkeypatch.setattr(merge, "BATCH", 2)
    put(store, [job(day, datetime(2026, 7, day, tzinfo=UTC)) for day in range(1, 8)])
    put(store, [job(20, datetime(2026, 9, 1, tzinfo=UTC)), job(21, datetime(2026, 10, 1, tzinfo=UTC))])
    assert len(files(store)) == 9
    assert len(rows(store)) == 9


def test_clusters_are_apart_and_records_without_one_get_the_name_that_is_given(store: Path) -> None:
    odd = "a/../b 'c' é"
    put(store, [job(1), job(1, cluster=odd), job(2, cluster="")], cluster="borealis")
    assert rows(store, "cluster, job_number") == [(odd, 1), ("aurora", 1), ("borealis", 2)]
    put(store, [job(3, cluster="")])
    assert rows(store, "cluster, job_number", "jobs WHERE job_number = 3") == [("", 3)]


attempts = st.lists(
    st.builds(
        lambda number, start, hours, kind: [job, running][kind](number, at(start), hours),
        st.integers(1, 4),
        st.integers(0, 60),
        st.integers(1, 40),
        st.integers(0, 1),
    ),
    max_size=6,
)


@settings(max_examples=10)
@given(st.lists(attempts, max_size=4))
def test_no_attempt_is_there_twice_and_none_is_lost(
    tmp_path_factory: pytest.TempPathFactory, additions: list[list[Record]]
) -> None:
    store = tmp_path_factory.mktemp("s")
    for one in additions:
        put(store, one)
    given_keys = {
        (one["job_number"], one["submit_time"], one["start_time"]) for jobs in additions for one in jobs
    }
    ended = {
        (one["job_number"], one["submit_time"], one["start_time"])
        for jobs in additions
        for one in jobs
        if one["is_final"]
    }
    if not additions:
        return
    found = rows(store, "job_number, submit_time, start_time, is_final")
    assert {row[:3] for row in found} == given_keys
    assert len(found) == len(given_keys)
    assert {row[:3] for row in found if row[3]} == ended


def test_a_store_without_records_can_be_asked(store: Path) -> None:
    put(store)
    assert rows(store) == rows(store, "step", "steps") == []


def test_where_there_is_no_store_it_is_said(store: Path) -> None:
    with pytest.raises(UsageError, match="no store of job records"):
        open_store(store)


def test_a_store_of_a_later_version_is_not_touched(store: Path) -> None:
    put(store, [job(1)])
    path = store / manifest.NAME
    path.write_text(path.read_text().replace(f'"version": {VERSION}', f'"version": {VERSION + 1}'))
    for read in (lambda: open_store(store), lambda: put(store, [job(2)])):
        with pytest.raises(UsageError, match=f"of version {VERSION + 1}"):
            read()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"clusters": {"a": {"jobs": 3}}}', "\x00\xff"])
def test_a_damaged_manifest_is_an_error_that_names_it(store: Path, text: str) -> None:
    put(store, [job(1)])
    (store / manifest.NAME).write_text(text)
    with pytest.raises(UsageError, match="manifest is damaged") as caught:
        open_store(store)
    assert str(store / manifest.NAME) in str(caught.value)


def test_two_cannot_add_at_once(store: Path) -> None:
    with writing(store), pytest.raises(UsageError, match="another sync is at work"), writing(store):
        raise AssertionError


def test_a_reader_keeps_what_it_reads_and_what_is_left_over_goes_afterwards(store: Path) -> None:
    put(store, [job(1), job(2)])
    reader = open_store(store)
    put(store, [job(1, name="new")])
    left_over = store / "jobs/cluster=aurora/day=2026-11-10/99999999.parquet"
    left_over.write_bytes(b"half")
    (store / "temporary" / "x").mkdir()
    (store / "temporary" / "x" / "y").write_bytes(b"")
    kept = load(store)
    assert kept is not None
    with writing(store):
        sweep(store, kept)
        assert left_over.exists()
        assert reader.connection.execute("SELECT name FROM jobs ORDER BY 1").fetchall() == [(None,), (None,)]
        reader.close()
        sweep(store, kept)
    assert not left_over.exists()
    assert list((store / "temporary").iterdir()) == []
    assert rows(store, "name") == ["new", None]


def test_notes_tell_of_runaways_and_of_fields_that_could_not_be_read(store: Path) -> None:
    put(store, [running(1, is_runaway=True), job(2, problems="ReqMem=12X")])
    with closing(open_store(store)) as kept:
        assert len(kept.notes) == 2
        assert "runaway" in kept.notes[0]
        assert "problems" in kept.notes[1]
        assert kept.as_of == at(1)


def test_the_default_store_is_where_the_specification_says() -> None:
    assert str(default_store({"XDG_DATA_HOME": "/d", "HOME": "/h"})) == "/d/slurmkit/accounting"
    assert str(default_store({"XDG_DATA_HOME": "d", "HOME": "/h"})) == "/h/.local/share/slurmkit/accounting"


def test_where_it_cannot_be_written_the_store_is_as_it_was(store: Path, tmp_path: Path) -> None:
    put(store, [job(1)])
    (store / "jobs" / "cluster=aurora" / "day=2026-11-11").write_text("in the way")
    before = rows(store, "*")
    with pytest.raises(UsageError, match="as it was"):
        put(store, [job(2, at(24)), job(1, name="new")])
    assert rows(store, "*") == before
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        put(tmp_path / "file" / "store", [job(1)])


FILL = """
import sys
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from slurmkit.accounting.manifest import load, sweep, writing, Manifest
from slurmkit.accounting.store import add
from tests.unit.accounting.attempts import at, job, ledger, step

store = Path(sys.argv[1])
with writing(store):
    for number in range(1000):
        sweep(store, load(store) or Manifest())
        jobs = [job(number, at(number)), job(number + 5000, at(0))]
        with closing(ledger(jobs, [step(one) for one in jobs])) as given:
            add(store, given)
        print(number, flush=True)
"""


def test_killed_at_any_moment_it_holds_whole_additions(store: Path) -> None:
    for delay in (0.0, 0.01, 0.02, 0.035, 0.05):
        program = subprocess.Popen([sys.executable, "-c", FILL, store], stdout=subprocess.PIPE, text=True)
        with program:
            assert program.stdout
            said = [int(program.stdout.readline()) for _ in range(2)]
            time.sleep(delay)
            os.kill(program.pid, signal.SIGKILL)
            said += [int(line) for line in program.stdout]
        found = rows(store, "job_number")
        count = len(found) // 2
        assert count > said[-1]
        assert found == [*range(count), *range(5000, 5000 + count)]
        assert rows(store, "job_number", "steps") == found


def test_a_full_disk_leaves_the_store_as_it_was(store: Path) -> None:
    put(store, [job(1)])
    before = rows(store, "*")
    limited = FILL.replace("import sys\n", "import resource, signal, sys\n", 1).replace(
        "with writing",
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\nwith writing",
        1,
    )
    done = subprocess.run([sys.executable, "-c", limited, store], capture_output=True, text=True, check=False)
    assert "UsageError: the records could not be added, and the store is as it was" in done.stderr
    assert rows(store, "*") == before
    put(store, [job(2)])
    assert len(rows(store)) == 2
