from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from slurmkit.errors import AccountingOff, Unreachable
from slurmkit.run import events
from slurmkit.run.state import SUBMIT_GRACE
from slurmkit.run.survey import open_dossier, survey
from slurmkit.slurm.ids import StepId
from slurmkit.slurm.records import Step
from slurmkit.slurm.states import JobState
from tests.unit.run.conftest import NOW, FakeClock, FakeSlurm, make_job

if TYPE_CHECKING:
    from collections.abc import Callable

    from slurmkit.run.paths import RunPaths

    Make = Callable[..., RunPaths]

DOWN = Unreachable("no answer")


def kinds(paths: RunPaths) -> list[str]:
    return [event.kind for event in events.read(paths)]


def test_one_squeue_and_one_sacct_however_many_runs(
    make_run: Make, slurm: FakeSlurm, clock: FakeClock
) -> None:
    runs = [make_run(f"r-{number}", job_id=str(number)) for number in range(1, 101)]
    slurm.live = [make_job(str(number)) for number in range(1, 51)]
    slurm.past = [make_job(str(number), "FAILED", exit_code="2:0") for number in range(51, 101)]
    states = survey(runs, lambda _: slurm, clock)
    assert [state.state for state in states] == ["running"] * 50 + ["failed"] * 50
    assert slurm.calls == ["jobs", "accounting"]


def test_accounting_is_not_asked_while_all_jobs_are_in_the_queue(
    make_run: Make, slurm: FakeSlurm, clock: FakeClock
) -> None:
    slurm.live = [make_job()]
    assert survey([make_run()], lambda _: slurm, clock)[0].state == "running"
    assert slurm.calls == ["jobs"]


def test_an_end_is_kept_and_never_asked_for_again(make_run: Make, slurm: FakeSlurm, clock: FakeClock) -> None:
    paths = make_run()
    slurm.past = [make_job(state="FAILED", exit_code="3:0", end_time=NOW, nodes=("n1",))]
    first = survey([paths], lambda _: slurm, clock)
    slurm.calls.clear()
    assert survey([paths], lambda _: slurm, clock) == first
    assert slurm.calls == []
    assert kinds(paths).count("job-ended") == 1


def test_a_success_that_the_agent_wrote_needs_no_slurm(
    make_run: Make, slurm: FakeSlurm, clock: FakeClock
) -> None:
    paths = make_run("r", ("run-ended", {"exit_code": 0}))
    assert survey([paths], lambda _: slurm, clock)[0].state == "completed"
    assert slurm.calls == []


def test_of_a_failure_that_the_agent_wrote_slurm_knows_more(
    make_run: Make, slurm: FakeSlurm, clock: FakeClock
) -> None:
    paths = make_run("r", ("run-ended", {"exit_code": 143}))
    slurm.past = [make_job(state="TIMEOUT", exit_code="0:15")]
    assert survey([paths], lambda _: slurm, clock)[0].reason == "TIMEOUT: the time limit was reached"


def test_accounting_tells_more_of_an_end_than_the_queue(
    make_run: Make, slurm: FakeSlurm, clock: FakeClock
) -> None:
    step = Step(id=StepId.parse("12.0"), name="x", state=JobState.parse("OUT_OF_MEMORY"))
    slurm.live = [make_job(state="FAILED", exit_code="0:0")]
    slurm.past = [make_job(state="FAILED", exit_code="0:0", steps=(step,))]
    assert survey([make_run()], lambda _: slurm, clock)[0].reason == "OUT_OF_MEMORY: out of memory"


def test_the_queue_goes_before_an_accounting_that_lags(
    make_run: Make, slurm: FakeSlurm, clock: FakeClock
) -> None:
    slurm.live = [make_job(state="FAILED", exit_code="7:0")]
    slurm.past = [make_job(state="RUNNING")]
    assert survey([make_run()], lambda _: slurm, clock)[0].exit_code == 7


def test_trap_154_neither_daemon_answering_changes_nothing(
    make_run: Make, slurm: FakeSlurm, clock: FakeClock
) -> None:
    paths = make_run()
    before = kinds(paths)
    slurm.live, slurm.past = DOWN, DOWN
    state = survey([paths], lambda _: slurm, clock)[0]
    assert (state.state, state.reason) == ("pending", "last known; Slurm does not answer")
    assert kinds(paths) == before


def test_trap_162_after_min_job_age_accounting_answers(
    make_run: Make, slurm: FakeSlurm, clock: FakeClock
) -> None:
    slurm.past = [make_job(state="COMPLETED", exit_code="0:0")]
    assert survey([make_run()], lambda _: slurm, clock)[0].state == "completed"


def test_trap_152_a_job_id_that_is_none_hides_no_other_run(
    make_run: Make, slurm: FakeSlurm, clock: FakeClock
) -> None:
    bad, good = make_run("bad", job_id="abc"), make_run("good", job_id="12")
    slurm.live = [make_job("12")]
    clock.time += timedelta(hours=1)
    assert [state.state for state in survey([bad, good], lambda _: slurm, clock)] == ["lost", "running"]


def test_accounting_switched_off_is_a_site_like_any_other(
    make_run: Make, slurm: FakeSlurm, clock: FakeClock
) -> None:
    slurm.past = AccountingOff("off")
    slurm.live = [make_job(state="COMPLETED", exit_code="0:0")]
    assert survey([make_run("a")], lambda _: slurm, clock)[0].state == "completed"
    slurm.live = [make_job(state="FAILED", exit_code="5:0")]
    assert survey([make_run("b")], lambda _: slurm, clock)[0].exit_code == 5


class TestASubmitWhoseAnswerWasLost:
    def test_is_adopted_by_its_tag_in_the_queue(
        self, make_run: Make, slurm: FakeSlurm, clock: FakeClock
    ) -> None:
        paths = make_run("mine", job_id=None)
        slurm.live = [
            make_job("77", comment="theirs, slurmkit:other"),
            make_job("78", comment="c, slurmkit:mine"),
        ]
        state = survey([paths], lambda _: slurm, clock)[0]
        assert (state.state, state.job_id) == ("running", "78")
        assert kinds(paths) == ["submitting", "adopted"]

    def test_is_adopted_by_its_submit_line_in_accounting(
        self, make_run: Make, slurm: FakeSlurm, clock: FakeClock
    ) -> None:
        paths = make_run("mine", job_id=None)
        slurm.past = [
            make_job(
                "78",
                "COMPLETED",
                exit_code="0:0",
                submit_line="sbatch --parsable /work of 'ada'/runs/mine/job.sbatch",
            )
        ]
        state = survey([paths], lambda _: slurm, clock)[0]
        assert (state.state, state.job_id) == ("completed", "78")

    def test_is_adopted_as_an_array_by_the_id_of_the_array(
        self, make_run: Make, slurm: FakeSlurm, clock: FakeClock
    ) -> None:
        slurm.live = [
            make_job("78_3", comment="slurmkit:mine"),
            make_job("78_[4-9]", "PENDING", comment="slurmkit:mine"),
        ]
        assert survey([make_run("mine", job_id=None, array="0-9")], lambda _: slurm, clock)[0].job_id == "78"

    def test_is_waited_for_within_the_grace_and_then_called_not_submitted(
        self, make_run: Make, slurm: FakeSlurm, clock: FakeClock
    ) -> None:
        paths = make_run("mine", job_id=None)
        assert survey([paths], lambda _: slurm, clock)[0].state == "submitting"
        clock.time += SUBMIT_GRACE + timedelta(seconds=1)
        assert survey([paths], lambda _: slurm, clock)[0].state == "not-submitted"
        assert kinds(paths) == ["submitting", "not-submitted"]
        slurm.calls.clear()
        assert survey([paths], lambda _: slurm, clock)[0].state == "not-submitted"
        assert slurm.calls == []

    def test_is_never_given_up_while_slurm_is_silent(
        self, make_run: Make, slurm: FakeSlurm, clock: FakeClock
    ) -> None:
        slurm.live, slurm.past = [], DOWN
        clock.time += timedelta(days=9)
        paths = make_run("mine", job_id=None)
        assert survey([paths], lambda _: slurm, clock)[0].state == "submitting"
        assert kinds(paths) == ["submitting"]

    def test_is_never_submitted_again(self, make_run: Make, slurm: FakeSlurm, clock: FakeClock) -> None:
        clock.time += timedelta(days=9)
        survey([make_run("mine", job_id=None)], lambda _: slurm, clock)
        assert "submit" not in slurm.calls


@pytest.mark.parametrize(
    "other",
    [
        {"comment": "slurmkit:another-run"},
        {"submit_time": NOW - timedelta(days=1)},
    ],
)
def test_trap_033_a_recycled_job_id_is_not_our_job(
    make_run: Make, slurm: FakeSlurm, clock: FakeClock, other: dict[str, Any]
) -> None:
    clock.time += timedelta(hours=1)
    slurm.live = [make_job("12", **other)]
    assert survey([make_run()], lambda _: slurm, clock)[0].state == "lost"


def test_runs_of_several_users_are_asked_for_by_id(
    make_run: Make, slurm: FakeSlurm, clock: FakeClock
) -> None:
    slurm.live = [make_job("1"), make_job("2", user="bob")]
    runs = [make_run("r-1", job_id="1"), make_run("r-2", job_id="2", user="bob")]
    assert [state.state for state in survey(runs, lambda _: slurm, clock)] == ["running", "running"]
    assert slurm.calls == ["jobs"]


def test_another_users_run_can_be_looked_at(
    make_run: Make, slurm: FakeSlurm, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    paths = make_run()
    slurm.live = [make_job(state="COMPLETED", exit_code="0:0")]
    monkeypatch.setattr("slurmkit.run.events.append_line", refuse)
    assert survey([paths], lambda _: slurm, clock)[0].state == "completed"
    assert kinds(paths) == ["submitting", "submitted"]


def test_a_run_directory_without_its_record_can_be_looked_at(
    make_run: Make, slurm: FakeSlurm, clock: FakeClock
) -> None:
    paths = make_run("mine")
    paths.run_json.write_text('{"id": "mi')
    assert open_dossier(paths).record is None
    slurm.live = [make_job(comment="slurmkit:mine")]
    assert survey([paths], lambda _: slurm, clock)[0].state == "running"


def test_each_cluster_is_asked_once_for_its_own_runs(make_run: Make, clock: FakeClock) -> None:
    here, there = (
        FakeSlurm(live=[make_job("12")]),
        FakeSlurm(live=[make_job("12", "PENDING", reason="Priority")]),
    )
    far = make_run("far", ("submitted", {"job_id": "12", "cluster": "far"}), job_id=None)
    lost = make_run("lost", job_id=None, clusters="far")
    clients = {None: here, "far": there}
    states = survey([make_run("near"), far, lost], clients.__getitem__, clock)
    assert [state.state for state in states] == ["running", "pending", "submitting"]
    assert (here.calls, there.calls) == (["jobs"], ["jobs", "accounting"])


def test_the_last_task_that_slurmdbd_has_under_the_id_of_the_array_counts_once(
    make_run: Make, slurm: FakeSlurm, clock: FakeClock
) -> None:
    slurm.live = [make_job(f"12_{task}", "COMPLETED", exit_code="0:0") for task in range(3)]
    slurm.live.append(make_job("12_3", "FAILED", exit_code="5:0"))
    slurm.past = [make_job("12", "FAILED", exit_code="5:0")]
    state = survey([make_run(array="0-3")], lambda _: slurm, clock)[0]
    assert (state.state, state.tasks) == ("failed", {"COMPLETED": 3, "FAILED": 1})


def test_many_runs_find_their_jobs_among_many(make_run: Make, slurm: FakeSlurm, clock: FakeClock) -> None:
    runs = [make_run(f"r-{number}", job_id=str(number)) for number in range(1, 201)]
    slurm.live = [make_job(str(number)) for number in range(1, 10_000)]
    assert [state.job_id for state in survey(runs, lambda _: slurm, clock)] == [str(n) for n in range(1, 201)]
