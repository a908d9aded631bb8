"""Figures of a cluster in Prometheus' text format."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmkit.accounting.prometheus import Family, Sample, exposition, history, live
from slurmkit.accounting.question import question
from slurmkit.slurm.ids import JobId
from slurmkit.slurm.records import Job, Node, Partition
from slurmkit.slurm.states import JobState, NodeState
from tests.unit.accounting.exposition import Found, promtool_says, read, value
from tests.unit.accounting.records import NOON, NOT_STARTED, ledger_of

PARTITIONS = [Partition(name=name, is_default=False, state="UP", nodes=()) for name in ("train", "debug")]


def node(name: str, state: str, gres: str | None, used: str | None, *partitions: str) -> Node:
    return Node(
        name=name,
        address=name,
        hostname=name,
        state=NodeState.parse(state),
        gres=gres,
        gres_used=used,
        partitions=partitions,
    )


def job(text: str, state: str, partition: str | None = "train") -> Job:
    return Job(id=JobId.parse(text), name="j", user="u", state=JobState.parse(state), partition=partition)


def told(*families: Family) -> Found:
    text = exposition(families)
    assert promtool_says(text) == ""
    return read(text)


def test_jobs_are_counted_by_partition_and_state_and_tasks_of_arrays_one_by_one() -> None:
    jobs = [
        job("1", "PENDING"),
        job("2_[3-99%4]", "PENDING"),
        job("2_1", "RUNNING"),
        job("3", "SUSPENDED"),
        job("4", "COMPLETING"),
        job("5", "WHATEVER"),
        job("6", "COMPLETED"),
        job("7", "PENDING", "train,debug"),
    ]
    found = told(*live("c", PARTITIONS, [], jobs))

    assert value(found, "slurmkit_jobs", partition="train", state="pending") == 98
    assert value(found, "slurmkit_jobs", partition="train", state="running") == 2
    assert value(found, "slurmkit_jobs", partition="train", state="ending") == 1
    assert value(found, "slurmkit_jobs", partition="train", state="unknown") == 1
    assert value(found, "slurmkit_jobs", partition="train,debug", state="pending") == 1


def test_an_empty_queue_is_told_as_zero_for_every_partition() -> None:
    found = told(*live("c", PARTITIONS, [], []))

    assert value(found, "slurmkit_jobs", partition="debug", state="pending") == 0
    assert value(found, "slurmkit_jobs", partition="train", state="running") == 0


def test_gpus_are_allocated_idle_or_down_by_type() -> None:
    nodes = [
        node("n1", "MIXED", "gpu:a100:8(S:0-1)", "gpu:a100:5(IDX:0-4)", "train"),
        node("n2", "MIXED+DRAIN", "gpu:a100:8(S:0-1)", "gpu:a100:2(IDX:0-1)", "train"),
        node("n3", "DOWN*", "gpu:a100:8", "gpu:a100:0", "train"),
        node("n4", "IDLE", "gpu:h100:4,gpu:1g.10gb:7,shard:h100:8", "gpu:h100:1,gpu:1g.10gb:3", "train"),
        node("n5", "IDLE", None, None, "debug"),
    ]
    found = told(*live("c", PARTITIONS, nodes, []))
    by_state = {
        state: value(found, "slurmkit_gpus", type="a100", state=state)
        for state in ("allocated", "idle", "down")
    }

    assert by_state == {"allocated": 7, "idle": 3, "down": 14}
    assert value(found, "slurmkit_gpus", type="h100", state="idle") == 3
    assert value(found, "slurmkit_gpus", type="1g.10gb", state="allocated") == 3
    assert not [key for key in found if "shard" in str(key)]


def test_a_node_of_two_partitions_counts_in_both_and_once_in_all() -> None:
    found = told(*live("c", PARTITIONS, [node("n1", "IDLE", "gpu:8", "gpu:0", "train", "debug")], []))

    assert value(found, "slurmkit_partition_gpus", partition="train", state="idle") == 8
    assert value(found, "slurmkit_partition_gpus", partition="debug", state="idle") == 8
    assert value(found, "slurmkit_gpus", state="idle") == 8


def test_waits_and_ends_are_those_of_the_window_and_runaways_are_none() -> None:
    def at(hours: float) -> object:
        return NOON + timedelta(hours=hours)

    jobs: list[dict[str, object]] = [
        {"submit_time": at(-5), "eligible_time": at(-2), "start_time": at(0), "gpus": 4, "elapsed": 3600},
        {"submit_time": at(-1), "start_time": at(0), "elapsed": 60, "state": "FAILED"},
        {"submit_time": at(-1), "start_time": at(-30), "elapsed": 60, "state": "FAILED"},
        {"submit_time": at(-1), "start_time": at(0), "elapsed": 60, "end_time": None, "is_runaway": True},
        {"state": "PENDING", **NOT_STARTED},
        {"state": "CANCELLED", "end_time": at(1), **NOT_STARTED},
    ]  # fmt: skip
    ledger = ledger_of(jobs, as_of=NOON)
    asked = question(since=NOON - timedelta(hours=24), until=NOON + timedelta(hours=2))
    found = told(*history(ledger, asked))

    assert value(found, "slurmkit_started_jobs") == 2
    assert value(found, "slurmkit_wait_seconds", percentile="99") == 7200
    assert value(found, "slurmkit_wait_seconds", percentile="50") == 3600
    assert value(found, "slurmkit_ended_jobs", state="failed") == 1
    assert value(found, "slurmkit_ended_jobs", state="cancelled") == 1
    assert value(found, "slurmkit_ended_gpu_seconds", state="completed") == 4 * 3600
    assert value(found, "slurmkit_accounting_window_seconds") == 26 * 3600
    assert value(found, "slurmkit_accounting_complete_timestamp_seconds") == NOON.timestamp()


def test_a_window_without_records_has_no_families_of_jobs() -> None:
    found = told(*history(ledger_of([]), question(since=NOON, until=NOON + timedelta(days=1))))

    assert {name for name, _ in found} == {
        "slurmkit_accounting_window_seconds",
        "slurmkit_accounting_complete_timestamp_seconds",
    }


@given(st.text(st.characters(exclude_categories=["Cs"])), st.floats(allow_nan=False, allow_infinity=False))
def test_whatever_a_label_holds_comes_back(text: str, number: float) -> None:
    written = exposition(
        [Family("slurmkit_x", "a text with \\ and\na line", [Sample({"name": text}, number)])]
    )

    # A line ends with a line feed alone: the other characters that Python splits at are part of a label.
    (sample,) = [line for line in written.split("\n") if line.startswith("slurmkit_x")]
    body = sample.removeprefix('slurmkit_x{name="').rpartition('"} ')
    assert (
        body[0].replace("\\\\", "\0").replace("\\n", "\n").replace('\\"', '"').replace("\0", "\\") == text
        or "\0" in text
    )
    assert float(body[2]) == number


@pytest.mark.parametrize("bad", ['quote " inside', "back\\slash", "new\nline", "größe-🚀", "a,b={c}"])
def test_hostile_names_of_partitions_are_labels_like_others(bad: str) -> None:
    found = told(*live("c", [Partition(name=bad, is_default=False, state="UP", nodes=())], [], []))

    assert value(found, "slurmkit_jobs", partition=bad, state="pending") == 0
