from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from slurmkit.errors import AccountingOff
from slurmkit.run.events import KINDS, Event
from slurmkit.run.timeline import timeline
from tests.unit.cli.conftest import own_job

if TYPE_CHECKING:
    from tests.unit.cli.conftest import Make, Slurmkit
    from tests.unit.run.conftest import FakeSlurm

FAILURE = {"rank": 3, "host": "n2", "exit_code": 5, "stderr_tail": ["Traceback", "RuntimeError: no \x1b[31m"]}
STORY = (
    ("attempt-started", {"attempt": "12-0", "job_id": "12", "nodes": ["n1", "n2"], "host": "n1"}),
    ("step-started", {"attempt": "12-0", "step": 0, "master_addr": "n1", "master_port": 31000}),
    ("step-ended", {"attempt": "12-0", "exit_code": 5, "first_failure": FAILURE}),
    ("attempt-ended", {"attempt": "12-0", "exit_code": 5}),
    ("run-ended", {"outcome": "failed", "exit_code": 5}),
)


def test_the_story_is_told_in_order(slurmkit: Slurmkit, add_run: Make, slurm: FakeSlurm) -> None:
    paths = add_run("r", *STORY)
    log = paths.rank_log("12-0", 3)
    log.parent.mkdir(parents=True)
    log.write_text("")
    slurm.past = [own_job(state="FAILED", exit_code="5:0")]
    lines = slurmkit("show", "r").out.splitlines()
    assert lines[0] == "r: failed (exit code 5; rank 3 on n2 failed first)"
    assert [line[33:] for line in lines if "  agent" in line] == [
        "agent       attempt 12-0 started on n1,n2",
        "agent       step 0 started; the ranks meet at n1:31000",
        "agent       the step ended with exit code 5; rank 3 on n2 failed first",
        "agent       attempt 12-0 ended with exit code 5",
        "agent       the run ended: failed",
    ]
    assert "    RuntimeError: no \\x1b[31m" in lines
    assert f"  {log}" in lines


def test_as_json_it_is_the_status_and_more(slurmkit: Slurmkit, add_run: Make, slurm: FakeSlurm) -> None:
    add_run("r", *STORY)
    slurm.past = [own_job(state="FAILED", exit_code="5:0", nodes=("n1",), start_time=datetime.now(UTC),
                          end_time=datetime.now(UTC))]  # fmt: skip
    data = slurmkit("show", "r", "--json").json
    (status,) = slurmkit("status", "r", "--json").json
    assert {name: data[name] for name in status} == status
    assert data["first_failure"] == FAILURE
    assert data["attempt_names"] == ["12-0"]
    assert [moment["source"] for moment in data["timeline"]][-2:] == ["Slurm", "Slurm"]
    assert sorted(set(data) - set(status)) == [
        "attempt_names",
        "checkpoints",
        "cost",
        "first_failure",
        "interruptions",
        "job_file",
        "logs",
        "notices",
        "progress",
        "ranks_failed",
        "spans",
        "stacks",
        "timeline",
        "user",
    ]


def test_without_accounting_the_events_must_do(slurmkit: Slurmkit, add_run: Make, slurm: FakeSlurm) -> None:
    add_run("r", ("run-ended", {"exit_code": 0}))
    slurm.past = AccountingOff("This cluster keeps no accounting")
    done = slurmkit("show", "r")
    assert done.code == 0
    assert "only what slurmkit itself saw is shown" in done.err


def test_a_run_whose_submit_was_refused_has_a_story_too(
    slurmkit: Slurmkit, add_run: Make, slurm: FakeSlurm
) -> None:
    add_run("r", ("not-submitted", {"reason": "no such account"}), job_id=None)
    done = slurmkit("show", "r")
    assert "not submitted: no such account" in done.out
    assert slurm.calls == []


def test_every_kind_of_event_has_its_sentence() -> None:
    now = datetime.now(UTC)
    moments = timeline([Event(now, kind, {}) for kind in KINDS], [])
    assert [moment.source for moment in moments].count("agent") == 18
    assert all(moment.text for moment in moments)


def test_an_event_of_a_newer_version_is_shown_as_it_is() -> None:
    (moment,) = timeline([Event(datetime.now(UTC), "moved-on", {"to": "n3", "after": 2})], [])
    assert moment.text == "moved on: to n3, after 2"


CAUSE = {
    "kind": "segmentation-fault",
    "sentence": "the program touched memory that is not its own",
    "advice": "x\x1b",
}
FOUND = (
    ("attempt-started", {"attempt": "12-0", "job_id": "12", "nodes": ["n1", "n2"], "host": "n1"}),
    ("nodes-checked", {"attempt": "12-0", "nodes": ["n1", "n2", "n4"], "seconds": 0.5,
                       "unfit": [{"node": "n4", "reasons": ["3 of 4 GPUs"]}], "warnings": []}),
    ("step-started", {"attempt": "12-0", "step": 0, "master_addr": "n1", "master_port": 31000}),
    ("straggler", {"attempt": "12-0", "rank": 3, "host": "n2", "phase": "data", "own": 0.3, "median": 0.2}),
    ("hung", {"attempt": "12-0", "since": 1.7e9, "step": 9, "after": 300, "stacks": "/r/stacks/12-0/0"}),
    ("step-ended", {"attempt": "12-0", "exit_code": 139, "ranks_failed": 1,
                    "first_failure": {"rank": 3, "host": "n2", "signal": 11, "at": 1.7e9, "cause": CAUSE,
                                      "stderr_tail": ["last words"]}}),
    ("run-ended", {"outcome": "failed", "exit_code": 139}),
)  # fmt: skip


def test_the_failure_is_told_in_words_and_by_the_terminal_that_waited_too(
    slurmkit: Slurmkit, add_run: Make, slurm: FakeSlurm
) -> None:
    add_run("r", *FOUND)
    slurm.past = [own_job(state="FAILED", exit_code="0:11")]
    when = datetime.fromtimestamp(1.7e9).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    failure = [
        f"rank 3 on n2 failed first: killed by SIGSEGV (segmentation fault), at {when}",
        "  why: the program touched memory that is not its own",
        "  try: x\\x1b",
        "  1 other rank failed after it",
        "  the end of its stderr:",
        "    last words",
    ]
    shown, waited = slurmkit("show", "r").out.splitlines(), slurmkit("wait", "r").err.splitlines()
    first = shown.index("unfit node n4: 3 of 4 GPUs")
    assert shown[first + 1].startswith("hung: no rank made progress for ")
    assert shown[first + 1].endswith("the last step was 9; stacks: /r/stacks/12-0/0")
    assert shown[first + 2].startswith("rank 3 on n2 is slow in data: 300 ms")
    assert shown[first + 3 :] == failure
    assert waited[-len(shown[first:]) :] == shown[first:]
    data = slurmkit("show", "r", "--json").json
    assert (data["first_failure"]["cause"], data["ranks_failed"], len(data["notices"])) == (CAUSE, 1, 3)
    assert data["stacks"] == "/r/stacks/12-0/0"


def test_of_a_rank_without_stderr_the_log_is_shown(
    slurmkit: Slurmkit, add_run: Make, slurm: FakeSlurm
) -> None:
    failure = {
        "rank": 0,
        "host": "n1",
        "signal": 9,
        "oom_killed": True,
        "stderr_tail": [],
        "log_tail": ["a\x1b"],
    }
    paths = add_run(
        "r", FOUND[0], ("step-ended", {"attempt": "12-0", "exit_code": 137, "first_failure": failure})
    )
    paths.logs("12-0").mkdir(parents=True)
    paths.rank_log("12-0", 0).write_text("a\x1b")
    slurm.past = [own_job(state="FAILED", exit_code="0:9")]
    assert slurmkit("wait", "r").err.splitlines()[1:] == [
        "rank 0 on n1 failed first: killed by the kernel: out of memory",
        "  the end of its log; there is nothing on stderr:",
        "    a\\x1b",
        f"  its whole log: {paths.rank_log('12-0', 0)}",
    ]


def test_progress_is_a_paragraph(slurmkit: Slurmkit, add_run: Make, slurm: FakeSlurm) -> None:
    paths = add_run("r", FOUND[0])
    slurm.live = [own_job()]
    now = datetime.now(UTC).timestamp()
    paths.logs("12-0").mkdir(parents=True)
    paths.progress("12-0").write_text(
        json.dumps({"updated": now, "step": 120, "total": 1000, "steps_per_second": 12.25, "seconds_left": 72,
                    "phases": {"data": 0.01, "compute": 0.03},
                    "metrics": {"loss": 0.51234, "lr": float("nan")},
                    "last_checkpoint": {"at": now - 3600, "step": 100}, "world_size": 8, "ranks_heard": 7})
    )  # fmt: skip
    assert slurmkit("show", "r").out.partition("progress: ")[2].splitlines()[:6] == [
        "step 120/1000 (12 %), 12.2 steps/s, 1m 12s left",
        "  time       data 25 %, compute 75 %",
        "  metrics    loss 0.512, lr nan",
        "  saved      step 100, 1h 00m ago",
        "  heard      7 of 8 ranks",
        "  updated    0s ago",
    ]
    data = slurmkit("show", "r", "--json").json
    assert data["progress"]["metrics"] == {"loss": 0.51234, "lr": None}
