"""The measurements of `slurmkit fabric-check`: rank 0 orders them, every rank obeys.

Python 3.8 and the standard library.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any

from slurmkit.inventory.fabric_schedule import fitting, packed, rounds, sizes

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping, Sequence

    from slurmkit.inventory.fabric_schedule import Pair

PINGS, BATCHES = 20, 5
"""Of the batches the fastest counts: a host that was busy for a moment is no fault of the network."""
AGAIN_SECONDS, AGAIN_LATENCY = 1.2, 1.5
"""So many times the median, and a pair is measured once more: most of what is slow once is chance."""


def timed(action: Callable[[], None], repeats: int) -> float:
    """The median time in seconds."""
    found = []
    for _ in range(repeats):
        before = time.perf_counter()
        action()
        found.append(time.perf_counter() - before)
    return statistics.median(found)


def obey(order: Mapping[str, Any], transport: Any, rank: int) -> dict[str, Any]:  # noqa: ANN401
    """Do what rank 0 says; what came of it."""
    size, repeats = order.get("bytes", 0), order.get("repeats", 1)
    peer, pair_repeats = order.get("partners", {}).get(str(rank), (None, 0))
    found: dict[str, Any] = {}
    try:
        if order["do"] == "all-reduce":
            return {"seconds": timed(lambda: transport.all_reduce(size), repeats)}
        if order["do"] == "check":
            return {"right": transport.adds_up()}
        if peer is None:
            return {}
        if order["do"] == "meet":
            transport.meet(peer)
            transport.ping(peer)
            pair_repeats = 1
        elif not pair_repeats:
            raise ConnectionError("the other side has failed")
        else:
            found["latency"] = min(timed(lambda: transport.ping(peer), PINGS) for _ in range(BATCHES)) / 2
        found["seconds"] = timed(lambda: transport.swap(peer, size), pair_repeats)
    except (OSError, RuntimeError) as error:
        transport.part()
        return {"error": (str(error) or type(error).__name__).splitlines()[0]}
    return found


def measure_world(ask: Callable[..., list[Any]], options: argparse.Namespace) -> tuple[list[Any], str | None]:
    """All-reduce over all ranks at each size: the slowest rank's median; and what went wrong, if anything."""
    found: list[Any] = []
    for size in sizes(options.largest):
        repeats = 1
        for wanted in (1, options.repeats):  # the first time warms up, and tells how long one takes
            answers = ask("all-reduce", bytes=size, repeats=min(wanted, repeats))
            failed = [answer["error"] for answer in answers if "error" in answer]
            if failed:
                return found, failed[0]
            seconds = max(answer["seconds"] for answer in answers)
            repeats = fitting(options.repeats, seconds)
        found.append({"bytes": size, "seconds": seconds})
    return found, None


def measure_pairs(
    ask: Callable[..., list[Any]],
    pairs: Sequence[Pair],
    on_nodes: Sequence[Sequence[int]],
    options: Any,  # noqa: ANN401
) -> list[dict[str, Any]]:
    """Disjoint pairs of nodes at the same time: each rank with its like on the other node."""
    lanes = min(map(len, on_nodes))
    couples = [(on_nodes[a][lane], on_nodes[b][lane]) for a, b in pairs for lane in range(lanes)]
    partners = {str(rank): (peer, 1) for a, b in couples for rank, peer in ((a, b), (b, a))}
    met = ask("meet", bytes=options.pair_bytes, partners=partners)
    for a, b in couples:
        failed = "error" in met[a] or "error" in met[b]
        count = 0 if failed else fitting(options.repeats, max(met[a]["seconds"], met[b]["seconds"]))
        partners[str(a)], partners[str(b)] = (b, count), (a, count)
    told = ask("pair", bytes=options.pair_bytes, partners=partners)
    found = []
    for pair in pairs:
        members = [(lane, rank) for lane in range(lanes) for rank in (on_nodes[node][lane] for node in pair)]
        errors = [one["error"] for _, rank in members for one in (met[rank], told[rank]) if "error" in one]
        result: dict[str, Any] = {"nodes": list(pair), "error": errors[0] if errors else None}
        for name in ("latency", "seconds"):
            result[name] = None if errors else max(told[rank][name] for _, rank in members)
        result["lane"] = None if errors else max(members, key=lambda one: told[one[1]]["seconds"])[0]
        found.append(result)
    return found


def worth_another(found: Sequence[Mapping[str, Any]]) -> list[Pair]:
    """The pairs to measure again: those that failed, and those well beyond the median."""
    whole = [one for one in found if one["error"] is None]
    limits = {
        name: factor * statistics.median_low([one[name] for one in whole]) if whole else 0.0
        for name, factor in (("seconds", AGAIN_SECONDS), ("latency", AGAIN_LATENCY))
    }
    return [
        (one["nodes"][0], one["nodes"][1])
        for one in found
        if one["error"] is not None or any(one[name] > limit for name, limit in limits.items())
    ]


def better(first: dict[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Of two measurements of a pair, the faster value of each."""
    if second["error"] is not None:
        return first
    if first["error"] is not None:
        return dict(second)
    faster = min((first, second), key=lambda one: one["seconds"])
    return {**faster, "latency": min(first["latency"], second["latency"])}


def lead(
    ask: Callable[..., list[Any]],
    save: Callable[[Mapping[str, Any]], None],
    result: dict[str, Any],
    on_nodes: Sequence[Sequence[int]],
    options: argparse.Namespace,
) -> None:
    """All measurements in their order; the result grows, and is on disk before each step."""
    if result["ranks"] > 1:
        save(result)
        result["world"], result["world_error"] = measure_world(ask, options)
        if result["transport"] != "sockets" and result["world_error"] is None:
            result["adds_up"] = all(answer.get("right") for answer in ask("check"))
    found: dict[Pair, dict[str, Any]] = {}
    for number, pairs in enumerate(rounds(len(on_nodes))):
        save({**result, "measuring": pairs})
        for one in measure_pairs(ask, pairs, on_nodes, options):
            found[one["nodes"][0], one["nodes"][1]] = {**one, "round": number, "again": False}
        result["pairs"] = list(found.values())
    for pairs in packed(worth_another(result["pairs"])):
        save({**result, "measuring": pairs})
        for one in measure_pairs(ask, pairs, on_nodes, options):
            pair = (one["nodes"][0], one["nodes"][1])
            found[pair] = {"round": found[pair]["round"], **better(found[pair], one), "again": True}
    save({**result, "pairs": list(found.values()), "complete": True, "ended": time.time()})
