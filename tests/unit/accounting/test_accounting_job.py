"""Everything about one job."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC
from typing import TYPE_CHECKING, Any

from slurmkit.accounting.asking import ask
from slurmkit.accounting.question import question
from slurmkit.accounting.reports.job import REPORT
from tests.unit.accounting.records import GIB, NOT_STARTED, ledger_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slurmkit.accounting.asking import Answered

REQUEUED: list[Mapping[str, Any]] = [
    {
        "job_number": 7, "state": "NODE_FAIL", "gpus": 4, "exit_signal": 9,
        "submit_time": "2026-11-01T09:00", "start_time": "2026-11-01T10:00", "end_time": "2026-11-01T11:00",
    },
    {
        "job_number": 7, "gpus": 4, "total_cpu": 4 * 3600.0,
        "submit_time": "2026-11-01T11:00", "start_time": "2026-11-01T11:30", "end_time": "2026-11-01T13:30",
    },
    {"job_number": 8, "state": "CANCELLED", "cancelled_by": "1000", **NOT_STARTED},
]  # fmt: skip
STEPS: list[Mapping[str, Any]] = [
    {"job_number": 7, "step": "batch", "max_rss": GIB},
    {"job_number": 7, "step": "0", "max_rss": 3 * GIB, "tasks": 4},
]


def asked(*jobs: str) -> Answered:
    with closing(ledger_of(REQUEUED, STEPS)) as ledger:
        return ask(REPORT, ledger, question(zone=UTC, jobs=jobs))


def test_each_start_of_a_job_is_a_row_with_a_wait_of_its_own() -> None:
    frame = asked("7").frames["attempts"]
    assert list(frame["state"]) == ["NODE_FAIL", "COMPLETED"]
    assert list(frame["exit"]) == ["0:9", "0"]
    assert list(frame["wait"]) == [3600, 1800]
    assert list(frame["gpu_seconds"]) == [4 * 3600, 8 * 3600]
    assert frame["cpu_efficiency"][1] == 4 / 16
    assert frame["max_memory"][1] == 3 * GIB


def test_the_steps_stand_below_with_what_each_used() -> None:
    frame = asked("7").frames["steps"]
    assert sorted(zip(frame["step"], frame["max_rss"], strict=True)) == [("0", 3 * GIB), ("batch", GIB)]


def test_a_job_that_was_cancelled_while_it_waited_says_by_whom() -> None:
    frame = asked("8").frames["attempts"]
    assert (frame["cancelled_by"][0], frame["node_list"][0], frame["gpu_seconds"][0]) == ("1000", None, 0)


def test_how_often_a_job_was_started_stands_out_and_so_does_none() -> None:
    seven, none = asked("7"), asked("99")
    assert list(REPORT.stands_out(seven.frames)) == ["Job 7 was started 2 times."]
    assert list(REPORT.stands_out(none.frames)) == ["The records have no such job."]


def test_the_run_of_slurmkit_that_a_job_is_of_is_named() -> None:
    jobs: list[Mapping[str, Any]] = [
        {"comment": "mine slurmkit:tiny-20261101-abcdef+2"},
        {"submit_line": "sbatch --parsable /home/a/runs/tiny-20261101-abcdef/job.sbatch"},
        {"comment": "slurmkit", "submit_line": "sbatch job.sbatch"},
    ]
    with closing(ledger_of(jobs)) as ledger:
        frame = ask(REPORT, ledger, question(zone=UTC)).frames["attempts"]
    assert list(frame["run"]) == ["tiny-20261101-abcdef+2", "tiny-20261101-abcdef", None]
