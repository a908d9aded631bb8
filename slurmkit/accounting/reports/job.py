"""Everything about one job: each of its attempts, and each of their steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmkit.accounting.frames import frame_of
from slurmkit.accounting.parts import chosen
from slurmkit.accounting.report import Measure, Report, Table
from slurmkit.accounting.runs import TAG
from slurmkit.accounting.used import with_used

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pandas import DataFrame

    from slurmkit.accounting.ledger import Ledger
    from slurmkit.accounting.question import Question

ATTEMPTS = (
    Measure("state", "state", "text", "state"),
    Measure("exit", "exit", "text", "exit code, and signal after a colon"),
    Measure("cancelled_by", "cancelled by", "text", "who cancelled it"),
    Measure("submit_time", "submitted", "time", "submitted, or requeued"),
    Measure("eligible_time", "eligible", "time", "nothing but resources and priority held it since"),
    Measure("start_time", "started", "time", "started"),
    Measure("end_time", "ended", "time", "ended"),
    Measure("wait", "waited", "duration", "from eligible to started"),
    Measure("elapsed", "elapsed", "duration", "without the time suspended"),
    Measure("time_limit", "limit", "duration", "time limit"),
    Measure("node_list", "nodes", "text", "nodes"),
    Measure("cpus", "CPUs", "count", "CPUs allocated"),
    Measure("memory", "memory", "memory", "bytes allocated"),
    Measure("gpus", "GPUs", "count", "GPUs allocated"),
    Measure("cpu_efficiency", "CPU", "share", "CPU time, of CPUs times elapsed time"),
    Measure("max_memory", "most used", "memory", "bytes of all tasks at once, where Slurm stores that"),
    Measure("gpu_efficiency", "GPU", "share", "time in which GPUs computed; where the site stores it"),
    Measure("gpu_seconds", "GPU-hours", "hours", "GPUs times the seconds"),
    Measure("reason", "reason", "text", "what it last waited for"),
    Measure("run", "run", "text", "the run of slurmkit that it is of, and +2 of its second submit"),
)
STEPS = (
    Measure("state", "state", "text", "state"),
    Measure("exit", "exit", "text", "exit code, and signal after a colon"),
    Measure("start_time", "started", "time", "started"),
    Measure("elapsed", "elapsed", "duration", "seconds"),
    Measure("tasks", "tasks", "count", "tasks"),
    Measure("node_list", "nodes", "text", "nodes"),
    Measure("max_rss", "largest task", "memory", "bytes of its largest task"),
    Measure("memory_used", "all tasks", "memory", "bytes of all its tasks at most"),
    Measure("total_cpu", "CPU time", "duration", "CPU-seconds used"),
    Measure("name", "name", "text", "name"),
)
JOB = Measure("job_id", "job", "text", "job id")
KEYS = (JOB, *(Measure(name, name, "text", name) for name in ("user", "account", "partition", "qos", "name")))
STEP_KEYS = (JOB, Measure("step", "step", "text", "batch, extern, or the step's number"))

EXIT = (
    "CASE WHEN exit_code IS NULL THEN NULL WHEN coalesce(exit_signal, 0) = 0 THEN exit_code::VARCHAR"
    " ELSE exit_code || ':' || exit_signal END AS exit"
)
OF_THE_JOB = "job_number IN (SELECT job_number FROM jobs WHERE {chosen})"


def attempts(ledger: Ledger, question: Question) -> DataFrame:
    """One row for each start that Slurm made of the job, and one for a wait that came to nothing."""
    condition = chosen(question)
    of_the_job = f"WHERE {OF_THE_JOB.format(chosen=condition.sql)}"
    used = with_used(f"SELECT * FROM jobs WHERE {condition.sql}", where=of_the_job)
    sql = (
        f"SELECT *, {EXIT}, {TAG} AS run, date_diff('second', eligible_time, start_time) AS wait,"
        " used_memory AS max_memory, used_cpu / nullif(cpus * elapsed, 0) AS cpu_efficiency,"
        f" busy_gpus AS gpu_efficiency, gpus * elapsed AS gpu_seconds FROM ({used})"
        " ORDER BY job_number, submit_time, start_time"
    )
    return _frame(ledger, f"SELECT {_names(KEYS, ATTEMPTS)} FROM ({sql})", condition.values, KEYS, ATTEMPTS)


def steps(ledger: Ledger, question: Question) -> DataFrame:
    """One row for each step of each attempt, in the order in which they began."""
    condition = chosen(question)
    sql = (
        f"SELECT *, {EXIT} FROM steps WHERE {OF_THE_JOB.format(chosen=condition.sql)}"
        " ORDER BY job_number, job_submit_time, start_time, try_cast(step AS BIGINT) NULLS FIRST, step"
    )
    names = _names(STEP_KEYS, STEPS)
    return _frame(ledger, f"SELECT {names} FROM ({sql})", condition.values, STEP_KEYS, STEPS)


def _names(*columns: Sequence[Measure]) -> str:
    return ", ".join(f'"{column.name}"' for group in columns for column in group)


def _frame(ledger: Ledger, sql: str, values: Mapping[str, object], *columns: Sequence[Measure]) -> DataFrame:
    texts = [column.name for group in columns for column in group if column.kind == "text"]
    return frame_of(ledger, sql, values, texts=texts)


def stands_out(frames: Mapping[str, DataFrame]) -> Sequence[str]:
    """That there is no such job, or how often it was started."""
    if "attempts" not in frames:
        return []
    found = frames["attempts"]
    if found.empty:
        return ["The records have no such job."]
    starts = found.groupby("job_id", sort=False)["start_time"].count()
    return [f"Job {job} was started {count} times." for job, count in starts.items() if count > 1]


REPORT = Report(
    name="job",
    summary="Everything about one job.",
    tables=(
        Table("attempts", "Attempts", ATTEMPTS, attempts, is_grouped=False, keys=KEYS),
        Table("steps", "Steps", STEPS, steps, is_grouped=False, keys=STEP_KEYS),
    ),
    stands_out=stands_out,
    explanation="All that the records have of the job, whenever it was: no window cuts it.",
)
