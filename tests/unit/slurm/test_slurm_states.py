from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmkit.slurm.states import JOB_STATES, NODE_SUFFIXES, JobState, NodeState, cancelled_by

FINAL = {
    "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE",
    "OUT_OF_MEMORY", "REVOKED",
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "uid"), [("CANCELLED by 1000", 1000), ("CANCELLED by 0", 0), ("CANCELLED", None)]
)
def test_trap_001_state_carries_a_killers_uid(text: str, uid: int | None) -> None:
    assert JobState.parse(text) == JobState("CANCELLED")
    assert cancelled_by(text) == uid


@pytest.mark.parametrize("text", ["CANCELLED+", "OUT_OF_ME+", "", "  "])
def test_trap_002_a_value_cut_to_its_column_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a job state"):
        JobState.parse(text)


@pytest.mark.parametrize("row", JOB_STATES, ids=lambda row: row.name)
def test_trap_050_every_known_state_is_read_by_either_name(row: tuple[str, str, str, int]) -> None:
    name, compact, _, _ = row
    assert JobState.parse(name) == JobState.parse(compact) == JobState.parse(name.lower())
    assert JobState.parse(name).is_known
    assert JobState.parse(name).is_final is (name in FINAL)


def test_trap_050_a_state_that_is_not_known_is_kept_and_is_not_final() -> None:
    state = JobState.parse("WHATEVER")
    assert (str(state), state.is_known, state.is_final, state.kind) == ("WHATEVER", False, False, "unknown")


@pytest.mark.parametrize(
    "text", ["COMPLETING", "CG", "COMPLETED+COMPLETING", "FAILED+COMPLETING", "STAGE_OUT"]
)
def test_trap_161_completing_is_not_the_end(text: str) -> None:
    assert not JobState.parse(text).is_final


def test_a_known_end_with_a_flag_that_is_not_known_is_not_final() -> None:
    assert not JobState("COMPLETED", ("NEW_FLAG",)).is_final


@pytest.mark.parametrize("text", ["REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "PENDING", "RD", "RH"])
def test_what_waits_in_the_queue_is_pending(text: str) -> None:
    assert JobState.parse(text).is_pending


def test_of_several_ends_the_worst_speaks() -> None:
    states = [JobState.parse(name) for name in ("COMPLETED", "OUT_OF_MEMORY", "CANCELLED", "FAILED")]
    assert max(states, key=lambda state: state.severity).name == "OUT_OF_MEMORY"


@given(st.sampled_from(JOB_STATES), st.lists(st.sampled_from(JOB_STATES), max_size=3))
def test_job_states_read_back_what_they_print(base: tuple[str, ...], flags: list[tuple[str, ...]]) -> None:
    state = JobState(base[0], tuple(flag[0] for flag in flags))
    assert JobState.parse(str(state)) == state


@pytest.mark.parametrize(
    ("text", "base", "flags"),
    [
        ("IDLE", "IDLE", ()),
        ("IDLE+DRAIN", "IDLE", ("DRAIN",)),
        ("MIXED+CLOUD+NOT_RESPONDING", "MIXED", ("CLOUD", "NOT_RESPONDING")),
        ("DOWN*", "DOWN", ("NOT_RESPONDING",)),
        ("DOWN*+DRAIN", "DOWN", ("NOT_RESPONDING", "DRAIN")),
        ("idle~", "IDLE", ("POWERED_DOWN",)),
        ("drng@", "ALLOCATED", ("DRAIN", "REBOOT_REQUESTED")),
        ("drained*", "IDLE", ("DRAIN", "NOT_RESPONDING")),
        ("mix-", "MIXED", ("PLANNED",)),
        ("resv", "UNKNOWN", ("RESERVED",)),
        ("IDLE+WHATEVER", "IDLE", ("WHATEVER",)),
    ],
)
def test_node_states_with_suffixes_and_flags(text: str, base: str, flags: tuple[str, ...]) -> None:
    assert NodeState.parse(text) == NodeState(base, flags)


@pytest.mark.parametrize("letter", NODE_SUFFIXES)
def test_a_node_with_a_suffix_takes_no_job_now(letter: str) -> None:
    assert not NodeState.parse(f"idle{letter}").is_available


@pytest.mark.parametrize(
    ("text", "available", "drained", "down"),
    [
        ("IDLE", True, False, False),
        ("MIXED+CLOUD", True, False, False),
        ("ALLOCATED", False, False, False),
        ("IDLE+DRAIN", False, True, False),
        ("DOWN", False, False, True),
        ("IDLE+NOT_RESPONDING", False, False, True),
        ("IDLE+NEW_FLAG", False, False, False),
        ("WHATEVER", False, False, False),
    ],
)
def test_what_a_node_can_take(text: str, available: bool, drained: bool, down: bool) -> None:
    state = NodeState.parse(text)
    assert (state.is_available, state.is_drained, state.is_down) == (available, drained, down)


def test_an_empty_node_state_is_refused() -> None:
    with pytest.raises(ValueError, match="not a node state"):
        NodeState.parse(" ")
