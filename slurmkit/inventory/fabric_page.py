"""A fabric check as text for the terminal, and as one HTML page."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.inventory.fabric_verdict import amount, number, outliers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from slurmkit.inventory.fabric import Fabric, Link
    from slurmkit.inventory.fabric_verdict import Finding

STEPS = (1.1, 1.3, 2.0, 4.0)
"""Times the median from which on a cell has the next colour."""
WIDEST = 12
"""Nodes whose matrix still fits a terminal."""
SLOWEST = 10


class Cell(NamedTuple):
    """One square of a heat map. `level` 0 is as usual, 4 the slowest, 5 without answer."""

    level: int
    text: str
    title: str


def bytes_text(count: int) -> str:
    """A size as people write it: 64 MiB."""
    power = min(max(count.bit_length() - 1, 0) // 10, 3)
    return f"{count / 1024**power:.4g} {('B', 'KiB', 'MiB', 'GiB')[power]}"


def headline(fabric: Fabric) -> str:
    """What was measured, with what, and why with nothing better."""
    how = {"nccl": "NCCL", "gloo": "gloo", "sockets": "plain TCP sockets"}[fabric.transport]
    with_torch = f" of torch {fabric.torch}" if fabric.torch else ""
    text = f"{len(fabric.nodes)} nodes, {fabric.ranks} ranks, over {how}{with_torch}"
    return f"{text} ({fabric.why})" if fabric.why else text


def lines(fabric: Fabric, found: Sequence[Finding]) -> Iterator[str]:
    """The whole check as text."""
    yield headline(fabric)
    if fabric.world:
        yield from ("", f"All-reduce over {fabric.ranks} ranks", *_world(fabric))
    if fabric.links:
        yield from (
            "",
            f"Bandwidth between nodes, GB/s at {bytes_text(fabric.pair_bytes)}; latency below, µs",
        )
        yield from _matrices(fabric) if len(fabric.nodes) <= WIDEST else _slowest(fabric.links)
    yield ""
    if found:
        yield from (f"- {one.sentence}" for one in found)
    elif len(fabric.links) < 3:
        yield "too few nodes to compare: nothing failed, and nothing can be called slow"
    else:
        yield f"no node and no path stands out among {len(fabric.links)} pairs"


def html(fabric: Fabric, found: Sequence[Finding], *, run: str) -> str:
    """One page that needs nothing else."""
    from slurmkit.templating import environment

    page = environment().get_template("reports/fabric.html.j2")
    started = datetime.fromtimestamp(fabric.started, UTC).strftime("%Y-%m-%d %H:%M UTC")
    # A file name or a node name may hold what is no text; a page must be UTF-8.
    made = page.render(
        fabric=fabric,
        found=found,
        run=run,
        started=started,
        headline=headline(fabric),
        maps=[
            (f"Bandwidth, GB/s at {bytes_text(fabric.pair_bytes)}", _cells(fabric, "bandwidth")),
            ("Latency, µs", _cells(fabric, "latency")),
        ],
        has_numbers=len(fabric.nodes) <= 24,
        steps=STEPS,
        size=bytes_text,
        amount=amount,
    )
    return made.encode("utf-8", "replace").decode()


def _world(fabric: Fabric) -> list[str]:
    rows = [("SIZE", "TIME µs", "GB/s", "BUS GB/s")]
    for one in fabric.world:
        algorithm, bus = (f"{value / 1e9:.3f}" for value in (one.algorithm_bandwidth, one.bus_bandwidth))
        rows.append((bytes_text(one.bytes), f"{one.seconds * 1e6:.1f}", algorithm, bus))
    return _aligned(rows)


def _matrices(fabric: Fabric) -> Iterator[str]:
    by_pair = _by_pair(fabric)
    for measure in ("bandwidth", "latency"):
        rows = [("", *fabric.nodes)]
        rows += [(a, *(_number(by_pair.get((a, b)), measure) for b in fabric.nodes)) for a in fabric.nodes]
        yield from _aligned(rows)
        if measure == "bandwidth":
            yield ""


def _slowest(links: Sequence[Link]) -> list[str]:
    by_time = sorted(links, key=lambda one: -(one.seconds or float("inf")))
    rows = [("NODES", "", "GB/s", "µs")]
    rows += [(*one.nodes, _number(one, "bandwidth"), _number(one, "latency")) for one in by_time[:SLOWEST]]
    return [*_aligned(rows), f"(the slowest of {len(links)} pairs)"]


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.rjust, row, widths)) for row in rows]


def _number(one: Link | None, measure: str) -> str:
    if one is None:
        return "·"
    if one.bandwidth is None or one.latency is None:
        return "none"
    return number(one.bandwidth / 1e9 if measure == "bandwidth" else one.latency * 1e6)


def _cells(fabric: Fabric, measure: str) -> list[tuple[str, list[Cell | None]]]:
    by_pair = _by_pair(fabric)
    times = {pair: one.seconds if measure == "bandwidth" else one.latency for pair, one in by_pair.items()}
    known = {one.nodes: value for one in fabric.links if (value := times[one.nodes]) is not None}
    usual = outliers(known, STEPS[1]).usual if known else 1.0

    def cell(a: str, b: str) -> Cell | None:
        one = by_pair.get((a, b))
        if one is None:
            return None
        value = times[a, b]
        if value is None:
            return Cell(len(STEPS) + 1, "none", f"{a} and {b}: {one.error}")
        text = amount(measure, value, fabric.pair_bytes)
        title = f"{a} and {b}: {text}, {value / usual:.2f} times the usual time"
        return Cell(sum(value > step * usual for step in STEPS), _number(one, measure), title)

    return [(a, [cell(a, b) for b in fabric.nodes]) for a in fabric.nodes]


def _by_pair(fabric: Fabric) -> Mapping[tuple[str, str], Link]:
    return {pair: one for one in fabric.links for pair in (one.nodes, one.nodes[::-1])}
