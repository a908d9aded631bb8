from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from slurmkit.errors import AnswerLost, JobFailed, Refused, Unreachable, UsageError
from slurmkit.run import events
from slurmkit.run.cancel import cancel
from slurmkit.run.history import USER, fold
from slurmkit.run.identity import later_tag, read_tag
from slurmkit.run.resubmit import later_spec, locked, resubmit, waiting_for_lock
from slurmkit.run.resume import resume
from slurmkit.run.state import SUBMIT_GRACE
from slurmkit.run.survey import survey
from slurmkit.slurm.ids import JobId
from slurmkit.slurm.request import Submission, Submitted
from slurmkit.spec.model import JobSpec
from tests.unit.run.conftest import NOW, FakeClock, FakeSlurm, make_job

if TYPE_CHECKING:
    from collections.abc import Callable

    from slurmkit.run.paths import RunPaths
    from slurmkit.run.state import RunState

    Make = Callable[..., RunPaths]

JOB = """\
name = "a name"
command = ["train", "--x", "$HOME 'y'"]
[resources]
nodes = 2
exclude = "n[1-2]"
mem = "100M"
begin = "now+1hour"
dependency = "afterok:7,singleton"
[environment.variables]
API_TOKEN = "s3cret '$x'"
[checkpoint]
path = "ckpt"
"""
STARTED = ("attempt-started", {"attempt": "12-0", "job_id": "12", "restart": 0, "nodes": ["n1"]})


@pytest.fixture
def paths(make_run: Make) -> RunPaths:
    made = make_run("a-name-20261201-aaaaaa", STARTED, recovers=True)
    made.job_toml.write_text(JOB)
    return made


def again(paths: RunPaths, slurm: FakeSlurm, clock: FakeClock, **more: Any) -> Submitted:
    with waiting_for_lock(paths, clock):
        return resubmit(paths, slurm=slurm, clock=clock, **{"by": "agent", "instead_of": "12", **more})


def takes(slurm: FakeSlurm, job: int = 13) -> list[Submission]:
    """Let Slurm take submits; they are listed in what comes back."""
    taken: list[Submission] = []

    def submit(submission: Submission) -> Submitted:
        taken.append(submission)
        return Submitted(JobId(job))

    slurm.on_submit = submit
    return taken


def state_of(paths: RunPaths, slurm: FakeSlurm, clock: FakeClock) -> RunState:
    return survey([paths], lambda _: slurm, clock)[0]


def test_a_tag_is_the_run_id_and_the_number() -> None:
    assert read_tag(later_tag("r-1", 12)) == ("r-1", 12)
    assert read_tag("r-1") == ("r-1", 1)


def test_trap_117_the_run_id_and_the_directory_stay(
    paths: RunPaths, slurm: FakeSlurm, clock: FakeClock
) -> None:
    taken = takes(slurm)
    assert again(paths, slurm, clock).id == JobId(13)
    (submission,) = taken
    script = submission.script.read_text()
    assert submission.tag == "a-name-20261201-aaaaaa+2"
    assert submission.tag in submission.script.parts
    assert f"--comment=slurmkit:{submission.tag}" in script
    told = fold(events.read(paths))
    assert (told.job_id, told.submits, len(told.attempts)) == ("13", 2, 1)


def test_trap_107_nothing_but_the_runs_own_job_file_is_needed(
    paths: RunPaths, slurm: FakeSlurm, clock: FakeClock
) -> None:
    taken = takes(slurm)
    again(paths, slurm, clock)
    text = taken[0].script.read_text()
    assert "s3cret" not in text
    assert taken[0].environment["API_TOKEN"] == "s3cret '$x'"


def test_what_was_about_the_first_start_is_left_out(
    paths: RunPaths, slurm: FakeSlurm, clock: FakeClock
) -> None:
    taken = takes(slurm)
    again(paths, slurm, clock, exclude=["n9", "n2"], options={"mem": "200M"})
    text = taken[0].script.read_text()
    assert "--dependency=singleton" in text
    assert "--begin" not in text
    assert "--exclude=n[1-2,9]" in text.replace("'", "").replace('"', "")
    assert "--mem=200M" in text


def test_a_file_of_nodes_to_exclude_is_read(tmp_path: Any) -> None:
    file = tmp_path / "nodes"
    file.write_text("n1\nn2,n3\n")
    spec = JobSpec(name="x", command="true", resources={"exclude": str(file)})
    made = later_spec(spec, fold([]), exclude=["n4"], options={})
    assert made.resources["exclude"] == "n[1-4]"


def test_options_of_one_submit_hold_for_the_next(paths: RunPaths, slurm: FakeSlurm, clock: FakeClock) -> None:
    takes(slurm)
    again(paths, slurm, clock, options={"mem": "200M", "begin": "now+30"})
    taken = takes(slurm, 14)
    again(paths, slurm, clock, instead_of="13")
    text = taken[0].script.read_text()
    assert "--mem=200M" in text
    assert "--begin" not in text


def test_the_variables_of_the_first_submit_are_used(
    paths: RunPaths, slurm: FakeSlurm, clock: FakeClock
) -> None:
    paths.environment.write_text(json.dumps({"PATH": "/theirs", "HF_HOME": "\udcff"}))
    taken = takes(slurm)
    again(paths, slurm, clock)
    assert (taken[0].environment["PATH"], taken[0].environment["HF_HOME"]) == ("/theirs", "\udcff")


def test_whoever_asks_twice_gets_one_job(paths: RunPaths, slurm: FakeSlurm, clock: FakeClock) -> None:
    taken = takes(slurm)
    assert again(paths, slurm, clock).id == again(paths, slurm, clock).id == JobId(13)
    assert len(taken) == 1


def test_while_another_process_decides_nothing_is_submitted(
    paths: RunPaths, slurm: FakeSlurm, clock: FakeClock
) -> None:
    taken = takes(slurm)
    with locked(paths), pytest.raises(AnswerLost):
        again(paths, slurm, clock)
    assert not taken


def lose_receipt(paths: RunPaths, slurm: FakeSlurm, clock: FakeClock) -> Submission:
    """Let the process be killed while sbatch is at work."""
    seen: list[Submission] = []

    def die(submission: Submission) -> Submitted:
        seen.append(submission)
        raise KeyboardInterrupt

    slurm.on_submit = die
    with pytest.raises(KeyboardInterrupt):
        again(paths, slurm, clock)
    return seen[0]


@pytest.mark.parametrize("by_comment", [True, False])
def test_a_job_whose_receipt_was_lost_is_adopted_never_doubled(
    paths: RunPaths, slurm: FakeSlurm, clock: FakeClock, *, by_comment: bool
) -> None:
    lost = lose_receipt(paths, slurm, clock)
    mark = (
        {"comment": f"mine slurmkit:{lost.tag}"} if by_comment else {"submit_line": f"sbatch {lost.script}"}
    )
    ended, found = make_job("12", "FAILED", exit_code="1:0"), make_job("13", "PENDING", **mark)
    slurm.live, slurm.past = ([ended, found], []) if by_comment else ([ended], [found])
    taken = takes(slurm, 99)
    assert again(paths, slurm, clock).id == JobId(13)
    assert not taken
    assert state_of(paths, slurm, clock).job_id == "13"


def test_while_a_lost_submit_may_still_arrive_nobody_submits(
    paths: RunPaths, slurm: FakeSlurm, clock: FakeClock
) -> None:
    lose_receipt(paths, slurm, clock)
    slurm.live = [make_job("12", "FAILED", exit_code="1:0")]
    taken = takes(slurm)
    with pytest.raises(AnswerLost):
        again(paths, slurm, clock)
    assert state_of(paths, slurm, clock).state == "submitting"
    clock.time += SUBMIT_GRACE + timedelta(seconds=1)
    assert state_of(paths, slurm, clock).state == "interrupted"
    assert again(paths, slurm, clock).id == JobId(13)
    assert [one.tag.rpartition("+")[2] for one in taken] == ["3"]


def test_a_job_that_has_started_is_its_own_receipt(
    paths: RunPaths, slurm: FakeSlurm, clock: FakeClock
) -> None:
    lose_receipt(paths, slurm, clock)
    events.append(paths, "attempt-started", at=NOW, attempt="13-0", job_id="13")
    told = fold(events.read(paths))
    assert (told.job_id, told.is_submitting, [one.name for one in told.attempts]) == (
        "13",
        False,
        ["12-0", "13-0"],
    )


def test_a_claim_without_an_intent_is_passed_over(
    paths: RunPaths, slurm: FakeSlurm, clock: FakeClock
) -> None:
    paths.script(later_tag(paths.run_id, 2)).parent.mkdir(parents=True)
    taken = takes(slurm)
    again(paths, slurm, clock)
    assert taken[0].tag.endswith("+3")


def test_a_refusal_leaves_the_run_as_it_was(paths: RunPaths, slurm: FakeSlurm, clock: FakeClock) -> None:
    def refuse(_: Submission) -> Submitted:
        raise Refused("no")

    slurm.on_submit = refuse
    slurm.live = [make_job("12", "FAILED", exit_code="1:0")]
    with pytest.raises(Refused):
        again(paths, slurm, clock)
    assert state_of(paths, slurm, clock).state == "interrupted"


def test_a_cancelled_run_is_submitted_again_by_its_user_alone(
    paths: RunPaths, slurm: FakeSlurm, clock: FakeClock
) -> None:
    events.append(paths, "cancel-requested", at=NOW)
    taken = takes(slurm)
    with pytest.raises(UsageError):
        again(paths, slurm, clock)
    again(paths, slurm, clock, by=USER)
    assert len(taken) == 1
    assert slurm.cancelled == []


def test_a_cancel_while_sbatch_is_at_work_reaches_the_new_job(
    paths: RunPaths, slurm: FakeSlurm, clock: FakeClock
) -> None:
    def submit(_: Submission) -> Submitted:
        events.append(paths, "cancel-requested", at=NOW)
        return Submitted(JobId(13))

    slurm.on_submit = submit
    again(paths, slurm, clock)
    assert slurm.cancelled == [JobId(13)]


def test_an_array_is_not_submitted_again(make_run: Make, slurm: FakeSlurm, clock: FakeClock) -> None:
    made = make_run("r", array="0-3", recovers=True)
    made.job_toml.write_text(JOB)
    with pytest.raises(UsageError, match="array"):
        again(made, slurm, clock)


class TestStates:
    @pytest.mark.parametrize("word", ["FAILED", "NODE_FAIL", "TIMEOUT", "BOOT_FAIL", "PREEMPTED"])
    def test_trap_100_a_job_that_ended_without_a_last_word_is_interrupted(
        self, paths: RunPaths, slurm: FakeSlurm, clock: FakeClock, word: str
    ) -> None:
        slurm.past = [make_job("12", word, exit_code="0:9")]
        state = state_of(paths, slurm, clock)
        assert (state.state, state.is_end, state.is_success) == ("interrupted", True, False)
        assert "slurmkit supervise" in (state.reason or "")
        assert state_of(paths, slurm, clock).state == "interrupted"

    def test_without_checkpoint_and_retry_it_has_failed(
        self, make_run: Make, slurm: FakeSlurm, clock: FakeClock
    ) -> None:
        slurm.past = [make_job("12", "NODE_FAIL")]
        assert state_of(make_run(), slurm, clock).state == "failed"

    def test_a_job_that_slurm_has_no_more_is_interrupted(
        self, paths: RunPaths, slurm: FakeSlurm, clock: FakeClock
    ) -> None:
        clock.time += timedelta(hours=1)
        assert state_of(paths, slurm, clock).state == "interrupted"

    def test_a_cancelled_job_is_cancelled(self, paths: RunPaths, slurm: FakeSlurm, clock: FakeClock) -> None:
        slurm.past = [make_job("12", "CANCELLED")]
        assert state_of(paths, slurm, clock).state == "cancelled"

    def test_an_interrupted_run_can_be_cancelled(
        self, paths: RunPaths, slurm: FakeSlurm, clock: FakeClock
    ) -> None:
        slurm.past = [make_job("12", "NODE_FAIL")]
        ((before, done),) = cancel([paths], lambda _: slurm, clock)
        assert (before.state, done, slurm.cancelled) == ("interrupted", True, [])
        assert state_of(paths, slurm, clock).state == "cancelled"

    def test_an_end_by_the_supervisors_word_overrules_interrupted(
        self, paths: RunPaths, slurm: FakeSlurm, clock: FakeClock
    ) -> None:
        slurm.past = [make_job("12", "FAILED", exit_code="1:0")]
        assert state_of(paths, slurm, clock).state == "interrupted"
        events.append(paths, "run-ended", at=NOW, outcome="failed", exit_code=1, reason="in vain")
        state = state_of(paths, slurm, clock)
        assert (state.state, state.reason) == ("failed", "in vain")

    def test_trap_101_the_last_record_decides_and_an_earlier_end_is_history(
        self, paths: RunPaths, slurm: FakeSlurm, clock: FakeClock
    ) -> None:
        slurm.live = [make_job("12", "PENDING", reason="BeginTime", restarts=1)]
        slurm.past = [make_job("12", "NODE_FAIL")]
        assert state_of(paths, slurm, clock).state == "pending"

    def test_trap_098_a_requeued_job_waits_and_that_is_no_fault(
        self, paths: RunPaths, slurm: FakeSlurm, clock: FakeClock
    ) -> None:
        at = NOW + timedelta(minutes=2)
        slurm.live = [make_job("12", "PENDING", reason="BeginTime", restarts=1, eligible_time=at)]
        state = state_of(paths, slurm, clock)
        assert state.state == "pending"
        assert f"until {at.astimezone():%H:%M:%S}" in (state.reason or "")

    @pytest.mark.parametrize(
        "reason",
        [
            "JobHoldMaxRequeue",
            "launch_failed_requeued_held",
            "(launch failed requeued held)",
            "JobHeldAdmin",
        ],
    )
    def test_trap_105_a_job_held_after_a_requeue_needs_somebody(
        self, paths: RunPaths, slurm: FakeSlurm, clock: FakeClock, reason: str
    ) -> None:
        slurm.live = [make_job("12", "PENDING", reason=reason, restarts=1)]
        state = state_of(paths, slurm, clock)
        assert (state.state, state.is_end) == ("blocked", True)
        assert "scontrol release 12" in (state.reason or "")

    def test_a_job_that_its_user_holds_waits(
        self, paths: RunPaths, slurm: FakeSlurm, clock: FakeClock
    ) -> None:
        slurm.live = [make_job("12", "PENDING", reason="JobHeldUser")]
        assert state_of(paths, slurm, clock).state == "pending"

    def test_an_old_answer_says_nothing_about_the_new_job(
        self, paths: RunPaths, slurm: FakeSlurm, clock: FakeClock
    ) -> None:
        takes(slurm)
        again(paths, slurm, clock)
        events.append(paths, "job-ended", at=NOW, job_id="12", run_state="failed")
        assert fold(events.read(paths)).job_ended is None
        assert state_of(paths, slurm, clock).state == "pending"


class TestResume:
    def test_refused_while_a_job_is_alive(self, paths: RunPaths, slurm: FakeSlurm, clock: FakeClock) -> None:
        slurm.live = [make_job("12", "RUNNING")]
        with pytest.raises(UsageError, match="alive"):
            resume(paths, slurm=slurm, clock=clock)

    def test_refused_where_slurm_does_not_tell(
        self, paths: RunPaths, slurm: FakeSlurm, clock: FakeClock
    ) -> None:
        slurm.live = Unreachable("away")
        with pytest.raises(Unreachable):
            resume(paths, slurm=slurm, clock=clock)

    def test_an_override_changes_the_job_file_and_keeps_the_old_one(
        self, paths: RunPaths, slurm: FakeSlurm, clock: FakeClock
    ) -> None:
        slurm.past = [make_job("12", "FAILED", exit_code="1:0")]
        events.append(paths, "run-ended", at=NOW, outcome="failed", exit_code=1)
        taken = takes(slurm)
        resume(paths, slurm=slurm, clock=clock, overrides=["resources.mem=300M"])
        assert "--mem=300M" in taken[0].script.read_text()
        assert paths.old_job_toml(1).read_text() == JOB
        assert "300M" in paths.job_toml.read_text()

    def test_a_checkpoint_that_is_not_complete_is_refused(
        self, paths: RunPaths, slurm: FakeSlurm, clock: FakeClock, tmp_path: Any
    ) -> None:
        slurm.past = [make_job("12", "FAILED", exit_code="1:0")]
        torn = tmp_path / "step-3.safetensors"
        torn.write_bytes(b"\xff" * 7)
        taken = takes(slurm)
        with pytest.raises(JobFailed):
            resume(paths, slurm=slurm, clock=clock, wanted=str(torn))
        assert not taken
