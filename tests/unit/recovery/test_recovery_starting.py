"""Getting the step to start: on fit nodes, from the newest checkpoint, where the ranks can meet."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from msgspec.structs import replace

from slurmkit.checkpoint.plain import commit
from slurmkit.errors import MissingRequirement, Unreachable, UsageError
from slurmkit.recovery import starting
from slurmkit.recovery.attempt import current_attempt
from slurmkit.recovery.diagnosis import Diagnosis
from slurmkit.recovery.exits import RankExit
from slurmkit.recovery.policy import Decision
from slurmkit.recovery.start import StepEnd
from slurmkit.recovery.starting import STARTS_FOR_A_PORT, Course, start_once
from slurmkit.run.fitness import Fitness
from slurmkit.spec.model import Launch, Parallel

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from slurmkit.checkpoint.choice import Checkpoint
    from slurmkit.recovery.placing import Placement
    from slurmkit.recovery.setting import Setting
    from tests.unit.recovery.conftest import Made

BATCH = {"SLURM_JOB_ID": "12", "SLURM_JOB_NODELIST": "n[1-4]"}
TAKEN = StepEnd(98, exits=[RankExit(rank=0, host="n1", exit_code=98, port_taken=True)])


class Started(NamedTuple):
    """One start of the step."""

    number: int
    nodes: tuple[str, ...]
    address: str
    chosen: Checkpoint | None


class Nodes:
    """The allocation: how its check ends, and how each start of the step. Both are written down."""

    def __init__(self, made: Made) -> None:
        self.made = made
        self.setting = made.setting
        self.fitness = Fitness()
        self.told_to_end = False
        self.ends: list[StepEnd] = []
        self.checked: list[tuple[Sequence[str], tuple[str, str] | None]] = []
        self.started: list[Started] = []

    def change(self, **fields: object) -> None:
        for name, value in fields.items():
            object.__setattr__(self.setting, name, value)

    def job(self, **fields: Any) -> None:
        self.change(spec=replace(self.setting.spec, **fields))

    def check(
        self, _setting: Setting, nodes: Sequence[str], meeting: tuple[str, str] | None
    ) -> tuple[Fitness, bool]:
        self.checked.append((tuple(nodes), meeting))
        return self.fitness, self.told_to_end

    def run(
        self,
        _setting: Setting,
        number: int,
        placement: Placement,
        address: str,
        chosen: Checkpoint | None,
    ) -> StepEnd:
        self.started.append(Started(number, placement.nodes, address, chosen))
        return self.ends.pop(0) if self.ends else StepEnd(0)


@pytest.fixture
def nodes(made: Made, monkeypatch: pytest.MonkeyPatch) -> Nodes:
    """Four nodes, of which one is a spare; their names are their addresses."""
    nodes = Nodes(made)
    nodes.change(attempt=current_attempt(BATCH), environ=BATCH)
    nodes.job(spare_nodes=1)
    monkeypatch.setattr(starting, "check_nodes", nodes.check)
    monkeypatch.setattr(starting, "run_step", nodes.run)
    monkeypatch.setattr(starting, "choose_address", lambda node, _connect: (node, None))
    return nodes


def save(nodes: Nodes, step: int) -> Path:
    path = nodes.made.root / "saved" / f"step-{step}"
    path.mkdir(parents=True)
    (path / "weights").write_bytes(b"w")
    commit(path, step=step)
    return path


def test_the_step_starts_on_as_many_nodes_as_it_needs_and_meets_on_the_first(nodes: Nodes) -> None:
    assert start_once(nodes.setting, Course()).exit_code == 0
    assert nodes.started == [Started(0, ("n1", "n2", "n3"), "n1", None)]
    ((checked, meeting),) = nodes.checked
    assert checked == ("n1", "n2", "n3", "n4")
    assert meeting is not None
    assert meeting[0] == "n1"


def test_it_starts_from_the_newest_complete_checkpoint_there_is_then(nodes: Nodes) -> None:
    course = Course()
    start_once(nodes.setting, course)
    path = save(nodes, 40)
    start_once(nodes.setting, course)
    first, second = nodes.started
    assert first.chosen is None
    assert second.chosen is not None
    assert second.chosen.path == path
    told = nodes.made.events("checkpoint-chosen")
    assert [(one["step"], one.get("at_step")) for one in told] == [(0, None), (1, 40)]


def test_a_spare_stands_in_for_an_unfit_node_and_the_ranks_meet_where_the_first_one_is(
    nodes: Nodes, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    nodes.fitness = Fitness(unfit={"n1": ("7 of 8 GPUs",)}, warnings={"n2": ("its clock is 2 s ahead",)})
    start_once(nodes.setting, Course())
    assert nodes.started == [Started(0, ("n2", "n3", "n4"), "n2", None)]
    (found,) = nodes.made.events("nodes-checked")
    assert found["unfit"] == [{"node": "n1", "reasons": ["7 of 8 GPUs"]}]
    assert found["warnings"] == [{"node": "n2", "reasons": ["its clock is 2 s ahead"]}]
    said = capfdbinary.readouterr().out
    assert b"n1 is unfit: 7 of 8 GPUs" in said
    assert b"n2: its clock is 2 s ahead" in said


def test_where_too_few_nodes_are_fit_nothing_is_started_and_all_are_named(nodes: Nodes) -> None:
    nodes.fitness = Fitness(unfit={"n3": ("7 of 8 GPUs",)})
    end = start_once(nodes.setting, Course(without=("n1",)))
    assert nodes.started == []
    assert end.error is not None
    assert "3 nodes are needed, and 2 of 4 are fit" in end.error.what
    assert end.unfit == {"n1": ("it failed before",), "n3": ("7 of 8 GPUs",)}
    assert end.exit_code == end.error.exit_code


def test_a_node_that_was_given_up_is_neither_checked_nor_used(nodes: Nodes) -> None:
    start_once(nodes.setting, Course(without=("n1",)))
    ((checked, _),) = nodes.checked
    assert checked == ("n2", "n3", "n4")
    assert nodes.started[0].nodes == ("n2", "n3", "n4")


def test_the_nodes_are_checked_once_unless_they_are_to_be_checked_again(nodes: Nodes) -> None:
    course = Course()
    for _ in range(3):
        start_once(nodes.setting, course)
    assert len(nodes.checked) == 1
    course.fitness = None
    start_once(nodes.setting, course)
    assert len(nodes.checked) == 2
    assert [one.number for one in nodes.started] == [0, 1, 2, 3]


def test_the_job_file_can_turn_the_check_off(nodes: Nodes) -> None:
    nodes.job(launch=Launch(check_nodes=False))
    start_once(nodes.setting, Course())
    assert nodes.checked == []
    assert nodes.made.events("nodes-checked") == []
    assert len(nodes.started) == 1


def test_a_job_that_is_ended_during_the_check_starts_no_step(nodes: Nodes) -> None:
    nodes.told_to_end = True
    end = start_once(nodes.setting, Course())
    assert (end.exit_code, list(end.received)) == (143, [signal.SIGTERM])
    assert nodes.started == []


def test_a_port_that_is_taken_is_met_with_another_start_of_another_number(
    nodes: Nodes, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    nodes.ends = [TAKEN, TAKEN]
    course = Course()
    assert start_once(nodes.setting, course).exit_code == 0
    assert [one.number for one in nodes.started] == [0, 1, 2]
    assert course.started == 3
    assert capfdbinary.readouterr().out.count(b"the step starts again, with another port") == 2


def test_ports_that_are_all_taken_are_an_end(nodes: Nodes) -> None:
    nodes.ends = [TAKEN] * (STARTS_FOR_A_PORT + 5)
    assert start_once(nodes.setting, Course()).is_port_taken
    assert len(nodes.started) == STARTS_FOR_A_PORT


def test_a_job_that_is_ended_does_not_look_for_another_port(nodes: Nodes) -> None:
    nodes.ends = [TAKEN._replace(received=[signal.SIGTERM])]
    assert start_once(nodes.setting, Course()).is_port_taken
    assert len(nodes.started) == 1


def test_a_port_of_the_jobs_own_is_not_said_to_be_another_one(
    nodes: Nodes, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    nodes.change(environ={**BATCH, "MASTER_PORT": "29500"})
    nodes.ends = [TAKEN]
    start_once(nodes.setting, Course())
    said = capfdbinary.readouterr().out
    assert b"the step starts again, in case MASTER_PORT=29500 is free by now" in said
    assert b"another port" not in said


def test_a_meeting_place_of_the_jobs_own_stays_is_said_once_and_is_not_tried(
    nodes: Nodes, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    nodes.change(environ={**BATCH, "MASTER_ADDR": "10.0.0.9"})
    nodes.fitness = Fitness(unfit={"n1": ("7 of 8 GPUs",)})
    course = Course()
    for _ in range(2):
        start_once(nodes.setting, course)
    assert [one.address for one in nodes.started] == ["10.0.0.9", "10.0.0.9"]
    ((_, meeting),) = nodes.checked
    assert meeting is None
    assert capfdbinary.readouterr().out.count(b"MASTER_ADDR=10.0.0.9 is the job's own and stays") == 1


@pytest.mark.parametrize(
    "error", [MissingRequirement("there is no srun"), UsageError("no such folder"), Unreachable("silence")]
)
def test_what_fails_before_the_step_starts_is_an_end_with_its_own_exit_code(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch, error: UsageError
) -> None:
    def fail(*_: object) -> StepEnd:
        raise error

    monkeypatch.setattr(starting, "run_step", fail)
    end = start_once(nodes.setting, Course())
    assert (end.error, end.exit_code) == (error, error.exit_code)


def test_without_a_word_on_the_network_the_order_of_nodes_stays_slurms(
    nodes: Nodes, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    class Silent:
        def topology(self) -> dict[str, str]:
            raise Unreachable("slurmctld does not answer")

    nodes.change(connect=Silent)
    nodes.job(parallel=Parallel(tensor=1))
    assert starting.network(nodes.setting) == {}
    assert b"the order of nodes stays Slurm's: slurmctld does not answer" in capfdbinary.readouterr().out


def test_slurm_is_not_asked_for_the_network_where_no_mesh_wants_it(nodes: Nodes) -> None:
    nodes.change(connect=lambda: pytest.fail("it is asked"))
    assert starting.network(nodes.setting) == {}


@pytest.mark.parametrize(
    ("action", "kind", "outcome"),
    [
        ("done", None, "completed"),
        ("stop", "crashed", "failed"),
        ("stop", None, "failed"),
        ("stop", "cancelled", "cancelled"),
        ("restart", "crashed", None),
        ("requeue", "time-limit", None),
        ("leave", "requeued", None),
    ],
)
def test_how_the_run_has_ended(action: str, kind: str | None, outcome: str | None) -> None:
    course = Course(diagnosis=Diagnosis(kind, "why") if kind else None)
    assert course.outcome(Decision(action, "why")) == outcome
