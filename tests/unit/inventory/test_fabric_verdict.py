from __future__ import annotations

import math
import random
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest

from slurmkit.inventory.fabric import Fabric, Link, from_json
from slurmkit.inventory.fabric_measure import better, worth_another
from slurmkit.inventory.fabric_verdict import Finding, and_list, findings, number, outliers

if TYPE_CHECKING:
    from collections.abc import Callable

SIZE = 16 << 20
USUAL = 0.01


def measured(
    count: int, slowness: Callable[[int, int], float], *, noise: float = 0.0, seed: int = 0
) -> dict[str, Any]:
    """What the program writes of a fabric with known faults and lognormal noise: measured as it measures."""
    chance = random.Random(seed)

    def once(a: int, b: int) -> dict[str, Any]:
        factor = slowness(a, b)
        seconds, latency = (value * factor * math.exp(chance.gauss(0, noise)) for value in (USUAL, 20e-6))
        return {"nodes": [a, b], "seconds": seconds, "latency": latency, "error": None, "lane": 0}

    found = {pair: once(*pair) for pair in combinations(range(count), 2)}
    for pair in worth_another(list(found.values())):
        found[pair] = better(found[pair], once(*pair))
    return {
        "format": 1,
        "started": 0.0,
        "complete": True,
        "transport": "sockets",
        "why": "",
        "torch": None,
        "nodes": [f"n{node}" for node in range(count)],
        "ranks": count,
        "lanes": 1,
        "pair_bytes": SIZE,
        "measuring": [],
        "world": [{"bytes": 1024, "seconds": 0.001}],
        "world_error": None,
        "adds_up": None,
        "pairs": [{**one, "round": 0, "again": False} for one in found.values()],
    }


def even(a: int, b: int) -> float:
    return 1.0


def node_at(*slow: int, factor: float = 4.0) -> Callable[[int, int], float]:
    return lambda a, b: factor if {a, b} & {*slow} else 1.0


def path_at(*slow: tuple[int, int], factor: float = 4.0) -> Callable[[int, int], float]:
    return lambda a, b: factor if (a, b) in slow else 1.0


def behind(*members: int, factor: float = 4.0) -> Callable[[int, int], float]:
    return lambda a, b: factor if ((a in members) != (b in members)) else 1.0


def named(found: tuple[Finding, ...]) -> list[tuple[str, str]]:
    return [(one.kind, " ".join(one.nodes)) for one in found]


@pytest.mark.parametrize("noise", [0.0, 0.05, 0.1])
@pytest.mark.parametrize(
    ("count", "slowness", "expected"),
    [
        (2, even, []),
        (3, even, []),
        (8, even, []),
        (3, node_at(1), [("slow-node", "n1")]),
        (4, node_at(0), [("slow-node", "n0")]),
        (5, node_at(1, 4), [("slow-node", "n1"), ("slow-node", "n4")]),
        (9, node_at(8), [("slow-node", "n8")]),
        (4, path_at((1, 3)), [("slow-path", "n1 n3")]),
        (4, path_at((0, 1), (0, 2)), [("slow-path", "n0 n1"), ("slow-path", "n0 n2")]),
        (8, path_at((2, 5)), [("slow-path", "n2 n5")]),
        (8, behind(6, 7), [("slow-group", "n6 n7")]),
        (12, behind(0, 1, 2), [("slow-group", "n0 n1 n2")]),
        (33, node_at(7), [("slow-node", "n7")]),
    ],
)
def test_the_fault_is_named_and_nothing_else(
    count: int, slowness: Callable[[int, int], float], expected: list[tuple[str, str]], noise: float
) -> None:
    found = findings(from_json(measured(count, slowness, noise=noise, seed=count)))
    assert sorted(named(found)) == expected


def test_a_slow_path_beside_a_slow_node_is_named_too() -> None:
    def slowness(a: int, b: int) -> float:
        return node_at(3)(a, b) * path_at((0, 1), factor=2.5)(a, b)

    found = findings(from_json(measured(8, slowness, noise=0.05)))
    assert named(found) == [("slow-node", "n3"), ("slow-path", "n0 n1")]


def test_false_alarms_are_rare_and_faults_are_found_over_many_fabrics() -> None:
    """1000 even fabrics of 4 to 16 nodes, times scattered by 5 %; as many with one node at half speed."""
    alarms = missed = 0
    for seed in range(1000):
        count = 4 + seed % 13
        alarms += bool(findings(from_json(measured(count, even, noise=0.05, seed=seed))))
        at = seed % count
        faulty = findings(from_json(measured(count, node_at(at, factor=2.0), noise=0.05, seed=seed)))
        missed += named(faulty) != [("slow-node", f"n{at}")]
    assert (alarms, missed) == (0, 0)


def test_much_noise_raises_the_limit_instead_of_the_alarm() -> None:
    alarms = sum(bool(findings(from_json(measured(16, even, noise=0.3, seed=seed)))) for seed in range(200))
    assert alarms <= 2


def test_sentences_give_the_amount_the_usual_and_what_to_look_at() -> None:
    (found,) = findings(from_json(measured(4, path_at((1, 2)))))
    assert found.sentence == (
        "the path between n1 and n2 is slow: 0.419 GB/s where 1.68 GB/s is usual, 4.0 times slower. "
        "Neither is so with most others: look at what lies between these two"
    )
    assert (found.measure, round(found.factor or 0, 6)) == ("bandwidth", 4.0)


def test_latency_alone_is_a_finding_of_its_own() -> None:
    data = measured(5, even)
    for one in data["pairs"]:
        one["latency"] *= 5 if one["nodes"] == [0, 4] else 1
    (found,) = findings(from_json(data))
    assert (found.kind, found.nodes, found.measure) == ("slow-path", ("n0", "n4"), "latency")
    assert "100 µs where 20 µs is usual" in found.sentence


def dead(data: dict[str, Any], *pairs: list[int]) -> Fabric:
    for one in data["pairs"]:
        if one["nodes"] in pairs:
            one |= {"seconds": None, "latency": None, "lane": None, "error": "no answer within 60 s"}
    return from_json(data)


def test_a_path_without_answer_is_named() -> None:
    (found,) = findings(dead(measured(4, even), [1, 3]))
    assert (found.kind, found.nodes) == ("dead-path", ("n1", "n3"))
    assert "no answer within 60 s" in found.sentence


@pytest.mark.parametrize("count", [3, 5])
def test_a_node_that_answers_nobody_is_named_once(count: int) -> None:
    pairs = [[other, count - 1] for other in range(count - 1)]
    (found,) = findings(dead(measured(count, even), *pairs))
    assert (found.kind, found.nodes) == ("dead-node", (f"n{count - 1}",))


def test_two_nodes_that_answer_nobody_are_both_named() -> None:
    pairs = [[a, b] for a, b in combinations(range(5), 2) if {a, b} & {1, 2}]
    assert named(findings(dead(measured(5, even), *pairs))) == [("dead-node", "n1"), ("dead-node", "n2")]


def test_what_broke_the_check_is_a_finding() -> None:
    data = measured(3, even) | {"adds_up": False, "world_error": "no answer", "complete": False}
    found = findings(from_json({**data, "measuring": [[0, 2]]}))
    assert [one.kind for one in found] == ["wrong-sum", "all-reduce", "unfinished"]
    assert "n0-n2" in found[-1].sentence


def test_a_fabric_with_several_paths_missing_is_judged_by_the_rest() -> None:
    times = {("a", "b"): 1.0, ("a", "c"): 1.0, ("b", "c"): 5.0, ("d", "e"): 1.0}
    ((pair, factor),) = outliers(times, 1.3).paths
    assert (pair, round(factor, 6)) == (("b", "c"), 5.0)


def test_bandwidths_are_of_bytes_and_the_bus_carries_more() -> None:
    fabric = from_json(measured(4, even))
    (size,) = fabric.world
    assert (size.algorithm_bandwidth, size.bus_bandwidth) == (1024000.0, 1536000.0)
    assert isinstance(fabric.links[0], Link)
    assert fabric.links[0].bandwidth == SIZE / USUAL


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], ""),
        (["a"], "a"),
        (["a", "b"], "a and b"),
        (["a", "b", "c"], "a, b and c"),
        (list("abcdefghijk"), "a, b, c, d, e, f, g and 4 more"),
    ],
)
def test_names_are_listed_as_in_a_sentence(names: list[str], expected: str) -> None:
    assert and_list(names) == expected


def test_a_few_microseconds_are_no_finding() -> None:
    data = measured(5, even)
    for one in data["pairs"]:
        one["latency"] = 2e-6 * (6 if one["nodes"] == [0, 4] else 1)
    assert findings(from_json(data)) == ()


@pytest.mark.parametrize(
    ("value", "expected"), [(2071.3, "2071"), (12.345, "12.3"), (0.1964, "0.196"), (0.0000125, "0.000013")]
)
def test_numbers_have_three_digits_and_no_exponent(value: float, expected: str) -> None:
    assert number(value) == expected
