"""Goodput: every GPU-second goes somewhere, as events tell it, or accounting, or as unknown."""

from __future__ import annotations

import os
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmkit.accounting.question import question
from slurmkit.accounting.reports.goodput import KNOWN_FROM, REPORT, WHAT, build
from slurmkit.accounting.reports.usage import build as build_usage
from slurmkit.accounting.runs import split
from slurmkit.run import events
from slurmkit.run.paths import RunPaths
from slurmkit.run.spans import Span
from tests.unit.accounting.records import NOON, NOT_STARTED, ledger_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pandas import DataFrame

RUN = "tiny-20261102-abcdef"
HOUR = 3600


@pytest.fixture(autouse=True)
def _no_runs_of_anybody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def at(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def goodput(
    jobs: Iterable[Mapping[str, object]], *by: str, steps: Iterable[Mapping[str, object]] = (), **how: Any
) -> DataFrame:
    with closing(ledger_of(jobs, steps)) as ledger:
        return build(ledger, question(by=by, **({"zone": UTC} | how)))


def only(frame: DataFrame) -> dict[str, Any]:
    (row,) = frame.to_dict("records")
    return {kind: row[f"{kind}_seconds"] for kind in WHAT if row[f"{kind}_seconds"]} | {
        "from": row["known_from"]
    }


@pytest.mark.parametrize(
    ("job", "what"),
    [
        ({}, "productive"),
        ({"state": "REQUEUED"}, "lost"),
        ({"state": "PREEMPTED"}, "lost"),
        ({"state": "NODE_FAIL"}, "lost"),
        ({"state": "TIMEOUT", "total_cpu": 5.0}, "hung"),
        ({"state": "TIMEOUT", "total_cpu": 0.0}, "unknown"),
        ({"state": "TIMEOUT"}, "unknown"),
        ({"state": "TIMEOUT", "total_cpu": 9000.0}, "unknown"),
        ({"state": "FAILED", "elapsed": 60}, "startup"),
        ({"state": "FAILED", "elapsed": 61}, "unknown"),
        ({"state": "CANCELLED", "total_cpu": 3.0}, "idle"),
        ({"end_time": None, "total_cpu": 3.0}, "unknown"),
        ({"end_time": None}, "unknown"),
    ],
)
def test_what_accounting_alone_can_say(job: dict[str, object], what: str) -> None:
    frame = goodput([{"gpus": 2, **job}])
    assert only(frame) == {what: 2 * int(str(job.get("elapsed", HOUR))), "from": "accounting"}


def test_cpu_time_that_only_steps_know_counts_015() -> None:
    frame = goodput([{"gpus": 1, "state": "TIMEOUT", "total_cpu": 0.0}], steps=[{"total_cpu": 1.0}])
    assert only(frame) == {"hung": HOUR, "from": "accounting"}


class Log:
    """A run's directory, told of as it goes."""

    def __init__(self, folder: Path, run_id: str = RUN) -> None:
        self.paths = RunPaths(folder / run_id)
        self.paths.root.mkdir(parents=True)
        self.attempt = ""

    def say(self, minutes: float, kind: str, **fields: Any) -> Log:
        own = {"attempt": self.attempt} if self.attempt else {}
        events.append(self.paths, kind, at=at(minutes), **own, **fields)
        return self

    def begin(self, minutes: float, name: str) -> Log:
        self.attempt = name
        job_id = name.rpartition("-")[0]
        return self.say(minutes, "attempt-started", job_id=job_id, nodes=["n1"], host="n1")


@pytest.fixture
def two_attempts(tmp_path: Path) -> Path:
    """Job 7: started twice. Minutes: 2 of start-up, saved at 30, crashed at 50; then 5, and done at 100."""
    log = Log(tmp_path / "runs").say(-1, "submitting").say(-1, "submitted", job_id="7")
    log.begin(1, "7-0").say(1, "step-started", step=0, from_step=0)
    log.say(30, "checkpoint-complete", step=0, checkpoint="/c/3", at_step=3, saved=at(30).timestamp())
    log.say(50, "step-ended", step=0, exit_code=1, at_step=5, computing_since=at(2).timestamp())
    log.say(50, "attempt-ended", exit_code=1, next="requeue")
    log.begin(61, "7-1").say(61, "checkpoint-chosen", checkpoint="/c/3", at_step=3)
    log.say(61, "step-started", step=0, from_step=3)
    log.say(100, "step-ended", step=0, exit_code=0, at_step=9, computing_since=at(65).timestamp())
    log.say(100, "attempt-ended", exit_code=0, next="done")
    log.attempt = ""
    log.say(100, "run-ended", outcome="completed", exit_code=0)
    return tmp_path


def attempts(folder: Path, **more: object) -> list[dict[str, object]]:
    common = {"job_number": 7, "gpus": 8, "work_dir": str(folder), "comment": f"mine slurmkit:{RUN}", **more}
    return [
        {"state": "REQUEUED", "start_time": at(0), "end_time": at(50), **common},
        {"start_time": at(60), "end_time": at(100), "submit_time": at(50), **common},
    ]


SPLIT = {"productive": 8 * 60 * (28 + 35), "startup": 8 * 60 * (2 + 5), "lost": 8 * 60 * 20, "from": "events"}


def test_a_run_s_events_tell_what_was_kept_lost_and_spent_on_starting(two_attempts: Path) -> None:
    frame = goodput(attempts(two_attempts))
    assert only(frame) == SPLIT
    assert frame["goodput"][0] == 63 / 90
    assert frame["jobs"][0] == 2


def test_without_comments_the_script_tells_of_which_run_a_job_is(two_attempts: Path) -> None:
    line = f"sbatch --parsable {two_attempts}/runs/{RUN}/job.sbatch"
    assert only(goodput(attempts(two_attempts, comment=None, work_dir="/", submit_line=line))) == SPLIT


def test_a_path_with_blanks_is_found_in_the_line_of_a_submit(tmp_path: Path) -> None:
    log = Log(tmp_path / "work of 'ada' /x" / "runs").say(-1, "submitted", job_id="7").begin(0, "7-0")
    line = f"sbatch --chdir /tmp {log.paths.root}/submits/{RUN}+2/job.sbatch"
    frame = goodput(attempts(tmp_path, comment=None, work_dir="/", submit_line=line)[:1])
    assert only(frame)["from"] == "events"


@pytest.mark.parametrize("tag", ["../runs/x", "/tmp", "..", ""])
def test_a_comment_that_names_no_run_leads_nowhere(tag: str, tmp_path: Path) -> None:
    assert only(goodput(attempts(tmp_path, comment=f"slurmkit:{tag}")))["from"] == "accounting"


def test_a_log_that_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / RUN
    folder.mkdir(parents=True)
    os.mkfifo(folder / "events.jsonl")
    assert only(goodput(attempts(tmp_path)))["from"] == "accounting"


def test_a_run_that_lies_elsewhere_is_found_through_the_list_of_runs(
    two_attempts: Path, tmp_path: Path
) -> None:
    index = tmp_path / "state" / "slurmkit" / "runs"
    index.mkdir(parents=True)
    (index / RUN).symlink_to(two_attempts / "runs" / RUN)
    assert only(goodput(attempts(two_attempts, work_dir="/nowhere", comment=f"slurmkit:{RUN}+2"))) == SPLIT


def test_a_run_whose_directory_is_gone_is_told_of_by_accounting(tmp_path: Path) -> None:
    assert only(goodput(attempts(tmp_path))) == {
        "lost": 8 * 60 * 50, "productive": 8 * 60 * 40, "from": "accounting"
    }  # fmt: skip


def test_a_run_without_an_agent_is_told_of_by_accounting(tmp_path: Path) -> None:
    Log(tmp_path / "runs").say(-1, "submitting").say(-1, "submitted", job_id="7")
    assert only(goodput(attempts(tmp_path)))["from"] == "accounting"


def test_only_what_lies_in_the_window_is_split(two_attempts: Path) -> None:
    frame = goodput(attempts(two_attempts), since=at(40), until=at(63))
    assert only(frame) == {"lost": 8 * 600, "startup": 8 * 180, "from": "events"}


def test_rows_that_are_periods_have_each_its_own(two_attempts: Path) -> None:
    zone = ZoneInfo("Etc/GMT+12")  # whose midnight is this noon
    jobs = [*attempts(two_attempts), {"gpus": 1, "start_time": at(-60)}]
    frame = goodput(jobs, "day", zone=zone)
    assert list(frame["day"]) == ["2026-11-01", "2026-11-02"]
    assert list(frame["known_from"]) == ["accounting", "events"]
    assert list(frame["lost_seconds"]) == [0, 8 * 60 * 20]


def test_what_is_known_from_events_and_from_accounting_are_two_rows(two_attempts: Path) -> None:
    frame = goodput([*attempts(two_attempts), {"gpus": 1}], "user", "account")
    assert list(frame["known_from"]) == ["events", "accounting"]
    assert list(frame["user"]) == ["anna", "anna"]


def test_a_running_attempt_counts_as_far_as_its_record_goes(tmp_path: Path) -> None:
    log = Log(tmp_path / "runs").say(-1, "submitted", job_id="7").begin(1, "7-0")
    log.say(1, "step-started", step=0, from_step=0)
    log.say(31, "hung", step=0, since=at(21).timestamp())
    running = attempts(tmp_path)[0] | {"state": "RUNNING", "end_time": None, "elapsed": 40 * 60}
    assert only(goodput([running])) == {
        "startup": 8 * 60, "productive": 8 * 60 * 20, "hung": 8 * 60 * 19, "from": "events"
    }  # fmt: skip


def test_a_group_that_is_not_known_is_none_and_no_gpu_is_no_row() -> None:
    frame = goodput([{"gpus": 1, "account": None}, {"gpus": 0, "account": "a"}], "account")
    assert list(frame["account"]) == [None]
    assert goodput([{}, {"state": "PENDING", **NOT_STARTED}]).empty


def test_the_split_adds_up_to_the_gpu_hours_of_usage(two_attempts: Path) -> None:
    states = ("COMPLETED", "FAILED", "TIMEOUT", "NODE_FAIL")
    others = [
        {"gpus": n % 5, "gpu_type": "a100", "elapsed": 997 * n, "suspended": n % 3, "state": states[n % 4],
         "user": "ab"[n % 2], "start_time": at(-n * 60)}
        for n in range(1, 30)
    ]  # fmt: skip
    with closing(ledger_of([*attempts(two_attempts, suspended=7, gpu_type="h100"), *others])) as ledger:
        for by in ((), ("user",), ("day",), ("gpu_type", "week")):
            for since, until in ((None, None), (at(-700), at(70))):
                asked = question(by=by, since=since, until=until, zone=ZoneInfo("Europe/Helsinki"))
                frame, usage = build(ledger, asked), build_usage(ledger, asked)
                assert frame["gpu_seconds"].sum() == usage["gpu_seconds"].sum()
                assert sum(frame[f"{kind}_seconds"].sum() for kind in WHAT) == frame["gpu_seconds"].sum()


SPANS = st.lists(
    st.tuples(
        st.sampled_from(["computing", "starting", "lost", "idle", "checkpointing"]),
        st.floats(0, 100),
        st.floats(0, 100),
    ).map(lambda one: Span(one[0], min(one[1:]), max(one[1:]), "7-0", 1, 1)),
    max_size=6,
)


@given(held=st.integers(0, 10**9), begin=st.floats(0, 100), length=st.floats(0, 100), spans=SPANS)
def test_a_split_loses_no_second(held: int, begin: float, length: float, spans: list[Span]) -> None:
    told = split(held, begin, begin + length, spans, job_id="7")
    assert sum(told.values()) == held
    assert min(told.values()) >= 0


def test_what_stands_out_is_what_was_kept_and_what_most_of_the_rest_was(two_attempts: Path) -> None:
    jobs = [*attempts(two_attempts), {"gpus": 12, "state": "CANCELLED"}]
    assert list(REPORT.stands_out({"goodput": goodput(jobs)})) == [
        "70.0% of the GPU-hours of which something is known were kept.",
        "Of the rest most went into: lost, 2.7 GPU-hours.",
        "Of 50.0% of all GPU-hours nobody knows what they went into.",
    ]
    assert REPORT.stands_out({"goodput": goodput([{}])}) == ["No job held a GPU in this time."]
    assert KNOWN_FROM.name in goodput(jobs).columns
