"""One line for each job: used against asked. Arrays, heterogeneous jobs and requeues are one line each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slurmkit.accounting.formats import records
from slurmkit.accounting.frames import frame_of
from slurmkit.accounting.parts import chosen, micro, window_of
from slurmkit.accounting.report import Measure, Report, Table
from slurmkit.accounting.used import with_used
from slurmkit.slurm.states import JobState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pandas import DataFrame

    from slurmkit.accounting.ledger import Ledger
    from slurmkit.accounting.question import Question

LINES = 50
"""Jobs that are listed where the question sets no limit."""

KEYS = (
    Measure("job_id", "job", "text", "job id; the number of the array or of the heterogeneous job"),
    Measure("user", "user", "text", "user"),
    Measure("account", "account", "text", "account"),
    Measure("partition", "partition", "text", "partition"),
    Measure("name", "name", "text", "name"),
)
MEASURES = (
    Measure("state", "state", "text", "of the last start; of an array, how many tasks are in which"),
    Measure("exit", "exit", "text", "exit code, and signal after a colon; the worst of an array's tasks"),
    Measure("starts", "starts", "count", "attempts that ran: more than its tasks where it was requeued"),
    Measure("submit_time", "submitted", "time", "first submitted"),
    Measure("elapsed", "elapsed", "duration", "seconds, over all starts and tasks"),
    Measure("time_limit", "limit", "duration", "of one start"),
    Measure("nodes", "nodes", "count", "of the last start; of a heterogeneous job in all"),
    Measure("cpus", "CPUs", "count", "as nodes"),
    Measure("gpus", "GPUs", "count", "as nodes"),
    Measure("cpu_efficiency", "CPU", "share", "CPU time, of CPUs times elapsed time"),
    Measure("gpu_efficiency", "GPU", "share", "time in which GPUs computed; where the site stores it"),
    Measure("memory_efficiency", "memory", "share", "most that was used at once, of what was allocated"),
    Measure("max_memory", "most used", "memory", "bytes of all tasks of a start, where Slurm stores that"),
    Measure("gpu_seconds", "GPU-hours", "hours", "GPUs allocated, times the seconds"),
    Measure("cpu_seconds", "CPU-hours", "hours", "CPUs allocated, times the seconds"),
)

WHOLE = "coalesce(array_job, het_job, job_number)"
"""What makes attempts one line."""

TOUCHING = """{chosen} AND coalesce(start_time, submit_time) < make_timestamptz($until)
 AND coalesce(until_time, end_time, submit_time) >= make_timestamptz($since)"""
"""Attempts that touch the window, those among them that wait, or were cancelled before they started."""

TOP = """SELECT cluster, {whole} AS whole,
 CASE WHEN count(submit_time) = count(*) THEN min(submit_time) END AS first FROM jobs WHERE {touching}
 GROUP BY ALL ORDER BY max(submit_time) DESC, whole DESC LIMIT {limit}"""
"""The lines that are shown: of no others are the attempts put together."""

PICKED = """SELECT jobs.*, {whole} AS whole FROM jobs SEMI JOIN
 (SELECT unnest($clusters) AS cluster, unnest($wholes) AS whole) shown
 ON jobs.cluster = shown.cluster AND {whole} = shown.whole WHERE {touching}"""

OF_PICKED = "WHERE job_number IN (SELECT job_number FROM picked)"

TASKS = """SELECT cluster, whole, job_number, any_value("user") AS "user",
 arg_max({row}, (submit_time, coalesce(start_time, submit_time))) AS last,
 min(submit_time) AS submitted, max(submit_time) AS last_submitted,
 count(start_time) AS starts, sum(elapsed) AS elapsed,
 sum(cpus * elapsed) AS held_cpu, sum(gpus * elapsed) AS held_gpu, sum(used_cpu) AS used_cpu,
 sum(cpus * elapsed) FILTER (used_cpu IS NOT NULL) AS measured_cpu,
 sum(busy_gpus * gpus * elapsed) AS used_gpu,
 sum(gpus * elapsed) FILTER (busy_gpus IS NOT NULL) AS measured_gpu,
 max(used_memory) AS max_memory, max(used_memory / nullif(memory, 0)) AS memory_efficiency
 FROM ({used}) GROUP BY cluster, whole, job_number"""
"""Attempts put together by the number that Slurm gave: one row for each task and component."""

ROW = """{'job_id': job_id, 'state': state, 'exit_code': exit_code, 'exit_signal': exit_signal,
 'het_job': het_job, 'account': account, 'partition': "partition", 'name': name,
 'time_limit': time_limit, 'nodes': nodes, 'cpus': cpus, 'gpus': gpus, 'array_tasks': array_tasks}"""

LINE = """SELECT cluster, any_value("user") AS "user", any_value(last.account) AS account,
 any_value(last.partition) AS "partition", any_value(last.name) AS name,
 any_value(last.job_id) AS one_id, whole,
 bool_or(last.het_job IS NOT NULL) AS is_het,
 list({{'state': last.state, 'tasks': last.array_tasks, 'code': last.exit_code, 'signal': last.exit_signal}})
 AS ends,
 sum(starts)::BIGINT AS starts, min(submitted) AS submit_time, sum(elapsed)::BIGINT AS elapsed,
 max(last.time_limit) AS time_limit, {nodes}
 sum(used_cpu) / nullif(sum(measured_cpu), 0) AS cpu_efficiency,
 sum(used_gpu) / nullif(sum(measured_gpu), 0) AS gpu_efficiency,
 max(memory_efficiency) AS memory_efficiency, max(max_memory) AS max_memory,
 sum(held_gpu)::BIGINT AS gpu_seconds, sum(held_cpu)::BIGINT AS cpu_seconds
 FROM ({tasks}) GROUP BY cluster, whole ORDER BY max(last_submitted) DESC, whole DESC"""

OF_HET = "CASE WHEN is_het THEN sum(last.{name}) ELSE max(last.{name}) END::BIGINT AS {name},"


def build(ledger: Ledger, question: Question) -> DataFrame:
    """The lines, the last submitted first."""
    span, condition = window_of(ledger, question), chosen(question)
    wanted = condition.sql
    if question.jobs:  # one component stands for all of its heterogeneous job
        wanted = f"({wanted} OR het_job IN (SELECT het_job FROM jobs WHERE {wanted}))"
    touching = TOUCHING.format(chosen=wanted)
    # What ended with the last moment of an open window is inside.
    values = condition.values | {"since": micro(span.since), "until": micro(span.until) + 1_000_000}
    top = TOP.format(whole=WHOLE, touching=touching, limit=question.limit or LINES)
    shown = ledger.connection.execute(top, values).fetchall()
    clusters, wholes, firsts = zip(*shown, strict=True) if shown else ((), (), ())
    values |= {"clusters": list(clusters), "wholes": list(wholes)}
    if shown and all(firsts):  # said of the bare column, so that most of a store is not read
        values["first"] = min(firsts)
        touching += " AND submit_time >= $first"
    each = LINE.format(
        nodes=" ".join(OF_HET.format(name=name) for name in ("nodes", "cpus", "gpus")),
        tasks=TASKS.format(row=ROW, used=with_used("FROM picked", where=OF_PICKED)),
    )
    sql = f"WITH picked AS MATERIALIZED ({PICKED.format(whole=WHOLE, touching=touching)}) {each}"
    frame = frame_of(ledger, sql, values, texts=("user", "account", "partition", "name"))
    lines: list[dict[Any, Any]] = frame.to_dict("records")
    made: dict[str, list[Any]] = {
        "job_id": [line["one_id"] if len(line["ends"]) == 1 else str(line["whole"]) for line in lines],
        "state": [state_of(line["ends"], is_het=line["is_het"]) for line in lines],
        "exit": [exit_of(line["ends"]) for line in lines],
    }
    return frame.assign(**made)[[measure.name for measure in (*KEYS, *MEASURES)]]


def state_of(ends: Sequence[Mapping[str, Any]], *, is_het: bool) -> str:
    """The states of a job's tasks in words: 97 COMPLETED, 3 FAILED; of components, the worst speaks."""
    counts: dict[str, int] = {}
    for end in ends:
        counts[end["state"]] = counts.get(end["state"], 0) + (end["tasks"] or 1)
    if is_het:
        return max(counts, key=lambda word: JobState.parse(word).severity)
    if len(ends) == 1 and counts[ends[0]["state"]] == 1:
        return str(ends[0]["state"])
    return ", ".join(
        f"{count:,} {word}" for word, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    )


def exit_of(ends: Sequence[Mapping[str, Any]]) -> str | None:
    """The worst exit of a job's tasks, as Slurm writes it; None where none has ended."""
    known = [(end["signal"] or 0, end["code"] or 0) for end in ends if end["code"] is not None]
    if not known:
        return None
    signal, code = max(known, key=lambda one: (any(one), one))
    return f"{code}:{signal}" if signal else str(code)


def stands_out(frames: Mapping[str, DataFrame]) -> Sequence[str]:
    """What of the lines a reader should not miss."""
    lines = records(frames["jobs"])
    if not lines:
        return ["No job ran, waited or ended in this time."]
    idle = [line for line in lines if line["gpus"] and line["gpu_efficiency"] == 0]
    return [f"Job {line['job_id']} held {line['gpus']} GPUs that never computed." for line in idle]


REPORT = Report(
    name="jobs",
    summary="One line for each job: used against asked.",
    tables=(Table("jobs", "Jobs", MEASURES, build, is_grouped=False, keys=KEYS),),
    stands_out=stands_out,
    explanation=(
        "All jobs that ran, waited or ended in the window, the last submitted first; a start that lies "
        "partly outside counts whole. An array is one line, as is a heterogeneous job, and a job that was "
        "requeued with all its starts. A dash is what accounting does not know."
    ),
)
