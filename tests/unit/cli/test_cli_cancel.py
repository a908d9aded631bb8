from __future__ import annotations

from typing import TYPE_CHECKING

from slurmkit.run import events
from tests.unit.cli.conftest import own_job

if TYPE_CHECKING:
    from tests.unit.cli.conftest import Make, Slurmkit
    from tests.unit.run.conftest import FakeSlurm

DONE = ("run-ended", {"exit_code": 0})


def test_what_goes_on_is_cancelled_and_what_has_ended_is_left(
    slurmkit: Slurmkit, add_run: Make, slurm: FakeSlurm
) -> None:
    going, over = add_run("going", job_id="7"), add_run("over", DONE, job_id="8")
    slurm.live = [own_job("7")]
    done = slurmkit("cancel", "going", "over", "--json")
    assert [(row["id"], row["cancelled"]) for row in done.json] == [("going", True), ("over", False)]
    assert [str(job) for job in slurm.cancelled] == ["7"]
    assert [event.kind for event in events.read(going)][-1] == "cancel-requested"
    assert "cancel-requested" not in [event.kind for event in events.read(over)]


def test_a_blocked_job_can_be_cancelled(slurmkit: Slurmkit, add_run: Make, slurm: FakeSlurm) -> None:
    add_run("r")
    slurm.live = [own_job(state="PENDING", reason="DependencyNeverSatisfied")]
    assert slurmkit("cancel", "r").code == 0
    assert [str(job) for job in slurm.cancelled] == ["12"]


def test_a_submit_in_flight_cannot_be_cancelled_and_nothing_else_is(
    slurmkit: Slurmkit, add_run: Make, slurm: FakeSlurm
) -> None:
    add_run("going", job_id="7")
    add_run("flying", job_id=None)
    slurm.live = [own_job("7")]
    done = slurmkit("cancel", "going", "flying")
    assert done.code == 2
    assert "has no job so far" in done.err
    assert slurm.cancelled == []
