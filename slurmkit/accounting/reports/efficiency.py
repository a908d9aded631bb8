"""What was asked for and not used: CPUs, memory, time, GPUs; the worst jobs, and what would have done."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from slurmkit.accounting.advice import ADVICE
from slurmkit.accounting.formats import records
from slurmkit.accounting.frames import frame_of
from slurmkit.accounting.parts import Query, parts
from slurmkit.accounting.periods import GROUPED_BY_TIME
from slurmkit.accounting.report import Chart, Measure, Report, Table
from slurmkit.accounting.used import used_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pandas import DataFrame

    from slurmkit.accounting.ledger import Ledger
    from slurmkit.accounting.question import Question

WORST = 20
"""Jobs that are listed where the question sets no limit."""

MEASURES = (
    Measure("jobs", "jobs", "count", "attempts that ran in the window"),
    Measure("gpu_seconds", "GPU-hours", "hours", "GPUs allocated, times the seconds"),
    Measure("gpu_used_seconds", "GPU busy", "hours", "of those, the ones in which GPUs computed"),
    Measure("gpu_efficiency", "GPU", "share", "busy, of the GPU-hours that were measured; gres/gpuutil"),
    Measure("cpu_seconds", "CPU-hours", "hours", "CPUs allocated, times the seconds"),
    Measure("cpu_used_seconds", "CPU used", "hours", "CPU time of the jobs that have one"),
    Measure("cpu_efficiency", "CPU", "share", "CPU time, of the CPU-hours of the jobs that have one"),
    Measure("cpu_not_measured", "CPU n/a", "count", "jobs without CPU time: killed, or not gathered"),
    Measure(
        "memory_efficiency", "memory", "share", "most that was used at once, of what was allocated, by time"
    ),
    Measure("memory_not_measured", "memory n/a", "count", "jobs of whose memory accounting knows nothing"),
    Measure(
        "time_efficiency", "time", "share", "time that ended jobs took, of the limits that they asked for"
    ),
)

WORST_KEYS = (
    Measure("job_id", "job", "text", "job id"),
    Measure("user", "user", "text", "user"),
    Measure("account", "account", "text", "account"),
    Measure("name", "name", "text", "name of the job"),
)
WORST_MEASURES = (
    Measure("state", "state", "text", "state"),
    Measure("elapsed", "elapsed", "duration", "seconds in the window"),
    Measure("gpus", "GPUs", "count", "GPUs allocated"),
    Measure("cpus", "CPUs", "count", "CPUs allocated"),
    Measure("gpu_efficiency", "GPU", "share", "of the time of its GPUs"),
    Measure("cpu_efficiency", "CPU", "share", "of the time of its CPUs"),
    Measure("memory_efficiency", "memory", "share", "of its memory"),
    Measure("gpu_wasted_seconds", "GPU-hours idle", "hours", "GPU-hours in which they did not compute"),
    Measure("cpu_wasted_seconds", "CPU-hours idle", "hours", "CPU-hours in which they did not compute"),
)

PART = "seconds / greatest(elapsed, 1)"
"""Which part of a job lies in the row; what it used is spread evenly."""

SPENT = """SELECT *, gpus * seconds AS held_gpu, cpus * seconds AS held_cpu, cpus > 0 AS is_first,
 round(busy_gpus * gpus * seconds)::BIGINT AS used_gpu_seconds,
 round(used_cpu * {part})::BIGINT AS used_cpu_seconds FROM ({used})"""


def _spent(ledger: Ledger, question: Question) -> Query:
    """The parts of jobs with what they used of CPUs and GPUs in them."""
    used = used_in(ledger, parts(ledger, question))
    return Query(SPENT.format(part=PART, used=used.sql), used.values)


def build(ledger: Ledger, question: Question) -> DataFrame:
    """The table of groups; the dearest first."""
    spent = _spent(ledger, question)
    keys = [f'"{name}"' for name in question.by]
    by_time = [f'"{name}"' for name in question.by if name in GROUPED_BY_TIME]
    has_limit = "counts = 1 AND is_final AND isfinite(time_limit) AND time_limit > 0"
    has_memory = "used_memory IS NOT NULL AND memory > 0"
    sums = {
        "jobs": "coalesce(sum(counts), 0)::BIGINT",
        "gpu_seconds": "coalesce(sum(held_gpu), 0)::BIGINT",
        "gpu_used_seconds": "sum(used_gpu_seconds)::BIGINT",
        "gpu_efficiency": "sum(used_gpu_seconds) / nullif(sum(held_gpu) FILTER (busy_gpus IS NOT NULL), 0)",
        "cpu_seconds": "coalesce(sum(held_cpu), 0)::BIGINT",
        "cpu_used_seconds": "sum(used_cpu_seconds) FILTER (is_first)::BIGINT",
        "cpu_efficiency": "cpu_used_seconds / nullif(sum(held_cpu) FILTER (used_cpu IS NOT NULL), 0)",
        "cpu_not_measured": "coalesce(sum(counts) FILTER (used_cpu IS NULL), 0)::BIGINT",
        "memory_efficiency": f"sum(used_memory::DOUBLE * seconds) FILTER ({has_memory})"
        f" / nullif(sum(memory::DOUBLE * seconds) FILTER ({has_memory}), 0)",
        "memory_not_measured": "coalesce(sum(counts) FILTER (used_memory IS NULL), 0)::BIGINT",
        "time_efficiency": f"sum(elapsed) FILTER ({has_limit}) / sum(time_limit) FILTER ({has_limit})",
    }
    columns = ", ".join([*keys, *(f"{value} AS {name}" for name, value in sums.items())])
    order = ", ".join([*by_time, "gpu_seconds DESC", "cpu_seconds DESC", "jobs DESC", *keys])
    group = f"GROUP BY {', '.join(keys)}" if keys else ""
    sql = f"SELECT {columns} FROM ({spent.sql}) {group} ORDER BY {order}"
    return frame_of(ledger, sql, spent.values, texts=question.by)


def build_worst(ledger: Ledger, question: Question) -> DataFrame:
    """The jobs that held most without using it: GPUs where they were measured, then CPUs."""
    spent = _spent(ledger, replace(question, by=()))
    sql = f"""SELECT job_id, "user", account, name, state, seconds AS elapsed, gpus, cpus,
 busy_gpus AS gpu_efficiency, used_cpu / nullif(cpus * elapsed, 0) AS cpu_efficiency,
 used_memory / nullif(memory, 0) AS memory_efficiency,
 greatest(held_gpu - used_gpu_seconds, 0) AS gpu_wasted_seconds,
 greatest(held_cpu - used_cpu_seconds, 0) AS cpu_wasted_seconds
 FROM ({spent.sql}) WHERE held_cpu > used_cpu_seconds OR held_gpu > used_gpu_seconds
 ORDER BY gpu_wasted_seconds DESC NULLS LAST, cpu_wasted_seconds DESC NULLS LAST, job_number
 LIMIT {question.limit or WORST}"""
    return frame_of(ledger, sql, spent.values, texts=("job_id", "user", "account", "name", "state"))


def stands_out(frames: Mapping[str, DataFrame]) -> Sequence[str]:
    """How well things were used, and what cannot be told."""
    said = []
    rows = records(frames["efficiency"]) if "efficiency" in frames else []
    if any(row["gpu_seconds"] for row in rows):
        if all(row["gpu_efficiency"] is None for row in rows):
            said.append("How busy GPUs were is not known: the site does not store gres/gpuutil.")
        else:
            measured = [row for row in rows if row["gpu_efficiency"]]
            held = sum(row["gpu_used_seconds"] / row["gpu_efficiency"] for row in measured)
            busy = sum(row["gpu_used_seconds"] for row in measured)
            said.append(f"GPUs were busy {busy / held if held else 0:.1%} of the hours that were measured.")
    if missing := sum(row["cpu_not_measured"] for row in rows):
        jobs = sum(row["jobs"] for row in rows)
        said.append(f"{missing:,} of {jobs:,} jobs have no CPU time in accounting: not in the CPU figures.")
    worst = records(frames["worst"]) if "worst" in frames else []
    if worst:
        row = worst[0]
        kind = "GPU" if row["gpu_wasted_seconds"] else "CPU"
        hours = row[f"{kind.lower()}_wasted_seconds"] / 3600
        said.append(f"Job {row['job_id']} of {row['user']} left {hours:,.1f} {kind}-hours unused.")
    said += [f"{row['user']}, {row['name']}: {row['advice']}." for row in _first_advice(frames)]
    return said


def _first_advice(frames: Mapping[str, DataFrame]) -> list[dict[str, Any]]:
    return records(frames["advice"].head(1)) if "advice" in frames else []


REPORT = Report(
    name="efficiency",
    summary="What was asked for and not used, and by how much less would have done.",
    tables=(
        Table(
            "efficiency",
            "Used, of what was held",
            MEASURES,
            build,
            chart=Chart("bars", "", ("gpu_efficiency", "cpu_efficiency", "memory_efficiency")),
        ),
        Table(
            "worst",
            "Jobs that left most unused",
            WORST_MEASURES,
            build_worst,
            is_grouped=False,
            keys=WORST_KEYS,
        ),
        ADVICE,
    ),
    stands_out=stands_out,
    default_by=("user",),
    explanation=(
        "CPU is CPU time over CPUs times elapsed time; memory the most that was used at once over what was "
        "allocated, as Slurm sampled it: peaks between two samples are missed. Jobs without a figure are "
        "counted as n/a and left out of the share, for a killed job often has none. GPUs only where the site "
        "gathers gres/gpuutil. Advice looks at COMPLETED jobs alone, adds a quarter of headroom, and cannot "
        "see short bursts of CPU use."
    ),
)
