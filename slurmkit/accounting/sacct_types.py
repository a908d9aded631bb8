"""sacct's texts as typed columns, in SQL: what each text means, and which could not be read.

The texts come as a relation whose columns are sacct's fields in lower case; those that are missing are NULL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmkit.accounting.sacct_fields import USED
from slurmkit.accounting.schema import JOBS, STEPS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from duckdb import DuckDBPyConnection

    from slurmkit.accounting.schema import Column

NONE = "('', 'None', 'Unknown', '(null)', 'N/A', 'None assigned', 'INVALID', 'Not_Set')"
"""Words for nothing at all."""

A_DAY = 86400

MACROS = (
    f"said(x) AS CASE WHEN x IN {NONE} THEN NULL ELSE x END",
    "whole(x) AS nullif(nullif(TRY_CAST(x AS BIGINT), 4294967294), 4294967295)",
    # Epoch seconds, ISO 8601 with an offset, or local time of the dump's zone.
    "moment(x) AS coalesce(to_timestamp(nullif(nullif(nullif(TRY_CAST(x AS UINTEGER), 0), 4294967294), 4294967295)),"
    " CASE WHEN len(x) > 19 THEN TRY_CAST(x AS TIMESTAMPTZ)"
    " WHEN len(x) = 19 THEN timezone(getvariable('zone'), TRY_CAST(x AS TIMESTAMP)) END)",
    # days-hours:minutes:seconds, or minutes:seconds.milliseconds below an hour.
    "hours_of(x) AS CASE WHEN x = '' THEN 0 WHEN contains(x, '-') THEN TRY_CAST(split_part(x, '-', 1) AS BIGINT) * 24"
    " + TRY_CAST(split_part(x, '-', 2) AS BIGINT) ELSE TRY_CAST(x AS BIGINT) END",
    "seconds_of(x) AS CASE WHEN x IN ('UNLIMITED', 'INFINITE') THEN 'infinity'::DOUBLE"
    " WHEN contains(x, ':') THEN hours_of(split_part(x, ':', -3)) * 3600"
    " + TRY_CAST(split_part(x, ':', -2) AS BIGINT) * 60 + TRY_CAST(split_part(x, ':', -1) AS DOUBLE) END",
    # `bare` is what a number without a letter counts in.
    "unit(letter, bare) AS CASE letter WHEN 'K' THEN 1024::DOUBLE WHEN 'M' THEN 1048576 WHEN 'G' THEN 1073741824"
    " WHEN 'T' THEN 1099511627776 WHEN 'P' THEN 1125899906842624 WHEN 'E' THEN 1152921504606846976 ELSE bare END",
    "bytes_of(x, bare) AS TRY_CAST(TRY_CAST(rtrim(x, 'KMGTPE') AS DOUBLE) * unit(right(x, 1), bare) AS BIGINT)",
    "in_tres(t, name) AS nullif(split_part(split_part(',' || t, ',' || name || '=', 2), ',', 1), '')",
    "typed_gpus(t) AS CASE WHEN contains(t, 'gres/gpu:') THEN"
    r" list_sort(regexp_extract_all(t, '(?:^|,)gres/gpu:([^,]+=\d+)', 1)) ELSE [] END",
    r"gpu_sum(list) AS list_sum(list_transform(list, lambda x: regexp_extract(x, '(\d+)$', 1)::BIGINT))",
    # Old Slurm's own string of GRES: gpu:a100:2(S:0-1),gpu:2,gpu.
    r"old_gpus(g) AS list_sum(list_transform(list_filter(string_split(regexp_replace(g, '\([^)]*\)', '', 'g'), ','),"
    " lambda x: x = 'gpu' OR starts_with(x, 'gpu:')),"
    r" lambda x: coalesce(TRY_CAST(regexp_extract(x, ':(\d+)$', 1) AS BIGINT), 1)))",
    # Per node (n) and per CPU (c) in Slurm up to 20.11.
    "asked_memory(x, nodes, cpus) AS bytes_of(rtrim(x, 'nc'), 1048576)"
    " * CASE right(x, 1) WHEN 'n' THEN nodes WHEN 'c' THEN cpus ELSE 1 END",
    # 2^31 MiB is Slurm's mark for "per CPU".
    "unmarked(size, cpus) AS CASE WHEN size >= 2251799813685248 THEN (size - 2251799813685248) * cpus ELSE size END",
    "decimal_unit(letter) AS CASE letter WHEN 'K' THEN 1e3 WHEN 'M' THEN 1e6 WHEN 'G' THEN 1e9 WHEN 'T' THEN 1e12"
    " ELSE 1 END",
    "joules(raw, text) AS coalesce(nullif(whole(raw), 0),"
    " TRY_CAST(TRY_CAST(rtrim(text, 'KMGT') AS DOUBLE) * decimal_unit(right(text, 1)) AS BIGINT))",
    # The tasks of 12_[3-99%4], 41_[0,4,8], 188_[1-99:2].
    r"tasks_of(x) AS CASE WHEN contains(x, '-') THEN (TRY_CAST(regexp_extract(x, '-(\d+)', 1) AS BIGINT)"
    r" - TRY_CAST(regexp_extract(x, '^(\d+)', 1) AS BIGINT))"
    r" // coalesce(TRY_CAST(regexp_extract(x, ':(\d+)$', 1) AS BIGINT), 1) + 1 ELSE 1 END",
    "tasks_in(id) AS CASE WHEN contains(id, '[') THEN list_sum(list_transform(string_split("
    r"regexp_extract(id, '\[([^\]%]*)', 1), ','), lambda x: tasks_of(x))) ELSE 1 END",
)


def prepare(connection: DuckDBPyConnection, zone: str) -> None:
    """Teach a database what texts mean. `zone` is that of local times without an offset."""
    for macro in MACROS:
        connection.execute(f"CREATE OR REPLACE TEMP MACRO {macro}")
    connection.execute("SET VARIABLE zone = $zone", {"zone": zone})
    # Of a file it is not known how many rows it has: DuckDB would take it for few, and compare all with all.
    connection.execute("SET asof_loop_join_threshold = 0")


def _texts(raw: str, columns: Collection[str]) -> str:
    """The relation with every field that is used; NULL for those that it lacks."""
    made = [f'"{name}"' if name in columns else f'NULL::VARCHAR AS "{name}"' for name in USED]
    return f"(SELECT {', '.join(made)} FROM {raw})"


HAS_RUN = "said(nodelist) IS NOT NULL"
HAS_RUN_WITHOUT_NODES = "moment(start) IS NOT NULL AND (coalesce(seconds_run, 0) > 0 OR state = 'RUNNING')"
"""Where the dump does not tell nodes: a job that was cancelled while it waited has no elapsed time."""

FIRST = {
    "seconds_run": "coalesce(whole(elapsedraw), TRY_CAST(seconds_of(elapsed) AS BIGINT))",
    "halted": "coalesce(whole(suspended), TRY_CAST(seconds_of(suspended) AS BIGINT))",
    "limit_of": "coalesce(whole(timelimitraw) * 60.0, seconds_of(timelimitraw), seconds_of(timelimit))",
    "cpu_used": "seconds_of(totalcpu)",
    "submitted": "moment(submit)",
    "could": "moment(eligible)",
    "began": "moment(start)",
    "ended": 'moment("end")',
    "code": "whole(split_part(exitcode, ':', 1))",
    "by_signal": "whole(split_part(exitcode, ':', 2))",
    "cpus_of": "coalesce(whole(alloccpus), whole(in_tres(alloctres, 'cpu')))",
    "nodes_of": "coalesce(whole(nnodes), whole(in_tres(alloctres, 'node')))",
    "memory_of": "bytes_of(in_tres(alloctres, 'mem'), 1048576)",
    "gpu_list": "typed_gpus(alloctres)",
    "gpu_count": "whole(in_tres(alloctres, 'gres/gpu'))",
    "gres_count": "old_gpus(said(allocgres))",
    "asked_nodes": "coalesce(whole(reqnodes), whole(in_tres(reqtres, 'node')))",
    "asked_cpus": "coalesce(whole(reqcpus), whole(in_tres(reqtres, 'cpu')))",
    "rss": "bytes_of(maxrss, 1)",
}
"""What both tables are made of: each text is read once."""

SECOND = {
    "gpus_of": "coalesce(gpu_count, gpu_sum(gpu_list), gres_count, 0)",
    "asked": "asked_memory(said(reqmem), coalesce(asked_nodes, nodes_of), coalesce(asked_cpus, cpus_of))",
}


def _stages(raw: str, columns: Collection[str], condition: str) -> str:
    """The texts of a relation with what they say, in names of this module's own."""
    first = ", ".join(f"{sql} AS {name}" for name, sql in FIRST.items())
    second = ", ".join(f"{sql} AS {name}" for name, sql in SECOND.items())
    texts = f"(SELECT *, {first} FROM {_texts(raw, columns)} WHERE {condition})"
    return f"(SELECT *, {second} FROM {texts})"


def _ran(name: str) -> str:
    """A count of what was allocated: none to a job that never started."""
    return f"CASE WHEN has_run THEN {name} ELSE 0 END"


GPU_TYPE = (
    "CASE WHEN NOT has_run OR gpus_of = 0 THEN NULL"
    " WHEN len(gpu_list) = 0 THEN CASE WHEN gpu_count IS NULL THEN"
    r" regexp_extract(allocgres, 'gpu:([^:,()]*[^\d:,()][^:,()]*)', 1) ELSE '' END"
    " WHEN gpu_sum(gpu_list) < gpus_of"
    " THEN array_to_string(list_prepend('=' || (gpus_of - gpu_sum(gpu_list)), gpu_list), ',')"
    r" WHEN len(gpu_list) = 1 THEN regexp_replace(gpu_list[1], '=\d+$', '') ELSE array_to_string(gpu_list, ',') END"
)


def typed_jobs(raw: str, columns: Collection[str]) -> str:
    """A SELECT of the JOBS of a relation of texts."""
    has_run = HAS_RUN if "nodelist" in columns else HAS_RUN_WITHOUT_NODES
    base = (
        f"SELECT *, coalesce({has_run}, false) AS has_run, coalesce(halted, 0) AS paused,"
        " coalesce(seconds_run, greatest(date_diff('second', began, ended) - coalesce(halted, 0), 0), 0) AS ran"
        f" FROM {_stages(raw, columns, NOT_A_STEP)}"
    )
    known = "began + to_seconds(ran + paused)"
    made = COMMON | {
        "job_id": "jobid",
        "job_number": r"coalesce(whole(jobidraw), whole(regexp_extract(jobid, '^(\d+)', 1)))",
        "array_job": "CASE WHEN contains(jobid, '_') THEN whole(split_part(jobid, '_', 1)) END",
        "array_task": "CASE WHEN contains(jobid, '_')"
        " THEN whole(split_part(split_part(jobid, '_', 2), '+', 1)) END",
        "array_tasks": "coalesce(tasks_in(jobid), 1)",
        "het_job": r"CASE WHEN contains(jobid, '+') THEN whole(regexp_extract(jobid, '^(\d+)', 1)) END",
        "het_offset": "CASE WHEN contains(jobid, '+') THEN whole(split_part(jobid, '+', 2)) END",
        "user": 'said("user")',
        "uid": "whole(uid)",
        "account": "said(account)",
        "partition": 'said("partition")',
        "qos": "said(qos)",
        "submit_time": "submitted",
        "eligible_time": "could",
        "start_time": "CASE WHEN has_run THEN began END",
        "end_time": "ended",
        "until_time": "CASE WHEN NOT has_run THEN ended"
        f" WHEN ended IS NULL OR date_diff('second', began, ended) < ran THEN {known} ELSE ended END",
        "elapsed": _ran("ran"),
        "suspended": "paused",
        "time_limit": "limit_of",
        "nodes": _ran("nodes_of"),
        "node_list": "said(nodelist)",
        "cpus": _ran("cpus_of"),
        "memory": _ran("coalesce(unmarked(memory_of, cpus_of), unmarked(asked, cpus_of))"),
        "gpus": _ran("gpus_of"),
        "gpu_type": GPU_TYPE,
        "shards": _ran("coalesce(whole(in_tres(alloctres, 'gres/shard')), 0)"),
        "billing": _ran("whole(in_tres(alloctres, 'billing'))"),
        "requested_nodes": "asked_nodes",
        "requested_cpus": "asked_cpus",
        "requested_memory": "unmarked(coalesce(bytes_of(in_tres(reqtres, 'mem'), 1048576), asked), asked_cpus)",
        "requested_gpus": "coalesce(whole(in_tres(reqtres, 'gres/gpu')), gpu_sum(typed_gpus(reqtres)),"
        " old_gpus(said(reqgres)) * coalesce(asked_nodes, nodes_of, 1), 0)",
        "total_cpu": "CASE WHEN cpu_used > 0 OR ran < 10 THEN cpu_used END",
        "restarts": "whole(restarts)",
        "reason": "said(reason)",
        "comment": "said(comment)",
        "work_dir": "said(workdir)",
        "submit_line": "said(submitline)",
        "allocated_tres": "said(alloctres)",
        "is_final": "ended IS NOT NULL",
        "is_runaway": "coalesce(state = 'RUNNING' AND ended IS NULL AND isfinite(limit_of)"
        f" AND ran > limit_of + {A_DAY}, false)",
    }
    return _select(made, JOBS, f"({base})")


def typed_steps(raw: str, columns: Collection[str], jobs: str) -> str:
    """A SELECT of the STEPS; `jobs` is the relation of the same records' jobs.

    A step is of the last attempt of its job that began before it.
    """
    own = COMMON | {
        "job_id": "split_part(jobid, '.', 1)",
        "job_number": "coalesce(whole(split_part(jobidraw, '.', 1)),"
        r" whole(regexp_extract(jobid, '^(\d+)', 1)))",
        "step": "split_part(jobid, '.', 2)",
        "start_time": "began",
        "end_time": "ended",
        "elapsed": "seconds_run",
        "nodes": "nodes_of",
        "node_list": "said(nodelist)",
        "tasks": "whole(ntasks)",
        "cpus": "cpus_of",
        "gpus": "gpus_of",
        "max_rss": "rss",
        "memory_used": "bytes_of(in_tres(tresusageintot, 'mem'), 1)",
        "total_cpu": "coalesce(nullif(cpu_used, 0), seconds_of(in_tres(tresusageintot, 'cpu')))",
        "gpu_utilisation": "TRY_CAST(in_tres(tresusageintot, 'gres/gpuutil') AS DOUBLE)",
        "gpu_memory": "bytes_of(in_tres(tresusageintot, 'gres/gpumem'), 1)",
    }
    listed = ", ".join(f'{sql} AS "{name}"' for name, sql in own.items())
    steps = f"SELECT {listed} FROM {_stages(raw, columns, 'NOT ' + NOT_A_STEP)}"
    attempts = f"SELECT cluster, job_number, submit_time, start_time FROM {jobs}"
    named = {name: f's."{name}"' for name in own}
    named |= {"job_submit_time": "j.submit_time", "job_start_time": "j.start_time"}
    return _select(
        named,
        STEPS,
        f"(SELECT *, coalesce(start_time, end_time, now()) AS seen FROM ({steps})) s"
        f" ASOF LEFT JOIN (SELECT *, coalesce(start_time, to_timestamp(0)) AS since FROM ({attempts})) j"
        " ON s.cluster = j.cluster AND s.job_number = j.job_number AND s.seen >= j.since",
    )


def _select(made: Mapping[str, str], columns: Iterable[Column], source: str) -> str:
    listed = ", ".join(f'({made[column.name]})::{column.type} AS "{column.name}"' for column in columns)
    return f"SELECT {listed} FROM {source}"


NOT_A_STEP = "NOT contains(jobid, '.')"

_PARSED = (
    ("Submit", "submit", "submitted"),
    ("Eligible", "eligible", "could"),
    ("Start", "start", "began"),
    ("End", '"end"', "ended"),
    ("Elapsed", "elapsed", "seconds_run"),
    ("ElapsedRaw", "elapsedraw", "seconds_run"),
    ("Suspended", "suspended", "halted"),
    ("TotalCPU", "totalcpu", "cpu_used"),
    ("MaxRSS", "maxrss", "rss"),
    ("ReqMem", "reqmem", "bytes_of(rtrim(reqmem, 'nc'), 1)"),
    ("ExitCode", "exitcode", "by_signal"),
)
"""Fields whose text must mean something where there is one, and where that stands."""

_PROBLEMS = ", ".join(
    f"CASE WHEN {value} IS NULL AND said({text}) IS NOT NULL AND {text} <> '0' THEN '{name}=' || {text} END"
    for name, text, value in _PARSED
)

COMMON = {
    "cluster": "coalesce(said(cluster), '')",
    "state": "split_part(state, ' ', 1)",
    "cancelled_by": "CASE WHEN starts_with(state, 'CANCELLED by ') THEN substr(state, 14) END",
    "exit_code": "code",
    "exit_signal": "by_signal",
    "energy": "joules(consumedenergyraw, consumedenergy)",
    "name": "jobname",
    "problems": f"nullif(concat_ws('; ', {_PROBLEMS}), '')",
}
"""What jobs and steps have alike."""
