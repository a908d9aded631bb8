"""The generated trace: consistent in itself, and its truth is that of its dump."""

from __future__ import annotations

import io
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from slurmkit.launch.hostlist import expand
from slurmkit.slurm.tres import Tres
from tests.bench import trace_text
from tests.bench.trace import RUNNING, Trace, generate, truth
from tests.bench.trace_cluster import CLASSES, PARTITIONS

SLOTS = {partition.name: partition.slots for partition in PARTITIONS}


@pytest.fixture(scope="module")
def trace() -> Trace:
    return generate(20_000, seed=3, days=60)


def dump(trace: Trace, *, steps: bool = False, odd: float = trace_text.ODD) -> str:
    file = io.BytesIO()
    trace_text.write(trace, file, steps=steps, odd=odd)
    return file.getvalue().decode("utf-8", "surrogateescape")


def rows(text: str) -> list[dict[str, str]]:
    """The lines that have as many fields as the header: those without an odd name."""
    first, *lines = text.split("\n")
    names = first.split("|")
    parts = [line.split("|") for line in lines]
    return [dict(zip(names, part, strict=True)) for part in parts if len(part) == len(names)]


def test_the_same_seed_gives_the_same_bytes_and_another_gives_others(trace: Trace) -> None:
    text = dump(trace)

    assert text == dump(generate(20_000, seed=3, days=60))
    assert text != dump(generate(20_000, seed=4, days=60))


def test_there_are_about_as_many_attempts_as_were_asked_for(trace: Trace) -> None:
    assert 19_500 <= len(trace) <= 20_000


def test_no_node_ever_gives_more_than_it_has(trace: Trace) -> None:
    changes: dict[str, list[tuple[int, int]]] = {}
    real = np.flatnonzero((trace.start > 0) & (trace.runaway == 0))
    for row in real.tolist():
        one = CLASSES[trace.code[row]]
        end = int(trace.end[row]) or trace.now
        for node in expand(trace.lanes.node_lists[trace.lane[row]]):
            share = one.slots // one.nodes
            changes.setdefault(node, []).extend([(int(trace.start[row]), share), (end, -share)])
    assert changes
    for node, moments in changes.items():
        held = np.cumsum([change for _, change in sorted(moments)])
        assert held.max() <= SLOTS[node.rpartition("-")[0]], node


def test_every_attempt_is_consistent_in_time(trace: Trace) -> None:
    started, ended = trace.start > 0, (trace.start > 0) & (trace.end > 0)

    assert (trace.submit <= trace.now).all()
    assert (trace.start[started] >= trace.submit[started]).all()
    assert (trace.end[ended] - trace.start[ended] == trace.elapsed[ended] + trace.suspended[ended]).all()
    assert (trace.elapsed[~started] == 0).all()
    assert (trace.end <= trace.now).all()


def test_only_runaways_run_for_a_day_longer_than_they_may(trace: Trace) -> None:
    overdue = (trace.state == RUNNING) & (trace.limit > 0) & (trace.elapsed > trace.limit + 86_400)

    assert trace.runaway.any()
    assert (overdue == (trace.runaway == 1)).all()


def test_the_truth_is_what_the_dump_says(trace: Trace) -> None:
    told = rows(dump(trace))
    odd = len(trace) - len(told)
    seconds: Counter[tuple[str, str]] = Counter()
    for row in told:
        limit = row["TimelimitRaw"]
        may = float("inf") if limit == "UNLIMITED" else int(limit) * 60 + 86_400
        if row["State"] == "RUNNING" and int(row["ElapsedRaw"]) > may:
            continue
        gpus = Tres.parse(row["AllocTRES"]).gpus or int(row["AllocGRES"].rpartition(":")[2] or 0)
        seconds[row["Account"], row["User"]] += gpus * int(row["ElapsedRaw"])
    expected = truth(trace)
    differing = [key for key, used in expected.items() if used.gpu != seconds[key]]

    # What is missing belongs to the few records with an odd name, and to tasks that wait together.
    assert len(differing) <= odd
    assert sum(seconds.values()) == pytest.approx(sum(used.gpu for used in expected.values()), rel=0.05)


def test_most_jobs_are_small_and_most_gpu_hours_are_in_few_large_ones(trace: Trace) -> None:
    gpus = np.array([one.gpus for one in CLASSES])[trace.code]
    hours = gpus * trace.elapsed

    assert (gpus <= 8).mean() > 0.9
    assert hours[gpus > 8].sum() > 0.5 * hours.sum()


def test_what_breaks_readers_is_in_it(trace: Trace) -> None:
    text = dump(trace, odd=0.05)

    for part in [
        "two\nlines|", "|a|b|c|", "lat\udced n", "größe-模型-🚀", "CANCELLED by 10", "|4Gn|", "|4Gc|",
        "2147486648Mn", ".50G,node=", "|UNLIMITED|", "|None assigned|", "|Unknown|Unknown|", "%4]|", "+1|",
        "gres/gpu:a100_1g.5gb=", "gres/shard=", "18446744073709551614", "|REQUEUED|", "|PREEMPTED|",
        "|NODE_FAIL|", "|OUT_OF_MEMORY|0:125|", "|gpu:a100:1|",
    ]:  # fmt: skip
        assert part in text, part


def test_steps_follow_their_attempt(trace: Trace) -> None:
    told = rows(dump(trace, steps=True))
    jobs = [row for row in told if "." not in row["JobID"]]
    steps = [row for row in told if "." in row["JobID"]]

    assert {row["JobID"].partition(".")[2] for row in steps} == {"batch", "extern", "0"}
    assert len(steps) == pytest.approx(3 * sum(row["NodeList"] != "None assigned" for row in jobs), rel=0.01)
    for before, row in pairwise(told):
        if row["JobID"].endswith(".extern"):
            assert before["JobID"].partition(".")[0] == row["JobID"].partition(".")[0]
