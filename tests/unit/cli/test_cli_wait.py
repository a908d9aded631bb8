from __future__ import annotations

from typing import TYPE_CHECKING

import click
import pytest

from slurmkit.cli.waiting import leaving_jobs_alone, wait_for
from tests.unit.cli.conftest import own_job

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slurmkit.run.state import RunState
    from slurmkit.run.watch import Watch
    from tests.unit.cli.conftest import Make, Slurmkit
    from tests.unit.run.conftest import FakeSlurm

DONE = ("run-ended", {"exit_code": 0})


def test_all_completed_is_exit_code_0(slurmkit: Slurmkit, add_run: Make) -> None:
    add_run("a", DONE)
    add_run("b", DONE)
    done = slurmkit("wait", "a", "b", "--json")
    assert ([row["state"] for row in done.json], done.code) == (["completed", "completed"], 0)


@pytest.mark.parametrize(
    ("state", "fields"),
    [
        ("FAILED", {"exit_code": "3:0"}),
        ("CANCELLED", {}),
        ("TIMEOUT", {}),
        ("PENDING", {"reason": "DependencyNeverSatisfied"}),
    ],
)
def test_one_that_did_not_complete_is_exit_code_1(
    slurmkit: Slurmkit, add_run: Make, slurm: FakeSlurm, state: str, fields: dict[str, str]
) -> None:
    add_run("good", DONE)
    add_run("bad")
    slurm.live = [own_job(state=state, **fields)]
    assert slurmkit("wait", "good", "bad").code == 1


def test_the_same_run_twice_is_waited_for_once(slurmkit: Slurmkit, add_run: Make) -> None:
    add_run("abc", DONE)
    assert len(slurmkit("wait", "abc", "ab", "last", "--json").json) == 1


def test_a_run_must_be_named(slurmkit: Slurmkit) -> None:
    assert slurmkit("wait").code == 2


def test_ctrl_c_leaves_the_job_alone_and_says_how_to_go_on(
    add_run: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [add_run("a"), add_run("b")]
    with pytest.raises(click.exceptions.Exit) as left, leaving_jobs_alone(runs):
        raise KeyboardInterrupt
    assert left.value.exit_code == 130
    said = capsys.readouterr().err
    assert "slurmkit wait a b" in said
    assert "slurmkit cancel a b" in said


class FakeWatch:
    """Yields given states, some of them while a daemon is silent."""

    def __init__(self, *looks: tuple[RunState, str | None]) -> None:
        self.looks = looks
        self.silent: str | None = None

    def until_over(self) -> Iterator[list[RunState]]:
        for state, silent in self.looks:
            self.silent = silent
            yield [state]


def test_each_change_is_said_once_and_an_outage_too(capsys: pytest.CaptureFixture[str]) -> None:
    from slurmkit.run.state import RunState

    pending, running = RunState("r", "pending", "Priority"), RunState("r", "running")
    down = "slurmctld"
    looks = [(pending, None), (pending, None), (running, None), (running, down), (running, down),
             (running, None), (RunState("r", "completed"), None)]  # fmt: skip
    watch: Watch = FakeWatch(*looks)  # type: ignore[assignment]
    assert wait_for(watch, [])[0].state == "completed"
    assert capsys.readouterr().err.splitlines() == [
        "r: pending (Priority)",
        "r: running",
        "slurmctld does not answer; still waiting",
        "Slurm answers again",
        "r: completed",
    ]
