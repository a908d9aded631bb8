"""What follows an end: the ladder, its bounds, and that it always ends."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmkit.recovery.diagnosis import Diagnosis
from slurmkit.recovery.diagnosis_kinds import KINDS
from slurmkit.recovery.past import Failure, Past
from slurmkit.recovery.policy import LONGEST_WAIT, NEVER, Decision, decide, pause, retry_of
from slurmkit.spec.model import Checkpoint, JobSpec, Retry

NODES = ("n1", "n2", "n3")
DAY = 86400.0


def end(kind: str = "crashed", signature: str = "", **fields: Any) -> Diagnosis:
    return Diagnosis(kind, f"it {kind}", signature=signature or kind, **fields)


def failure(kind: str = "crashed", step: int | None = None, signature: str = "", **fields: Any) -> Failure:
    return Failure(fields.pop("at", 0.0), kind, signature or kind, checkpoint_step=step, **fields)


def follows(
    diagnosis: Diagnosis, past: Past | None = None, retry: Retry | None = None, **fields: Any
) -> Decision:
    given_ones = {"nodes": NODES, "needed": 2, "checkpoint_step": None, "chance": 0.5, **fields}
    return decide(diagnosis, past or Past(), retry or Retry(), **given_ones)


@pytest.mark.parametrize(
    ("kind", "action"),
    [
        ("finished", "done"),
        ("cancelled", "stop"),
        ("setup-failed", "stop"),
        ("do-not-requeue", "stop"),
        ("never-starts", "stop"),
        ("host-out-of-memory", "stop"),
        ("gpu-out-of-memory", "stop"),
        ("held", "leave"),
        ("requeued", "leave"),
        ("told-to-end", "leave"),
        ("time-limit", "requeue"),
        ("preempted", "requeue"),
        ("crashed", "restart"),
        ("hung", "restart"),
        ("killed", "restart"),
        ("node-died", "restart"),
        ("node-unfit", "restart"),
        ("ended-early", "restart"),
        ("agent-died", "restart"),
        ("unknown", "restart"),
    ],
)
def test_what_follows_the_first_time(kind: str, action: str) -> None:
    assert follows(end(kind)).action == action


def test_a_node_that_died_is_left_out_as_long_as_enough_are_left() -> None:
    died = end("node-died", nodes=("n3",))
    assert follows(died, nodes=("n1", "n2"))[:4] == (
        "restart",
        "it node-died: once more in place, without n3",
        0.0,
        ("n3",),
    )
    elsewhere = follows(died, nodes=("n1", "n2"), needed=3)
    assert (elsewhere.action, elsewhere.without) == ("requeue", ("n3",))
    assert "of 3 nodes, 2 are left" in elsewhere.reason
    assert "without n3" in elsewhere.reason


def test_the_job_file_can_keep_bad_nodes() -> None:
    assert follows(end("node-unfit", nodes=("n3",)), retry=Retry(exclude_bad_nodes=False)).without == ()


def test_a_crash_blames_its_node_when_it_comes_back_there_within_a_day() -> None:
    crash = end(host="n2")
    before = failure(nodes=("n2",), step=1)
    assert follows(crash, Past((before,), now=60.0), checkpoint_step=5).without == ("n2",)
    assert follows(crash, Past((before,), now=2 * DAY), checkpoint_step=5).without == ()
    assert follows(end(host="n1"), Past((before,), now=60.0), checkpoint_step=5).without == ()
    assert (
        follows(end("killed", host="n2"), Past((failure("killed", 1, nodes=("n2",)),)), checkpoint_step=5)[3]
        == ()
    )


def test_what_befalls_one_node_after_the_other_is_no_fault_of_theirs() -> None:
    before = tuple(
        failure(nodes=(node,), step=number) for number, node in enumerate(("n1", "n2", "n3", "n1"))
    )
    assert follows(end(host="n2"), Past(before, now=1.0), checkpoint_step=9).without == ()


def test_restarts_that_are_used_up_are_followed_by_a_requeue_and_then_by_the_end() -> None:
    assert follows(end(), Past(restarts=5)).action == "requeue"
    assert follows(end(), Past(restarts=5, requeues=20)).action == "stop"
    assert follows(end(), Past(restarts=4, requeues=20)).action == "restart"
    assert "[retry] requeues" in follows(end("time-limit"), Past(requeues=20)).reason


def test_without_an_allocation_the_run_is_submitted_again() -> None:
    again = follows(end(), Past(excluded=("n9",)), nodes=(), can_restart=False)
    assert (again.action, again.without) == ("resubmit", ("n9",))


def test_trap_100_a_time_limit_or_a_preemption_that_slurm_does_not_undo_is_submitted_again() -> None:
    assert follows(end("time-limit"), can_restart=False).action == "resubmit"
    assert follows(end("preempted"), can_restart=False).action == "resubmit"


def test_trap_099_a_job_that_is_gone_is_never_requeued() -> None:
    assert {follows(end(kind), can_restart=False).action for kind in KINDS} <= {
        "done",
        "stop",
        "leave",
        "resubmit",
    }


def test_trap_104_the_same_error_without_progress_stops_the_run() -> None:
    stop = follows(end(at_step=7), Past((failure(),)))
    assert (stop.action, stop.reason) == ("stop", "failed 2 times at step 7 with the same error: it crashed")
    assert follows(end(), Past((failure(),)), Retry(without_progress=3)).action == "restart"


def test_progress_resets_the_count() -> None:
    before = Past((failure(step=10),))
    assert follows(end(), before, checkpoint_step=20).action == "restart"
    assert follows(end(), before, checkpoint_step=10).action == "stop"
    assert follows(end(), before, checkpoint_step=5).action == "stop"
    assert follows(end(), Past((failure(),), has_saved=True)).action == "restart"


def test_failures_that_differ_stop_the_run_later() -> None:
    before = [failure(signature=f"s{number}") for number in range(5)]
    assert follows(end(), Past(tuple(before[:4]))).action == "restart"
    stop = follows(end(), Past(tuple(before)))
    assert stop.action == "stop"
    assert "6 times without a new checkpoint" in stop.reason


def test_what_comes_from_outside_is_no_same_error() -> None:
    assert follows(end("killed"), Past((failure("killed"),))).action == "restart"
    assert follows(end("killed"), Past((failure("killed"),) * 5)).action == "stop"


def test_a_time_limit_counts_only_where_its_allocation_made_no_checkpoint() -> None:
    idle = failure("time-limit")
    assert follows(end("time-limit"), Past((idle,))).action == "stop"
    assert follows(end("time-limit"), Past((idle,)), checkpoint_step=5).action == "requeue"
    moved = Past(tuple(failure("time-limit", step) for step in (10, 20, 30)))
    assert follows(end("time-limit"), moved, checkpoint_step=40).action == "requeue"
    assert follows(end("time-limit"), moved, checkpoint_step=30).action == "requeue"
    again = Past((*moved.failures, failure("time-limit", 30)))
    assert follows(end("time-limit"), again, checkpoint_step=30).action == "stop"


def test_preemptions_are_no_failures() -> None:
    assert follows(end(), Past((failure("preempted"),) * 10)).action == "restart"
    assert follows(end("preempted"), Past((failure("preempted"),) * 10)).action == "requeue"


def test_memory_grows_each_time_where_the_job_file_allows_it() -> None:
    retry = Retry(memory_factor=1.5)
    assert follows(end("host-out-of-memory"), retry=retry)[::4] == ("resubmit", 1.5)
    assert follows(end("host-out-of-memory"), Past(memory=1), retry).memory == 2.25


def test_a_gpu_that_is_full_before_any_checkpoint_would_be_full_again() -> None:
    assert follows(end("gpu-out-of-memory"), checkpoint_step=5).action == "restart"
    assert follows(end("gpu-out-of-memory")).action == "stop"


def test_a_job_that_its_program_has_requeued_is_left_to_it() -> None:
    assert follows(end("time-limit"), is_requeued=True).action == "leave"
    assert follows(end("crashed"), is_requeued=True).action == "restart"


def test_a_pause_only_where_time_may_heal() -> None:
    assert follows(end()).delay == 0
    assert follows(end("killed")).delay == 0
    first = follows(end("communication-timeout"), chance=1.0).delay
    second = follows(end("communication-timeout"), Past((failure("port-in-use"),)), chance=1.0).delay
    assert 0 < first < second
    assert follows(end("node-died", nodes=("n3",))).delay == 0


@given(st.integers(1, 10_000), st.floats(0, 1))
def test_pauses_are_bounded(times: int, chance: float) -> None:
    assert 0 < pause(times, chance) <= LONGEST_WAIT


def test_never_so_many_nodes_are_excluded_that_the_job_cannot_start() -> None:
    died = end("node-died", nodes=("n1", "n2"))
    assert follows(died, nodes=("n3",), pool=3).without == ("n1",)
    assert follows(died, Past(excluded=("n4",)), nodes=("n3",), pool=3).without == ()


def test_without_checkpoints_nothing_is_started_twice() -> None:
    plain = JobSpec(name="a", command=("true",))
    saving = JobSpec(name="a", command=("true",), checkpoint=Checkpoint(path="c"))
    own = Retry(restarts=1)
    assert (retry_of(plain), retry_of(saving)) == (NEVER, Retry())
    assert retry_of(JobSpec(name="a", command=("true",), retry=own)) == own
    assert follows(end(), retry=NEVER).action == "stop"


ENDS = st.builds(
    end, st.sampled_from(sorted(KINDS)), st.sampled_from(["", "a", "b"]), host=st.sampled_from([None, *NODES])
)
RETRIES = st.builds(
    Retry,
    without_progress=st.integers(1, 3),
    restarts=st.integers(0, 4),
    requeues=st.integers(0, 5),
    memory_factor=st.sampled_from([None, 2.0]),
    exclude_bad_nodes=st.booleans(),
)


@given(st.lists(ENDS, min_size=60, max_size=60), RETRIES, st.integers(1, 3))
def test_without_progress_every_run_ends_and_keeps_within_its_bounds(
    ends: list[Diagnosis], retry: Retry, needed: int
) -> None:
    past, started = Past(), 0
    for one in ends:
        diagnosis = one._replace(nodes=(one.host,)) if KINDS[one.kind].blames_node and one.host else one
        decision = follows(diagnosis, past, retry, needed=needed)
        if decision.action in {"done", "stop"}:
            break
        if decision.action == "restart":
            assert KINDS[one.kind].transient
            assert past.restarts < retry.restarts
            assert len(set(NODES) - set(decision.without)) >= needed
            past = past._replace(restarts=past.restarts + 1)
        elif decision.action != "leave":
            assert KINDS[one.kind].transient or decision.memory
            assert past.requeues < retry.requeues
            past = past._replace(requeues=past.requeues + 1, restarts=0)
        started += decision.action != "leave"
        nodes = diagnosis.nodes or tuple(filter(None, (one.host,)))
        past = past._replace(
            failures=(*past.failures, failure(one.kind, signature=one.signature, nodes=nodes))
        )
    assert started <= 3 * retry.without_progress + retry.requeues


@given(ENDS, RETRIES, st.lists(st.sampled_from(sorted(KINDS)), max_size=8))
def test_what_cannot_end_otherwise_is_never_started_as_it_was(
    diagnosis: Diagnosis, retry: Retry, before: list[str]
) -> None:
    past = Past(tuple(failure(kind) for kind in before))
    decision = follows(diagnosis, past, retry, checkpoint_step=9)
    if not diagnosis.transient and decision.memory is None:
        assert decision.action in {"done", "stop", "leave"}
