from __future__ import annotations

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
        "agent     attempt 12-0 started on n1,n2",
        "agent     step 0 started; the ranks meet at n1:31000",
        "agent     the step ended with exit code 5; rank 3 on n2 failed first",
        "agent     attempt 12-0 ended with exit code 5",
        "agent     the run ended: failed",
    ]
    assert "  RuntimeError: no \\x1b[31m" in lines
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
        "first_failure",
        "job_file",
        "logs",
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
    assert [moment.source for moment in moments].count("agent") == 10
    assert all(moment.text for moment in moments)


def test_an_event_of_a_newer_version_is_shown_as_it_is() -> None:
    (moment,) = timeline([Event(datetime.now(UTC), "moved-on", {"to": "n3", "after": 2})], [])
    assert moment.text == "moved on: to n3, after 2"
