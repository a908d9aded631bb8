"""Fragmentation: the sweep over starts and ends says what counting every second says."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmkit.accounting.pools import Pool, joined, pools_of_nodes, pools_of_places
from slurmkit.accounting.question import question
from slurmkit.accounting.report import columns_of
from slurmkit.accounting.reports.fragmentation import REPORT
from slurmkit.accounting.timeline import MARGIN, slot_sizes, timeline
from slurmkit.slurm.hostlist import expand_set, fold
from tests.unit.accounting.records import NOON, NOT_STARTED, ledger_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pandas import DataFrame

Job = dict[str, Any]
LENGTH = 40
LATE = NOON + timedelta(days=30)


def second(number: int) -> datetime:
    return NOON + timedelta(seconds=number)


SPAN: dict[str, Any] = {"since": NOON, "until": second(LENGTH)}


def frames(
    jobs: Sequence[Mapping[str, object]], *, as_of: datetime = LATE, **how: Any
) -> dict[str, DataFrame]:
    asked = question(**({"zone": UTC} | SPAN | how))
    with closing(ledger_of(jobs, as_of=as_of)) as ledger:
        built = {table.name: table.build(ledger, asked) for table in REPORT.tables}
    for table in REPORT.tables:
        assert list(built[table.name]) == [column.name for column in columns_of(table, asked)]
    return built


def pools(jobs: Sequence[Mapping[str, object]], **how: Any) -> dict[Any, Any]:
    rows = frames(jobs, **how)["fragmentation"].to_dict("records")
    return {(row["partition"], row["gpu_type"]): row for row in rows}


def held(begin: int, end: int, where: str = "n1", gpus: int = 8, **fields: Any) -> Job:
    """A job that did not wait."""
    times = {"start_time": second(begin), "end_time": second(end)}
    return {"node_list": where, "gpus": gpus, "gpu_type": "a100", **times, **fields}


def waits(begin: int, gpus: int, **fields: Any) -> Job:
    return {
        "state": "PENDING",
        **NOT_STARTED,
        "submit_time": second(begin),
        "requested_gpus": gpus,
        **fields,
    }


FULL = (held(-100, -50), held(-100, -50, "n2"))
"""So much there is: two nodes of eight."""


def test_what_is_idle_while_jobs_wait_is_the_smaller_of_both_at_every_second() -> None:
    jobs = [*FULL, held(0, 20), held(0, 40, "n2", 6), waits(10, 4)]
    row = pools(jobs)["train", "a100"]
    assert (row["nodes"], row["gpus"], row["capacity_seconds"]) == (2, 16, 16 * 40)
    assert row["used_seconds"] == 8 * 20 + 6 * 40
    assert row["idle_seconds"] == 640 - 400
    assert row["asked_seconds"] == 4 * 30
    # Until 20 two GPUs are idle, and four are asked for from 10 on.
    assert row["idle_while_waiting"] == 2 * 10 + 4 * 20


def test_idle_gpus_on_several_nodes_make_no_whole_node() -> None:
    jobs = [*FULL, held(0, 40, "n1", 4), held(0, 40, "n2", 4)]
    row = pools(jobs)["train", "a100"]
    assert (row["whole_possible"], row["whole_made"], row["whole_fragmentation"]) == (1.0, 0.0, 1.0)
    slots = frames(jobs)["slots"].set_index("gpus_each")
    assert slots["possible"].to_dict() == {2: 4.0, 4: 2.0, 8: 1.0}
    assert slots["made"].to_dict() == {2: 4.0, 4: 2.0, 8: 0.0}


def test_capacity_is_the_most_that_was_held_at_once_in_the_window_or_close_to_it() -> None:
    near, far = MARGIN - 10, MARGIN + 10
    jobs = [
        held(0, 10, "n1", 2),
        held(5, 20, "n1", 3),
        held(-near - 5, -near, "n2", 8),
        held(-far - 5, -far, "n3", 8),
    ]
    row = pools(jobs)["train", "a100"]
    assert (row["nodes"], row["gpus"]) == (2, 5 + 8)


def test_a_job_over_several_nodes_holds_equal_parts_and_the_first_nodes_the_rest() -> None:
    asked = question(zone=UTC, **SPAN)
    with closing(ledger_of([held(0, 10, "n[1-3]", 8, nodes=3)])) as ledger:
        levels = timeline(ledger, asked).levels
    assert levels[levels["used"] > 0][["capacity", "used", "seconds"]].values.tolist() == [
        [2, 2, 10],
        [3, 3, 20],
    ]


def test_partitions_that_have_nodes_in_common_are_one_pool_and_types_are_not() -> None:
    jobs = [
        held(0, 10, partition="a"),
        held(10, 20, partition="b"),
        held(0, 10, "h1", partition="b", gpu_type="h100"),
        held(0, 10, "x1", partition="c"),
    ]
    assert pools(jobs).keys() == {("a+b", "a100"), ("a+b", "h100"), ("c", "a100")}


def test_a_job_waits_for_its_own_type_where_that_is_known_and_else_is_not_compared() -> None:
    jobs = [
        held(0, 10),
        held(0, 10, "h1", gpu_type="h100"),
        held(20, 30, "h1", gpu_type="h100", submit_time=second(10), gpus=2),
        waits(0, 4),
    ]
    rows = pools(jobs)
    assert rows["train", "h100"]["idle_while_waiting"] == 2 * 10
    assert rows["train", "a100"]["idle_while_waiting"] == 0
    assert rows["train", None]["asked_seconds"] == 4 * 40
    assert rows["train", None]["gpus"] == 0
    said = " ".join(REPORT.stands_out(frames(jobs)))
    assert "not compared with idle GPUs" in said


def test_what_is_blocked_or_asks_for_no_gpu_does_not_wait_for_one() -> None:
    jobs = [held(0, 10), waits(0, 0), waits(0, 8, eligible_time=second(1000))]
    assert pools(jobs)["train", "a100"]["asked_seconds"] == 0


def test_a_choice_of_users_says_whose_wait_counts_and_not_who_holds() -> None:
    jobs = [held(0, 40), held(0, 10, "n2"), waits(0, 8), waits(0, 8, user="bob")]
    everybody, bob = (pools(jobs, **how)["train", "a100"] for how in ({}, {"users": ["bob"]}))
    assert (everybody["used_seconds"], bob["used_seconds"]) == (400, 400)
    assert (everybody["asked_seconds"], bob["asked_seconds"]) == (640, 320)


def test_a_choice_of_partitions_leaves_the_pools_that_have_one() -> None:
    jobs = [held(0, 40, partition="a"), held(0, 40, "x", partition="b")]
    assert pools(jobs, partitions=["b"]).keys() == {("b", "a100")}
    assert not pools(jobs, partitions=["none"])


def test_a_runaway_holds_nothing() -> None:
    jobs = [held(0, 10), held(0, 40, "n2", is_runaway=True)]
    assert pools(jobs)["train", "a100"]["nodes"] == 1


def test_tasks_that_wait_together_ask_one_by_one_and_no_longer_than_the_records_go() -> None:
    jobs = [held(0, 10), waits(0, 1, array_tasks=4)]
    assert pools(jobs, as_of=second(20))["train", "a100"]["asked_seconds"] == 4 * 20


def test_days_add_up_to_the_pools() -> None:
    window = {"since": NOON, "until": NOON + timedelta(days=3)}
    jobs = [
        held(0, 100_000),
        held(5, 90_000, "n2", 3, partition="b"),
        waits(70_000, 3, submit_time=second(70_000)),
    ]
    built = frames(jobs, **window)
    assert built["periods"]["period"].tolist() == ["2026-11-02", "2026-11-03", "2026-11-04", "2026-11-05"]
    for name in ("capacity_seconds", "used_seconds", "idle_seconds", "asked_seconds", "idle_while_waiting"):
        assert built["periods"][name].sum() == built["fragmentation"][name].sum()
    months = frames(jobs, by=["month"], **window)["periods"]
    assert months["period"].tolist() == ["2026-11"]


def test_what_stands_out_are_pools_with_idle_gpus_while_jobs_waited() -> None:
    said = REPORT.stands_out(frames([*FULL, waits(0, 8)]))
    assert said[0].startswith("train (a100): 0.0889 GPU-hours idle while jobs waited for GPUs, 50.0% of all")
    assert "the most that jobs held there at once" in said[-1]


def test_without_gpus_there_is_nothing_to_say() -> None:
    for jobs in ([], [{"node_list": "n1"}]):
        assert REPORT.stands_out(frames(jobs)) == ["No job held a GPU in this time."]


def test_one_ledger_answers_several_questions() -> None:
    jobs = [*FULL, held(0, 40), waits(0, 8), waits(0, 8, user="bob")]
    with closing(ledger_of(jobs, as_of=LATE)) as ledger:
        asked = [question(zone=UTC, users=users, **SPAN) for users in ((), ("bob",), ("bob",), ())]
        sums = [timeline(ledger, one).periods["asked"].sum() for one in asked]
        tables = ledger.connection.execute("SELECT table_name FROM duckdb_tables() ORDER BY ALL").fetchall()
    assert sums == [640, 320, 320, 640]
    assert [name for (name,) in tables if not name.startswith("timeline")] == ["jobs", "steps"]


@pytest.mark.parametrize(
    ("largest", "sizes"), [([], ()), ([0], ()), ([1], (1,)), ([8, 4], (2, 4, 8)), ([6], (2, 4, 6))]
)
def test_slots_are_whole_nodes_and_powers_of_two_below(largest: list[int], sizes: tuple[int, ...]) -> None:
    assert slot_sizes(largest) == sizes


def test_partitions_are_joined_by_chains_of_nodes_and_not_over_clusters() -> None:
    groups = joined([("c", ["a", "b"]), ("c", ["b", "d"]), ("c", ["e"]), ("other", ["a"])])
    assert groups["c", "d"] == ("a", "b", "d")
    assert (groups["c", "e"], groups["other", "a"]) == (("e",), ("a",))


def test_places_without_nodes_are_pools_of_their_own() -> None:
    known, numbers = pools_of_nodes([("c", ["a"], "a100"), ("c", ["b"], "a100"), ("c", ["b"], "h100")])
    assert numbers == [0, 1, 2]
    places = [("c", "a", ""), ("c", "b", "h100"), ("c", "b", ""), ("c", "z", "")]
    found = pools_of_places(known, places)
    assert [found[place] for place in places] == [
        known[0],
        known[2],
        Pool(3, "c", ("b",), None),
        Pool(4, "c", ("z",), None),
    ]


NODES = ("n1", "n2", "n3")


@st.composite
def some_jobs(draw: st.DrawFn) -> list[Job]:
    """Jobs on a few nodes, before, in and after the window, with waits."""
    jobs = []
    for _ in range(draw(st.integers(1, 6))):
        nodes = draw(st.lists(st.sampled_from(NODES), min_size=1, max_size=3, unique=True))
        begin = draw(st.integers(-10, LENGTH + 10))
        jobs.append(
            held(
                begin,
                begin + draw(st.integers(0, 30)),
                fold(nodes),
                draw(st.integers(1, 8)),
                nodes=len(nodes),
                submit_time=second(begin - draw(st.integers(0, 20))),
            )
        )
    jobs += [waits(draw(st.integers(-10, LENGTH)), draw(st.integers(1, 30))) for _ in range(2)]
    return jobs


def used_at(jobs: list[Job], moment: int) -> dict[str, int]:
    used = dict.fromkeys(NODES, 0)
    for job in jobs:
        if job["start_time"] and job["start_time"] <= second(moment) < job["end_time"]:
            nodes = sorted(expand_set(job["node_list"]))
            for place, node in enumerate(nodes):
                used[node] += job["gpus"] // len(nodes) + (place < job["gpus"] % len(nodes))
    return used


def asked_at(jobs: list[Job], moment: int) -> int:
    now = second(moment)
    waiting = [job for job in jobs if job["submit_time"] <= now < (job["start_time"] or LATE)]
    return sum(int(job.get("requested_gpus") or job["gpus"]) for job in waiting)


@given(jobs=some_jobs(), data=st.data())
@settings(max_examples=12)
def test_the_sweep_is_what_counting_every_second_gives_in_any_order(jobs: list[Job], data: Any) -> None:
    often = [used_at(jobs, moment) for moment in range(-50, LENGTH + 60)]
    capacity = {node: max(used[node] for used in often) for node in NODES}
    counted = dict.fromkeys(("used", "asked", "short", "possible", "made"), 0)
    for moment in range(LENGTH):
        free = {node: capacity[node] - used for node, used in used_at(jobs, moment).items()}
        idle = sum(free.values())
        counted["used"] += sum(capacity.values()) - idle
        counted["asked"] += asked_at(jobs, moment)
        counted["short"] += min(idle, asked_at(jobs, moment))
        counted["possible"] += idle // 2
        counted["made"] += sum(gpus // 2 for gpus in free.values())
    built = frames(data.draw(st.permutations(jobs)))
    sums = built["fragmentation"].sum(numeric_only=True)
    assert sums["gpus"] == sum(capacity.values())
    assert sums["asked_seconds"] == counted["asked"]
    assert (sums["used_seconds"], sums["idle_while_waiting"]) == (counted["used"], counted["short"])
    pairs = built["slots"][built["slots"]["gpus_each"] == 2]
    for name in ("possible", "made") if len(pairs) else ():
        assert round(pairs[name].sum() * LENGTH) == counted[name]
