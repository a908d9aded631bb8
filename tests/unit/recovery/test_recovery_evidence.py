"""What is known when a step or an earlier attempt has ended, and what Slurm is asked for it."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from slurmkit.errors import JobFailed, Unreachable
from slurmkit.recovery import evidence
from slurmkit.recovery.attempt import current_attempt
from slurmkit.recovery.exits import RankExit
from slurmkit.recovery.monitor import Hung
from slurmkit.recovery.start import StepEnd
from slurmkit.run import events
from slurmkit.run.history import fold
from slurmkit.slurm.records import Job, Node
from slurmkit.slurm.states import JobState, NodeState
from slurmkit.spec.model import Progress
from tests.unit.recovery.conftest import BATCH, Made

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from slurmkit.errors import SlurmError

TOLD = StepEnd(143, received=[signal.SIGTERM])
KILLED = RankExit(rank=1, host="n2", signal=signal.SIGKILL)
CRASHED = RankExit(rank=1, host="n2", exit_code=3)


@dataclass
class Slurm:
    """What Slurm says of the job and its nodes; each question is counted. `silence` answers all of them."""

    queue: list[Job] = field(default_factory=list)
    recorded: list[Job] = field(default_factory=list)
    down: set[str] = field(default_factory=set)
    silence: SlurmError | None = None
    asked: list[str] = field(default_factory=list)

    def _answer(self, what: str) -> None:
        self.asked.append(what)
        if self.silence is not None:
            raise self.silence

    def jobs(self, *_: object, **__: object) -> list[Job]:
        self._answer("jobs")
        return self.queue

    def accounting(self, *_: object, **__: object) -> list[Job]:
        self._answer("accounting")
        return self.recorded

    def nodes(self, names: Collection[str]) -> list[Node]:
        self._answer("nodes")
        states = {name: "DOWN" if name in self.down else "ALLOCATED" for name in names}
        return [Node(name, name, name, NodeState.parse(state)) for name, state in states.items()]

    def config(self) -> dict[str, str]:
        self._answer("config")
        return {"SlurmdTimeout": "20 sec"}


@pytest.fixture
def slurm(made: Made) -> Slurm:
    slurm = Slurm(queue=[made.queue.job])
    object.__setattr__(made.setting, "connect", lambda: slurm)
    return slurm


def job(made: Made, state: str, **fields: Any) -> Job:
    return made.queue.job._replace(state=JobState.parse(state), **fields)


def after(made: Made, seconds: float, change: Callable[[], None]) -> None:
    """Change the world once so many seconds were slept."""
    began = made.clock.monotonic()

    def on_sleep() -> None:
        if made.clock.monotonic() - began >= seconds:
            change()

    made.clock.on_sleep = on_sleep


def slept(made: Made) -> float:
    return made.clock.monotonic() - made.setting.began


@pytest.mark.parametrize(
    "end",
    [
        StepEnd(0),
        StepEnd(1, exits=[CRASHED], first_failure=CRASHED),
        StepEnd(1, error=JobFailed("2 nodes are needed, and 1 of 2 are fit"), unfit={"n1": ("no GPU",)}),
    ],
    ids=["a good end", "a rank's own error", "a step that was not started"],
)
def test_slurm_is_not_asked_where_the_end_explains_itself(made: Made, slurm: Slurm, end: StepEnd) -> None:
    known = evidence.of_step(made.setting, end, None)
    assert slurm.asked == []
    assert (known.exit_code, known.first_failure, known.unfit) == (
        end.exit_code,
        end.first_failure,
        end.unfit,
    )


@pytest.mark.parametrize(
    "end",
    [
        StepEnd(137, exits=[KILLED], first_failure=KILLED),
        StepEnd(1, said=("srun: error: Node failure on n2",)),
        StepEnd(137, hung=Hung(since=0.0, step=3, after=60.0)),
    ],
    ids=["killed", "no rank left a word", "hung"],
)
def test_where_a_node_may_be_gone_slurm_is_asked_for_it(made: Made, slurm: Slurm, end: StepEnd) -> None:
    slurm.down = {"n2"}
    assert evidence.of_step(made.setting, end, None).nodes_down == ("n2",)
    assert slurm.asked == ["nodes"]


@pytest.mark.parametrize(
    ("end", "outlived"),
    [
        (StepEnd(137, exits=[KILLED], first_failure=KILLED, nodes=("n1", "n2"), silent=("n1",)), {"n2"}),
        (StepEnd(137, exits=[KILLED], first_failure=KILLED, nodes=("n2",)), {"n1", "n2"}),
        (StepEnd(137, exits=[KILLED], first_failure=KILLED, nodes=("n1", "n2"), silent=("n2",)), set()),
        (StepEnd(137, exits=[KILLED], first_failure=KILLED, nodes=("n1", "n2")), {"n2"}),
        (StepEnd(1), set()),
    ],
    ids=[
        "a rank of another node has left no record",
        "the other node had no ranks",
        "one rank of the node has left a record, and another has not",
        "nothing was ever heard of the other node",
        "it is not known where the step ran",
    ],
)
def test_a_node_whose_ranks_all_left_records_has_not_died_under_the_step(
    made: Made, slurm: Slurm, end: StepEnd, outlived: set[str]
) -> None:
    assert evidence.of_step(made.setting, end, None).outlived == outlived


def test_what_the_ranks_left_stands_where_slurm_is_silent(made: Made, slurm: Slurm) -> None:
    slurm.silence = Unreachable("slurmctld does not answer")
    known = evidence.of_step(made.setting, StepEnd(137, exits=[KILLED], first_failure=KILLED), 70)
    assert (known.first_failure, known.nodes_down, known.checkpoint_step) == (KILLED, (), 70)


def test_how_much_work_there_is_and_how_far_it_came_is_known(made: Made, slurm: Slurm) -> None:
    object.__setattr__(made.setting, "spec", replace(made.setting.spec, progress=Progress(total=400)))
    known = evidence.of_step(made.setting, StepEnd(0, at_step=250), 240)
    assert (known.total, known.at_step, known.checkpoint_step) == (400, 250, 240)
    assert slurm.asked == []


def test_the_other_ranks_that_failed_are_counted(made: Made, slurm: Slurm) -> None:
    exits = [CRASHED, RankExit(rank=0, host="n1", exit_code=1), RankExit(rank=2, host="n1", exit_code=0)]
    assert evidence.of_step(made.setting, StepEnd(3, exits=exits, first_failure=CRASHED), None).others == 1
    assert slurm.asked == []


def test_an_environment_that_cannot_be_set_up_is_no_unfit_node(made: Made) -> None:
    failed = JobFailed("the mesh does not come out")
    assert evidence.of_step(made.setting, StepEnd(1, error=failed), None).setup_failed == failed.what
    unfit = StepEnd(1, error=failed, unfit={"n1": ("no GPU",)})
    assert evidence.of_step(made.setting, unfit, None).setup_failed is None


def test_a_cancel_through_slurmkit_is_remembered(made: Made) -> None:
    assert not evidence.of_step(made.setting, StepEnd(0), None).cancel_requested
    events.append(made.setting.paths, "cancel-requested")
    assert evidence.of_step(made.setting, StepEnd(0), None).cancel_requested


def test_a_job_that_is_in_the_queue_again_was_requeued(made: Made, slurm: Slurm) -> None:
    slurm.queue = [job(made, "PENDING", restarts=1)]
    assert evidence.of_step(made.setting, TOLD, None).job_state == "REQUEUED"


@pytest.mark.parametrize(
    ("end", "at_limit"),
    [
        (TOLD._replace(near_limit=True), True),
        (TOLD, False),
        (StepEnd(137, near_limit=True, at_limit=True), True),
        (StepEnd(143, told=signal.SIGTERM), False),
    ],
    ids=["by its program at the limit", "by somebody", "while the step was ended", "at a preemption"],
)
def test_a_job_that_is_in_the_queue_again_is_known_as_such(
    made: Made, slurm: Slurm, end: StepEnd, *, at_limit: bool
) -> None:
    slurm.queue = [job(made, "PENDING", restarts=made.setting.attempt.restart + 1)]
    known = evidence.of_step(made.setting, end, None)
    assert (known.job_state, known.at_limit) == ("REQUEUED", at_limit)
    assert slept(made) == 0


def test_accounting_tells_who_cancelled_the_job(made: Made, slurm: Slurm) -> None:
    slurm.recorded = [
        job(made, "NODE_FAIL", restarts=3),
        job(made, "CANCELLED", restarts=0, cancelled_by=0, reason="why"),
    ]
    known = evidence.of_step(made.setting, TOLD, None)
    assert (known.job_state, known.cancelled_by, known.job_reason) == ("CANCELLED", "root", "why")


def test_accounting_that_hears_of_the_end_a_little_later_is_waited_for(made: Made, slurm: Slurm) -> None:
    slurm.recorded = [job(made, "RUNNING")]
    after(made, 3.0, lambda: setattr(slurm, "recorded", [job(made, "TIMEOUT")]))
    assert evidence.of_step(made.setting, TOLD, None).job_state == "TIMEOUT"


def test_without_a_word_from_slurm_the_step_is_judged_by_what_is_known(made: Made, slurm: Slurm) -> None:
    known = evidence.of_step(made.setting, TOLD, 30)
    assert (known.job_state, known.received, known.checkpoint_step) == (None, (signal.SIGTERM,), 30)
    assert slept(made) <= evidence.WORD_WITHIN + evidence.LOOK
    assert slurm.asked


def test_a_slurm_that_does_not_answer_is_not_waited_for_while_the_job_is_ended(
    made: Made, slurm: Slurm
) -> None:
    slurm.silence = Unreachable("slurmctld does not answer")
    assert evidence.of_step(made.setting, TOLD, None).job_state is None
    assert slept(made) == 0


STUCK = StepEnd(137, exits=[KILLED], first_failure=KILLED, is_stuck=True, silent=("n2",))


def with_a_spare(made: Made) -> None:
    object.__setattr__(made.setting, "spec", replace(made.setting.spec, spare_nodes=1))


def test_a_spare_stands_in_once_slurm_says_that_the_silent_node_is_down(made: Made, slurm: Slurm) -> None:
    with_a_spare(made)
    slurm.down = {"n1"}  # another one, which was down all the time
    after(made, 12.0, lambda: slurm.down.add("n2"))
    assert evidence.of_step(made.setting, STUCK, None).nodes_down == ("n1", "n2")
    assert 12.0 <= slept(made) < 14.0


def test_a_node_that_slurm_takes_for_good_is_waited_for_no_longer_than_slurm_itself_waits(
    made: Made, slurm: Slurm
) -> None:
    with_a_spare(made)
    assert evidence.of_step(made.setting, STUCK, None).nodes_down == ()
    assert 20.0 <= slept(made) <= 20.0 + evidence.WORD_WITHIN + evidence.LOOK
    assert "config" in slurm.asked


def test_without_a_spare_nobody_waits_for_a_verdict(made: Made, slurm: Slurm) -> None:
    assert evidence.of_step(made.setting, STUCK, None).nodes_down == ()
    assert slept(made) == 0
    assert slurm.asked == ["nodes"]


def told_to_end() -> None:
    signal.raise_signal(signal.SIGTERM)


def test_a_job_that_is_ended_meanwhile_waits_for_no_verdict(made: Made, slurm: Slurm) -> None:
    with_a_spare(made)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    made.clock.on_sleep = told_to_end
    try:
        assert evidence.of_step(made.setting, STUCK, None).nodes_down == ()
        assert slept(made) <= evidence.LOOK
    finally:
        signal.sigtimedwait({signal.SIGTERM}, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert slurm.asked


def start(made: Made, attempt: str, job_id: str = "12") -> None:
    events.append(made.setting.paths, "attempt-started", attempt=attempt, job_id=job_id)
    events.append(made.setting.paths, "step-started", attempt=attempt, step=0)


def as_attempt(made: Made, **environ: str) -> None:
    object.__setattr__(made.setting, "attempt", current_attempt({**BATCH, **environ}))


def unexplained(made: Made) -> str | None:
    found = evidence.unexplained(made.setting)
    return found.name if found else None


def test_the_first_attempt_has_nothing_to_explain(made: Made) -> None:
    assert unexplained(made) is None
    start(made, "12-0")
    assert unexplained(made) is None


def test_an_attempt_without_a_last_word_is_to_be_explained_by_the_next_one(made: Made) -> None:
    start(made, "12-0")
    start(made, "12-1")
    as_attempt(made, SLURM_RESTART_COUNT="1")
    assert unexplained(made) == "12-0"


@pytest.mark.parametrize("kind", ["attempt-ended", "diagnosed", "run-ended"])
def test_one_whose_end_was_told_is_not(made: Made, kind: str) -> None:
    start(made, "12-0")
    events.append(made.setting.paths, kind, attempt="12-0")
    as_attempt(made, SLURM_RESTART_COUNT="1")
    assert unexplained(made) is None


def test_what_was_said_of_an_earlier_start_of_its_step_does_not_count(made: Made) -> None:
    start(made, "12-0")
    events.append(made.setting.paths, "diagnosed", attempt="12-0", kind="crashed")
    events.append(made.setting.paths, "step-started", attempt="12-0", step=1)
    as_attempt(made, SLURM_RESTART_COUNT="1")
    assert unexplained(made) == "12-0"


def test_only_the_last_attempt_is_to_be_explained(made: Made) -> None:
    start(made, "12-0")
    start(made, "12-1")
    events.append(made.setting.paths, "attempt-ended", attempt="12-1", exit_code=1)
    as_attempt(made, SLURM_RESTART_COUNT="2")
    assert unexplained(made) is None


def test_other_tasks_of_an_array_explain_themselves(made: Made) -> None:
    start(made, "12_1-0", "12_1")
    start(made, "12_2-0", "12_2")
    as_attempt(made, SLURM_ARRAY_JOB_ID="12", SLURM_ARRAY_TASK_ID="1", SLURM_RESTART_COUNT="1")
    assert unexplained(made) == "12_1-0"
    as_attempt(made, SLURM_ARRAY_JOB_ID="12", SLURM_ARRAY_TASK_ID="3", SLURM_RESTART_COUNT="1")
    assert unexplained(made) is None


def earlier(made: Made) -> Any:
    return fold(events.read(made.setting.paths)).attempts[-1]


def test_of_an_earlier_attempt_its_own_record_tells(made: Made, slurm: Slurm) -> None:
    start(made, "12-1")
    slurm.recorded = [job(made, "NODE_FAIL", restarts=0), job(made, "PREEMPTED", restarts=1)]
    known = evidence.of_attempt(made.setting, earlier(made), 60)
    assert (known.job_state, known.checkpoint_step, known.restart_lost) == ("PREEMPTED", 60, True)


def test_a_second_start_that_slurm_does_not_count_has_the_same_record(made: Made, slurm: Slurm) -> None:
    start(made, "12-0.2")
    slurm.recorded = [job(made, "NODE_FAIL", restarts=0)]
    assert evidence.of_attempt(made.setting, earlier(made), None).job_state == "NODE_FAIL"


@pytest.mark.parametrize("silence", [None, Unreachable("slurmdbd does not answer")])
def test_without_a_record_an_earlier_attempt_is_lost_and_its_checkpoint_counts(
    made: Made, slurm: Slurm, silence: SlurmError | None
) -> None:
    slurm.silence = silence
    start(made, "12-0")
    events.append(made.setting.paths, "cancel-requested")
    known = evidence.of_attempt(made.setting, earlier(made), 60)
    assert (known.job_state, known.checkpoint_step, known.restart_lost) == (None, 60, True)
    assert known.cancel_requested


def test_the_record_of_this_job_says_nothing_of_the_job_before_it(made: Made, slurm: Slurm) -> None:
    start(made, "11-0", "11")
    slurm.recorded = [job(made, "TIMEOUT", restarts=0)]
    assert evidence.of_attempt(made.setting, earlier(made), None).job_state is None
    assert slurm.asked == []
