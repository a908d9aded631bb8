"""Why jobs failed, what it cost, which nodes are suspect, and how long jobs run between failures."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from slurmkit.accounting.ends import FAILED, NODE_DIED, WHO, end_of
from slurmkit.accounting.formats import hours
from slurmkit.accounting.frames import frame_of, with_none
from slurmkit.accounting.moments import END, at_moment
from slurmkit.accounting.parts import parts
from slurmkit.accounting.periods import GROUPED_BY_TIME
from slurmkit.accounting.report import Chart, Measure, Report, Table
from slurmkit.accounting.schema import OF_SUMS
from slurmkit.accounting.sizes import ALLOCATED, in_order, size_of
from slurmkit.accounting.statistics import poisson_interval
from slurmkit.accounting.suspects import RATE, TEST, suspects

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pandas import DataFrame

    from slurmkit.accounting.ledger import Ledger
    from slurmkit.accounting.question import Question

DAY = 86400
THOUSAND_NODE_DAYS = 1000 * DAY

HAS_ENDED = "start_time IS NOT NULL AND is_final"
END_COLUMNS = f"CASE WHEN is_final THEN state END AS ended, exit_code, exit_signal, {WHO} AS who"
ENDS = ("ended", "exit_code", "exit_signal", "who")

CAUSES = (
    Measure("failures", "failures", "count", "attempts that ended so in the window"),
    Measure("gpu_seconds", "GPU-hours lost", "hours", "all that such attempts held in the window"),
    Measure("cpu_seconds", "CPU-hours lost", "hours", "as GPU-hours"),
    Measure(
        "share", "share", "share", "of the GPU-hours of all jobs; of the CPU-hours where no GPU was used"
    ),
)
SIZES = (
    Measure("jobs", "jobs", "count", "attempts that ran in the window"),
    Measure("node_seconds", "node-hours", "hours", "nodes times the seconds that jobs of this size ran"),
    Measure(
        "node_failures",
        "node failures",
        "count",
        "attempts that Slurm ended for a node: NODE_FAIL, BOOT_FAIL",
    ),
    Measure("program_failures", "program failures", "count", "attempts that ended FAILED"),
    Measure("rate", "per 1000 node-days", "ratio", "node failures in a thousand days of one node"),
    Measure("mttf", "MTTF", "duration", "run time of jobs of this size for one node failure"),
    Measure("mttf_low", "at least", "duration", "the true one is between these two, at 90 %"),
    Measure("mttf_high", "at most", "duration", "unlimited where none failed"),
    Measure(
        "mttf_expected", "expected", "duration", "what the rate of all sizes together makes of this size"
    ),
)
NODES = (
    Measure("jobs", "jobs", "count", "attempts that ran there and ended in the window"),
    Measure("failed", "failed", "count", "of those: ended NODE_FAIL, BOOT_FAIL or FAILED"),
    Measure("node_failures", "node failures", "count", "of those: ended NODE_FAIL or BOOT_FAIL"),
    Measure("expected", "expected", "ratio", "how many of the same work's would have, were all nodes alike"),
    Measure("p_value", "p", "ratio", f"chance alone gives as many or more; {TEST}"),
    Measure("q_value", "q", "ratio", "p for as many nodes as were looked at (Benjamini-Hochberg)"),
    Measure("suspect", "suspect", "text", f"yes where q is at most {RATE:g}"),
)


def _causes(ledger: Ledger, question: Question) -> DataFrame:
    from pandas import DataFrame

    held, ends = parts(ledger, question), at_moment(ledger, question, END, HAS_ENDED)
    by = [f'"{name}"' for name in question.by]
    columns = ", ".join([*by, END_COLUMNS])
    sql = (
        f"SELECT {', '.join([*by, *ENDS])}, sum(failures)::BIGINT, sum(gpu)::BIGINT, sum(cpu)::BIGINT FROM ("
        f"SELECT {columns}, 0 AS failures, coalesce(gpus, 0) * seconds AS gpu,"
        f" coalesce(cpus, 0) * seconds AS cpu FROM ({held.sql})"
        f" UNION ALL SELECT {columns}, 1, 0, 0 FROM ({ends.sql})) GROUP BY ALL"
    )
    rows = ledger.connection.execute(sql, held.values | ends.values).fetchall()
    summed: dict[tuple[object, ...], list[int]] = {}
    for row in rows:
        group, end = row[: len(by)], row[len(by) : -3]
        cause = end_of(*end) if end[0] is not None else None
        if cause:
            sums = summed.setdefault((*group, *cause), [0, 0, 0])
            sums[:] = (one + more for one, more in zip(sums, row[-3:], strict=True))
    names = [*question.by, "kind", "cause", "failures", "gpu_seconds", "cpu_seconds"]
    frame = DataFrame([(*key, *sums) for key, sums in summed.items()], columns=names)
    frame = with_none(frame, question.by).astype(dict.fromkeys(names[-3:], "int64"))
    whole = {"gpu_seconds": sum(row[-2] for row in rows), "cpu_seconds": sum(row[-1] for row in rows)}
    column = "gpu_seconds" if whole["gpu_seconds"] else "cpu_seconds"
    frame["share"] = frame[column] / (whole[column] or float("nan"))
    by_time = [name for name in question.by if name in GROUPED_BY_TIME]
    order = [*by_time, "gpu_seconds", "cpu_seconds", "failures", "cause"]
    rising = [name in (*by_time, "cause") for name in order]
    return frame.sort_values(order, ascending=rising, ignore_index=True, kind="stable")


def _sizes(ledger: Ledger, question: Question) -> DataFrame:
    from pandas import Series

    asked = replace(question, by=())
    held, ends = parts(ledger, asked), at_moment(ledger, asked, END, HAS_ENDED)
    size = f"{size_of(*ALLOCATED)} AS size"
    sql = (
        "SELECT size, sum(jobs)::BIGINT AS jobs, sum(node_seconds)::BIGINT AS node_seconds,"
        " sum(node_failures)::BIGINT AS node_failures, sum(program_failures)::BIGINT AS program_failures,"
        f" sum(seconds)::BIGINT AS seconds FROM (SELECT {size}, counts AS jobs,"
        f" nodes * seconds AS node_seconds, 0 AS node_failures, 0 AS program_failures, seconds"
        f" FROM ({held.sql}) UNION ALL"
        f" SELECT {size}, 0, 0, {NODE_DIED}::INTEGER, {FAILED}::INTEGER, 0 FROM ({ends.sql}))"
        f" GROUP BY size ORDER BY {in_order('size')}"
    )
    frame = frame_of(ledger, sql, held.values | ends.values, texts=("size",))
    for name, values in _rates(frame).items():
        frame[name] = Series(values, index=frame.index, dtype="float64")
    return frame[["size", *(measure.name for measure in SIZES)]]


def _rates(frame: DataFrame) -> dict[str, list[float | None]]:
    """Rates and mean times to failure of sizes, from their sums."""
    node_seconds, failures = int(frame["node_seconds"].sum()), int(frame["node_failures"].sum())
    made: dict[str, list[float | None]] = {name: [] for name in (one.name for one in SIZES[4:])}
    for held, seen, seconds in zip(
        frame["node_seconds"], frame["node_failures"], frame["seconds"], strict=True
    ):
        fewest, most = poisson_interval(int(seen))
        made["rate"].append(seen * THOUSAND_NODE_DAYS / held if held else None)
        made["mttf"].append(seconds / seen if seen else None)
        made["mttf_low"].append(seconds / most)
        made["mttf_high"].append(seconds / fewest if fewest else float("inf"))
        expected = node_seconds / failures * seconds / held if failures and held else None
        made["mttf_expected"].append(expected)
    return made


def stands_out(frames: Mapping[str, DataFrame]) -> Sequence[str]:
    """What cost most, which nodes are suspect, and the rate of node failures."""
    said = []
    if (causes := frames.get("failures")) is not None:
        said += _dearest(causes)
    if (nodes := frames.get("nodes")) is not None and len(nodes):
        names = list(nodes[nodes["suspect"] == "yes"]["node"])
        said.append(
            f"Suspect: {', '.join(names)}. Jobs failed there more often than on other nodes ({TEST})."
            if names
            else f"No node's failures are too many for chance ({TEST})."
        )
    if (sizes := frames.get("sizes")) is not None and (held := int(sizes["node_seconds"].sum())):
        count = int(sizes["node_failures"].sum())
        low, high = (bound * THOUSAND_NODE_DAYS / held for bound in poisson_interval(count))
        said.append(
            f"{count:,} node failures in {held / DAY:,.0f} node-days:"
            f" {count * THOUSAND_NODE_DAYS / held:.3g} per thousand (90 %: {low:.3g} to {high:.3g})."
        )
    return said


def _dearest(causes: DataFrame) -> list[str]:
    if causes.empty:
        return ["No job failed in this time."]
    column = "gpu_seconds" if causes["gpu_seconds"].sum() else "cpu_seconds"
    sums = causes.groupby("cause")[[column, "share", "failures"]].sum().sort_values(column, kind="stable")
    words = "GPU" if column == "gpu_seconds" else "CPU"
    top = sums.iloc[-1]
    return [
        f"Dearest: {sums.index[-1]}, {hours(top[column])} {words}-hours in {int(top['failures']):,}"
        f" attempts, {top['share']:.1%} of all {words}-hours."
    ]


REPORT = Report(
    name="failures",
    summary="Why jobs failed, what it cost, and the nodes that are suspect.",
    tables=(
        Table(
            "failures",
            "Why attempts ended",
            CAUSES,
            _causes,
            keys=(
                Measure("kind", "kind", "text", "as `slurmkit status` names the kinds of ends"),
                Measure("cause", "cause", "text", "what accounting alone can say"),
            ),
            chart=Chart("bars", "cause", ("gpu_seconds",)),
        ),
        Table(
            "nodes",
            "Nodes whose jobs failed, the least likely by chance first",
            NODES,
            suspects,
            is_grouped=False,
            keys=(
                Measure("cluster", "cluster", "text", "cluster"),
                Measure("node", "node", "text", "node"),
            ),
        ),
        Table(
            "sizes",
            "Time to failure by size",
            SIZES,
            _sizes,
            is_grouped=False,
            keys=(Measure("size", "size", "text", "GPUs of the job, or nodes where it has no GPU"),),
        ),
    ),
    columns=OF_SUMS,
    stands_out=stands_out,
    explanation=(
        "An end counts once, where it happened; hours count where they were spent, and all that an attempt "
        "held counts, as accounting knows no checkpoints. Who cancelled a job is known where the records "
        "have its user's number. A node is suspect where jobs failed on it more often than the same work "
        f"(user, name without digits, size) did elsewhere: {TEST}; {RATE:.0%} of those named may be false."
    ),
)
