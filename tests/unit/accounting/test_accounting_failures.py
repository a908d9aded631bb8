"""Failures: why attempts ended, what that cost, and which nodes are worse than chance."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from itertools import product
from math import comb, inf, isclose
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmkit.accounting.ends import End, end_of
from slurmkit.accounting.question import question
from slurmkit.accounting.report import columns_of
from slurmkit.accounting.reports.failures import REPORT
from slurmkit.accounting.statistics import (
    Stratum,
    benjamini_hochberg,
    gini,
    hypergeometric,
    jain,
    poisson_interval,
    upper_tail,
)
from tests.unit.accounting.records import ledger_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pandas import DataFrame

Job = dict[str, object]
HOUR = 3600


def frames(jobs: Sequence[Mapping[str, object]], *by: str, **how: Any) -> dict[str, DataFrame]:
    asked = question(by=by, **({"zone": UTC} | how))
    with closing(ledger_of(jobs)) as ledger:
        built = {table.name: table.build(ledger, asked) for table in REPORT.tables}
    for table in REPORT.tables:
        assert list(built[table.name]) == [column.name for column in columns_of(table, asked)]
    return built


def by(frame: DataFrame, key: str, *names: str) -> dict[Any, Any]:
    values = zip(*(frame[name].tolist() for name in names), strict=True)
    return dict(zip(frame[key], values, strict=True))


@pytest.mark.parametrize(
    ("ended", "kind", "cause"),
    [
        (("OUT_OF_MEMORY", 0, 125, None), "host-out-of-memory", "out of memory"),
        (("FAILED", 0, 125, None), "host-out-of-memory", "out of memory"),
        (("FAILED", 0, 9, None), "killed", "killed by SIGKILL"),
        (("FAILED", 0, 11, None), "crashed", "killed by SIGSEGV"),
        (("FAILED", 3, 0, None), "crashed", "exit code 3"),
        (("FAILED", 137, 0, None), "crashed", "exit code 137, as a shell reports SIGKILL"),
        (("FAILED", None, None, None), "unknown", "failed without an exit code"),
        (("CANCELLED", 0, 15, "user"), "cancelled", "cancelled by its user"),
        (("CANCELLED", 0, 15, "administrator"), "cancelled", "cancelled by an administrator"),
        (("CANCELLED", 0, 15, None), "cancelled", "cancelled"),
        (("TIMEOUT", 0, 0, None), "time-limit", "time limit"),
        (("NODE_FAIL", 1, 0, None), "node-died", "node failed"),
        (("BOOT_FAIL", 0, 0, None), "node-died", "node did not boot"),
        (("PREEMPTED", 0, 15, None), "preempted", "preempted"),
        (("REQUEUED", 0, 0, None), "requeued", "requeued"),
        (("DEADLINE", 0, 0, None), "never-starts", "deadline passed"),
        (("LAUNCH_FAILED", 0, 0, None), "unknown", "state LAUNCH_FAILED"),
    ],
)
def test_trap_019_the_state_decides_why_a_job_ended_and_of_a_failed_one_its_exit_code(
    ended: tuple[str, int | None, int | None, str | None], kind: str, cause: str
) -> None:
    end = end_of(*ended)
    assert end is not None
    assert (end.kind, end.cause[: len(cause)]) == (kind, cause)


@pytest.mark.parametrize("state", ["COMPLETED", "REVOKED", "RESIZING"])
def test_an_end_at_which_nothing_is_lost_is_no_failure(state: str) -> None:
    assert end_of(state, 0, 0, None) is None


def test_kinds_are_those_of_a_diagnosis() -> None:
    from slurmkit.recovery.diagnosis_kinds import KINDS
    from slurmkit.slurm.states import JOB_STATES

    ends = [
        end_of(state.name, code, signal, None)
        for state, code, signal in product(JOB_STATES, (0, 1), (0, 9, 11, 125))
    ]
    assert {end.kind for end in ends if isinstance(end, End)} <= KINDS.keys()


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        ({"cancelled_by": "1000", "uid": 1000}, "cancelled by its user"),
        ({"cancelled_by": "anna"}, "cancelled by its user"),
        ({"cancelled_by": "0", "uid": 1000}, "cancelled by an administrator"),
        ({"cancelled_by": "0", "uid": 0, "user": "root"}, "cancelled by its user"),
        ({"cancelled_by": "1001", "uid": 1000}, "cancelled by an administrator"),
        ({"cancelled_by": "ops"}, "cancelled by an administrator"),
        ({"cancelled_by": "1001"}, "cancelled"),
        ({}, "cancelled"),
    ],
)
def test_trap_001_who_cancelled_a_job_is_said_where_the_records_tell(
    fields: Mapping[str, object], cause: str
) -> None:
    assert frames([{"state": "CANCELLED", **fields}])["failures"]["cause"].tolist() == [cause]


def test_what_an_attempt_held_is_lost_and_is_a_share_of_all_that_was_held() -> None:
    jobs: list[Job] = [
        {"gpus": 6},
        {"gpus": 2, "state": "FAILED", "exit_code": 1},
        {"state": "TIMEOUT", "cpus": 4},
    ]
    causes = frames(jobs)["failures"]
    assert by(causes, "cause", "failures", "gpu_seconds", "cpu_seconds", "share") == {
        "exit code 1": (1, 2 * HOUR, 8 * HOUR, 0.25),
        "time limit": (1, 0, 4 * HOUR, 0.0),
    }


def test_hours_count_where_they_were_spent_and_the_end_where_it_happened() -> None:
    job = {
        "start_time": "2026-11-01T22:00",
        "end_time": "2026-11-02T00:00",
        "state": "NODE_FAIL",
        "gpus": 8,
    }
    long = job | {"end_time": "2026-11-02T01:00"}
    until = datetime(2026, 11, 3, tzinfo=UTC)
    days = frames([job, long], "day", until=until)["failures"]
    assert by(days, "day", "failures", "gpu_seconds") == {
        "2026-11-01": (1, 4 * 8 * HOUR),
        "2026-11-02": (1, 1 * 8 * HOUR),
    }


def test_a_job_that_ended_where_it_began_is_counted_once() -> None:
    job = {"start_time": "2026-11-02", "end_time": "2026-11-02", "state": "FAILED", "exit_code": 1}
    days = frames([job, {"state": "COMPLETED"}], "day")["failures"]
    assert by(days, "day", "failures") == {"2026-11-02": (1,)}


def test_what_runs_has_not_failed() -> None:
    assert frames([{"end_time": None, "state": "RUNNING"}])["failures"].empty


@pytest.mark.parametrize("groups", [("user",), ("day",), ("gpu_type", "month"), ("state", "partition")])
def test_groups_add_up_to_the_whole(groups: tuple[str, ...]) -> None:
    jobs: list[Job] = [
        {"user": None, "state": "FAILED", "exit_code": 1, "gpus": 3, "gpu_type": "a100=2,h100=1"},
        {"user": "b", "state": "FAILED", "exit_code": 1, "start_time": "2026-10-31T12:00", "elapsed": 90_001},
        {"user": "b", "state": "PREEMPTED", "gpus": 1, "gpu_type": "a100"},
        {"user": "b", "gpus": 4},
    ]
    total, grouped = (frames(jobs, *asked)["failures"] for asked in ((), groups))
    for name in ("failures", "gpu_seconds", "cpu_seconds"):
        assert grouped.groupby("cause")[name].sum().to_dict() == by_name(total, name)
    assert isclose(grouped["share"].sum(), total["share"].sum())


def by_name(frame: DataFrame, name: str) -> dict[str, int]:
    return dict(zip(frame["cause"], frame[name], strict=True))


def runs(node: str, count: int, failed: int = 0, **fields: object) -> list[Job]:
    ends: list[Job] = [{"state": "FAILED", "exit_code": 1}] * failed + [{}] * (count - failed)
    return [{"node_list": node, "name": f"train-{index}"} | end | fields for index, end in enumerate(ends)]


def test_a_node_that_fails_the_same_work_more_often_than_others_is_suspect() -> None:
    jobs: list[Job] = [*runs("n1", 20, 1), *runs("n2", 20, 9), *runs("n3", 20, 1)]
    nodes = frames(jobs)["nodes"]
    assert nodes["node"].tolist() == ["n2", "n1", "n3"]
    assert nodes["suspect"].tolist() == ["yes", "", ""]
    # Fisher's test by hand: 9 or more of 11 marked among the 20 of 60.
    chance = sum(comb(11, k) * comb(49, 20 - k) for k in range(9, 12)) / comb(60, 20)
    assert isclose(nodes["p_value"][0], chance, rel_tol=1e-9)
    assert isclose(nodes["q_value"][0], 3 * chance, rel_tol=1e-9)
    assert isclose(nodes["expected"][0], 11 * 20 / 60)


def test_a_broken_program_speaks_against_no_node() -> None:
    jobs: list[Job] = [*runs("n1", 30, 30, user="bob"), *runs("n1", 30), *runs("n2", 60), *runs("n3", 60)]
    nodes = frames(jobs)["nodes"]
    assert nodes[["node", "failed", "suspect"]].values.tolist() == [["n1", 30, ""]]
    assert nodes["p_value"].tolist() == [1.0]


def test_a_job_over_several_nodes_is_one_job_of_each_and_one_in_all() -> None:
    jobs: list[Job] = [*runs("n[1-2]", 4, 2, nodes=2), *runs("n[3-4]", 4, nodes=2)]
    nodes = frames(jobs)["nodes"]
    assert by(nodes, "node", "jobs", "failed", "expected") == {"n1": (4, 2, 1.0), "n2": (4, 2, 1.0)}


def test_out_of_memory_and_the_time_limit_are_no_fault_of_a_node() -> None:
    jobs: list[Job] = [
        {"state": "OUT_OF_MEMORY"},
        {"state": "TIMEOUT"},
        {"state": "FAILED", "exit_signal": 125},
    ]
    assert frames(jobs)["nodes"].empty


def test_a_node_list_that_cannot_be_read_stands_for_itself() -> None:
    assert frames(runs("n[1-", 2, 1))["nodes"]["node"].tolist() == ["n[1-"]


def test_the_limit_shortens_the_list_but_never_by_a_suspect_node() -> None:
    jobs: list[Job] = [job for number in range(1, 30) for job in runs(f"n{number}", 5, 1)] + runs(
        "bad", 15, 15
    )
    assert frames(jobs, limit=1)["nodes"]["node"].tolist() == ["bad"]
    assert len(frames(jobs)["nodes"]) == 20


def test_time_to_failure_is_run_time_for_each_failure_of_a_node() -> None:
    jobs: list[Job] = [
        {"gpus": 16, "nodes": 2, "elapsed": 86400 * 50},
        {"gpus": 16, "nodes": 2, "elapsed": 86400 * 50, "state": "NODE_FAIL"},
        {"gpus": 1, "elapsed": 86400 * 200, "state": "FAILED", "exit_code": 1},
    ]
    row = frames(jobs)["sizes"].set_index("size").to_dict("index")
    large, small = row["9-63 GPUs"], row["1 GPU"]
    # 1 failure in 200 node-days, after 100 days of run time; in all 1 in 400 node-days.
    assert (large["node_failures"], large["rate"], large["mttf"]) == (1, 5.0, 86400 * 100)
    assert large["mttf_expected"] == 86400 * 200
    assert isclose(large["mttf_low"], 86400 * 100 / 4.743864518, rel_tol=1e-9)
    assert isclose(large["mttf_high"], 86400 * 100 / 0.05129329439, rel_tol=1e-9)
    assert (small["node_failures"], small["program_failures"], small["mttf_high"]) == (0, 1, inf)
    assert small["mttf"] != small["mttf"]


def test_what_stands_out_are_the_dearest_cause_the_suspects_and_the_rate() -> None:
    jobs: list[Job] = [*runs("n1", 20), *runs("n2", 20, 15, gpus=8), *runs("n3", 20, gpus=8)]
    said = " ".join(REPORT.stands_out(frames(jobs)))
    assert "exit code 1, 120.0 GPU-hours in 15 attempts" in said
    assert "Suspect: n2." in said
    assert "exact one-sided test" in said
    assert "0 node failures in" in said


def test_without_records_nothing_failed() -> None:
    assert REPORT.stands_out(frames([])) == ["No job failed in this time."]


# The figures of statistics, against values that are known.


def test_fishers_tea_lady_guesses_three_of_four_by_chance_at_17_in_70() -> None:
    assert isclose(upper_tail([Stratum(8, 4, 4)], 3), 17 / 70)
    assert isclose(upper_tail([Stratum(8, 4, 4)], 4), 1 / 70)
    assert upper_tail([Stratum(8, 4, 4)], 0) == 1.0


@given(total=st.integers(1, 60), data=st.data())
def test_hypergeometric_chances_are_those_of_counting(total: int, data: Any) -> None:
    marked, drawn = data.draw(st.integers(0, total)), data.draw(st.integers(0, total))
    least, chances = hypergeometric(Stratum(total, marked, drawn))
    ways = {k: comb(marked, k) * comb(total - marked, drawn - k) for k in range(drawn + 1)}
    exact = [count / comb(total, drawn) for count in ways.values() if count]
    assert least == next(k for k, count in ways.items() if count)
    assert all(isclose(one, other, rel_tol=1e-9) for one, other in zip(chances, exact, strict=True))


@given(
    strata=st.lists(st.tuples(st.integers(1, 8), st.integers(0, 8), st.integers(0, 8)), max_size=3),
    seen=st.integers(0, 12),
)
@settings(max_examples=50)
def test_strata_together_are_all_ways_of_their_sums(strata: list[tuple[int, int, int]], seen: int) -> None:
    chosen = [Stratum(total, min(marked, total), min(drawn, total)) for total, marked, drawn in strata]
    singles = [
        [(k, comb(m, k) * comb(n - m, d - k) / comb(n, d)) for k in range(d + 1)] for n, m, d in chosen
    ]
    exact = 0.0
    for ways in product(*singles):
        chance = 1.0
        for _, part in ways:
            chance *= part
        exact += chance if sum(k for k, _ in ways) >= seen else 0.0
    assert isclose(upper_tail(chosen, seen), exact, rel_tol=1e-9, abs_tol=1e-12)


def test_benjamini_and_hochbergs_own_example() -> None:
    chances = [
        0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719,
        0.6528, 0.7590, 1.0,
    ]  # fmt: skip
    rejected = [chance for chance, q in zip(chances, benjamini_hochberg(chances), strict=True) if q <= 0.05]
    assert rejected == chances[:4]
    assert benjamini_hochberg([]) == []


@pytest.mark.parametrize(
    ("count", "low", "high"),
    [(0, 0.0, 2.995732), (1, 0.051293, 4.743865), (10, 5.425406, 16.962219), (100, 84.139277, 118.079273)],
)
def test_poisson_intervals_are_garwoods(count: int, low: float, high: float) -> None:
    found = poisson_interval(count)
    assert isclose(found[0], low, abs_tol=1e-4)
    assert isclose(found[1], high, rel_tol=1e-5)


def test_known_values_of_gini_and_jain() -> None:
    assert gini([5, 5, 5]) == 0
    assert gini([0, 0, 0, 12]) == 0.75
    assert gini([1, 2, 3, 4]) == 0.25
    assert jain([5, 5, 5]) == 1
    assert jain([0, 0, 0, 12]) == 0.25
    assert gini([0, 0]) is None
    assert jain([]) is None
