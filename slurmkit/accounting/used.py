"""What a job used, as its steps tell it, as SQL: its own record knows no memory, and often no CPU time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmkit.accounting.parts import Query
from slurmkit.accounting.schema import ATTEMPT

if TYPE_CHECKING:
    from slurmkit.accounting.ledger import Ledger

OF_STEPS = """SELECT cluster, job_number, job_submit_time, job_start_time,
 max(max_rss) AS max_rss, max(memory_used) AS memory_used, sum(total_cpu) AS cpu_of_steps,
 max(gpus) AS most_gpus, sum(gpu_utilisation * elapsed) / 100 AS gpu_busy, max(gpu_memory) AS gpu_memory
 FROM steps {where} GROUP BY ALL"""

USED_CPU = "coalesce(nullif(total_cpu, 0), nullif(cpu_of_steps, 0))"
"""CPU-seconds. None at all means that nothing was gathered, as after a kill; nobody uses none."""

USED_MEMORY = "nullif(greatest(memory_used, max_rss), 0)"
"""Bytes of all tasks together where Slurm keeps that, else those of the largest task of any step."""

BUSY_GPUS = "gpu_busy / nullif(most_gpus * elapsed, 0)"
"""Fraction of the time of its GPUs; NULL where the site does not gather gres/gpuutil."""


def with_used(source: str, *, where: str = "") -> str:
    """A SELECT of the rows of `source`, which has the columns of jobs, with what their steps used.

    There are `used_cpu` (seconds), `used_memory` (bytes), `busy_gpus` (a fraction), `gpu_memory` (bytes) and
    `max_rss` (bytes of the largest task) beside; NULL is not known. `where` may leave out steps.
    """
    same = " AND ".join(
        f"used.{'job_' if name.endswith('_time') else ''}{name} IS NOT DISTINCT FROM job.{name}"
        for name in ATTEMPT
    )
    return (
        f"SELECT job.*, {USED_CPU} AS used_cpu, {USED_MEMORY} AS used_memory, {BUSY_GPUS} AS busy_gpus,"
        f" gpu_memory, max_rss FROM ({source}) job LEFT JOIN ({OF_STEPS.format(where=where)}) used ON {same}"
    )


def used_in(ledger: Ledger, cut: Query) -> Query:
    """The parts of jobs that `cut` selects, with what their steps used: no steps of older jobs are read."""
    first = ledger.connection.execute(f"SELECT min(start_time) FROM ({cut.sql})", cut.values).fetchall()[0][0]
    where = "WHERE job_start_time >= $first AND job_start_time < make_timestamptz($until)"
    return Query(with_used(cut.sql, where=where), cut.values | {"first": first})
