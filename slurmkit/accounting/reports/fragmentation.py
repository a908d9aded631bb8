"""GPUs that were idle while jobs waited for GPUs, and how far the idle ones were scattered over nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmkit.accounting.formats import hours
from slurmkit.accounting.report import Chart, Measure, Report, Table
from slurmkit.accounting.schema import OF_SUMS
from slurmkit.accounting.timeline import MARGIN, slot_sizes, timeline

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pandas import DataFrame, Series

    from slurmkit.accounting.ledger import Ledger
    from slurmkit.accounting.question import Question
    from slurmkit.accounting.timeline import Timeline

NOTABLE = 0.01
"""Of a pool's GPU-hours, idle while jobs waited, that are worth a sentence."""

HOURS = (
    Measure("capacity_seconds", "GPU-hours there", "hours", "GPUs of all nodes, times the window"),
    Measure("used_seconds", "held", "hours", "of those, held by jobs, suspended ones too"),
    Measure("idle_seconds", "idle", "hours", "of those, held by none"),
    Measure("asked_seconds", "asked", "hours", "GPUs that eligible jobs waited for, times their wait"),
    Measure(
        "idle_while_waiting", "idle while waiting", "hours", "the smaller of idle and asked, every second"
    ),
    Measure("share", "share", "share", "of the GPU-hours there: idle while jobs waited"),
)
SLOTS = (
    Measure("possible", "possible", "ratio", "slots that all idle GPUs together would have made, on average"),
    Measure("made", "made", "ratio", "slots that they made, each on one node, on average over the window"),
    Measure(
        "fragmentation", "fragmentation", "share", "1 - made / possible: lost to GPUs in the wrong places"
    ),
)
MEASURES = (
    Measure("nodes", "nodes", "count", "nodes on which jobs held GPUs"),
    Measure("gpus", "GPUs", "count", "the most that jobs held at once on each node, summed"),
    *HOURS,
    *(
        one._replace(name=f"whole_{one.name}", title=title, meaning=f"of whole nodes: {one.meaning}")
        for one, title in zip(
            SLOTS, ("whole nodes possible", "whole nodes made", "fragmentation"), strict=True
        )
    ),
)
KEYS = (
    Measure("cluster", "cluster", "text", "cluster"),
    Measure("partition", "partition", "text", "partition, or those that have nodes in common"),
    Measure("gpu_type", "GPU type", "text", "type of the nodes' GPUs"),
)


def _pools(ledger: Ledger, question: Question) -> DataFrame:
    """The table by pools."""
    swept = timeline(ledger, question)
    sums = swept.periods.groupby("pool", as_index=False).sum(numeric_only=True)
    frame = _with_hours(swept.pools.merge(sums, on="pool", how="left"))
    slots = _slots_of(swept)
    slots = slots[slots["gpus_each"] == slots["largest"]].set_index("pool")
    for name in (measure.name for measure in SLOTS):
        frame[f"whole_{name}"] = frame["pool"].map(slots[name]).astype("float64")
    return frame[[measure.name for measure in (*KEYS, *MEASURES)]]


def _slots(ledger: Ledger, question: Question) -> DataFrame:
    """The table by pools and sizes of slots."""
    frame = _slots_of(timeline(ledger, question))
    return frame[[*(key.name for key in KEYS), "gpus_each", *(measure.name for measure in SLOTS)]]


def _periods(ledger: Ledger, question: Question) -> DataFrame:
    """The table by days, or weeks or months where those are asked for, of all pools together."""
    swept = timeline(ledger, question)
    frame = swept.periods.merge(swept.pools[["pool", "gpus"]], on="pool")
    frame = _with_hours(frame)[["period", *(measure.name for measure in HOURS)]]
    summed = frame.groupby("period", as_index=False, sort=True).sum()
    summed["share"] = _fraction(summed["idle_while_waiting"], summed["capacity_seconds"])
    return summed


def _with_hours(frame: DataFrame) -> DataFrame:
    """The sums of `HOURS`, from those of the timeline."""
    capacity = frame["gpus"] * frame["seconds"]
    made = {
        "capacity_seconds": capacity,
        "used_seconds": frame["used"],
        "idle_seconds": capacity - frame["used"],
        "asked_seconds": frame["asked"],
        "share": _fraction(frame["idle_while_waiting"], capacity),
    }
    return frame.assign(**made)


def _fraction(part: Series, whole: Series) -> Series:
    return (part / whole.where(whole > 0)).astype("float64")


def _slots_of(swept: Timeline) -> DataFrame:
    """Slots of each size that fits a pool's largest node, averaged over the window."""
    from pandas import DataFrame

    rows = []
    sizes = slot_sizes(swept.pools["largest"].tolist())
    sums = swept.periods.groupby("pool").sum(numeric_only=True)
    for pool in swept.pools.to_dict("records"):
        levels = swept.levels[swept.levels["pool"] == pool["pool"]]
        for size in (one for one in sizes if one <= pool["largest"]):
            seconds = int(sums["seconds"][pool["pool"]])
            possible = int(sums[f"slots_{size}"][pool["pool"]])
            made = int(((levels["capacity"] - levels["used"]) // size * levels["seconds"]).sum())
            lost = 1 - made / possible if possible else None
            row = {"gpus_each": size, "possible": possible / seconds, "made": made / seconds}
            rows.append(pool | row | {"fragmentation": lost})
    names = ["pool", *(key.name for key in KEYS), "largest", "gpus_each", *(one.name for one in SLOTS)]
    return DataFrame(rows, columns=names).astype({"fragmentation": "float64"})


def stands_out(frames: Mapping[str, DataFrame]) -> Sequence[str]:
    """Where GPUs were idle while jobs waited, and how capacity is known."""
    pools = frames.get("fragmentation")
    if pools is None:
        return []
    if not pools["gpus"].sum():
        return ["No job held a GPU in this time."]
    said = []
    for pool in pools[pools["share"] >= NOTABLE].to_dict("records"):
        kind = f" ({pool['gpu_type']})" if pool["gpu_type"] else ""
        said.append(
            f"{pool['partition']}{kind}: {hours(pool['idle_while_waiting'])} GPU-hours idle while jobs"
            f" waited for GPUs, {pool['share']:.1%} of all; on average {pool['whole_made']:,.1f} whole nodes"
            f" were free, and idle GPUs for {pool['whole_possible']:,.1f}."
        )
    if lost := int(pools[pools["gpus"] == 0]["asked_seconds"].sum()):
        said.append(
            f"{hours(lost)} GPU-hours of waiting are of jobs whose type of GPU or nodes the records do"
            " not say: not compared with idle GPUs."
        )
    said.append("A node's GPUs are the most that jobs held there at once: what never ran is not counted.")
    return said


REPORT = Report(
    name="fragmentation",
    summary="GPUs that were idle while jobs waited.",
    tables=(
        Table(
            "fragmentation",
            "GPUs idle while jobs waited",
            MEASURES,
            _pools,
            is_grouped=False,
            keys=KEYS,
            chart=Chart("bars", "partition", ("idle_while_waiting", "idle_seconds")),
        ),
        Table(
            "slots",
            "Slots of idle GPUs",
            SLOTS,
            _slots,
            is_grouped=False,
            keys=(*KEYS, Measure("gpus_each", "GPUs each", "count", "GPUs of a slot, all on one node")),
        ),
        Table(
            "periods",
            "Over time",
            HOURS,
            _periods,
            is_grouped=False,
            keys=(Measure("period", "period", "text", "day; week or month where grouped by them"),),
            chart=Chart("lines", "period", ("idle_while_waiting", "idle_seconds")),
        ),
    ),
    columns=OF_SUMS,
    stands_out=stands_out,
    explanation=(
        "Exact to the second, from starts, ends and node lists. Accounting does not know how many GPUs a "
        "node has: the most that jobs held there at once counts, in the window and "
        f"{MARGIN // 86400} days around it. Nodes that are down look idle. Waiting are eligible jobs; a "
        "choice of users or the like says whose wait counts, while GPUs are held by anybody. A job over "
        "several nodes holds its GPUs in equal parts."
    ),
)
