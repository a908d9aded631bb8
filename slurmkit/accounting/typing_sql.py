"""sacct's texts as the columns of JOBS and STEPS: SELECTs over the stages of `sql_stages`.

A field that could not be read is NULL and stands in `problems`.
"""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING

from slurmkit.accounting import sql_values as sql
from slurmkit.accounting.schema import JOBS, STEPS
from slurmkit.accounting.sql_stages import (
    NO_NODES,
    Texts,
    asked_memory,
    first,
    late,
    memory,
    problems,
    stages,
)
from slurmkit.slurm.ids import LARGEST_TASK
from slurmkit.slurm.states import JOB_STATES

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import tzinfo

    from slurmkit.accounting.schema import Column

A_DAY = 86_400

FINAL = tuple(state.name for state in JOB_STATES if state.kind == "final")
OVER_WITH_AN_END = ("PREEMPTED", "NODE_FAIL")
"""They are also said of a job that is about to start again."""
OPEN = tuple(
    state.name
    for state in JOB_STATES
    if state.kind in {"pending", "running", "ending"}
    and not state.name.startswith(("REQUEUE", "RESIZING", "SPECIAL_EXIT"))
)


_SAID = (
    ("user", "user", sql.word),
    ("account", "account", sql.word),
    ("partition", "partition", sql.word),
    ("qos", "qos", sql.word),
    ("reason", "reason", sql.word),
    ("comment", "comment", sql.free),
    ("work_dir", "workdir", sql.free),
    ("submit_line", "submitline", sql.free),
    ("allocated_tres", "alloctres", sql.free),
)
"""Columns that are a field's text."""


def typed_jobs(
    raw: str,
    fields: Collection[str],
    *,
    zone: tzinfo = UTC,
    only: Collection[str] | None = None,
    signs: Mapping[str, str] | None = None,
    known: str = "",
) -> str:
    """A SELECT of JOBS, or of its columns that are named in `only`, from the rows of jobs in `raw`.

    `raw` is a relation whose columns are sacct's `fields` in lower case, all of them text. Times without an
    offset are read in `zone`. `signs` are further columns, by name, made of the texts. `known` is a table
    that `resources_once` made, whatever rows it has.
    """
    made = _job_columns(fields) | dict(signs or {})
    return _select(JOBS, made, _jobs_of(raw), Texts(fields, zone, known), only)


def typed_steps(
    raw: str, fields: Collection[str], *, zone: tzinfo = UTC, only: Collection[str] | None = None
) -> str:
    """A SELECT of STEPS. `raw` numbers its rows in `line`: a step is of its job's last row before it."""
    texts = Texts(fields, zone)
    job = _job_columns(fields)
    attempts = (
        f"SELECT line AS job_line, jobid AS job_text, {_cluster(fields)} AS job_cluster,"
        f" {job['submit_time']} AS job_submit_time, {job['start_time']} AS job_start_time"
        f" FROM {stages(_jobs_of(raw), texts)}"
    )
    steps = f"SELECT *, split_part(jobid, '.', 1) AS of_job FROM {raw} WHERE contains(jobid, '.')"
    rows = (
        f"(SELECT * FROM ({steps}) s ASOF LEFT JOIN ({attempts}) j ON s.of_job = j.job_text"
        f" AND {_cluster(fields, 's.')} = j.job_cluster AND s.line > j.job_line)"
    )
    return _select(STEPS, _step_columns(fields), rows, texts, only)


def _jobs_of(raw: str) -> str:
    return f"(SELECT * FROM {raw} WHERE NOT contains(jobid, '.'))"


def _cluster(fields: Collection[str], of: str = "") -> str:
    return f"{of}cluster" if "cluster" in fields else "''"


def _select(
    table: tuple[Column, ...],
    made: Mapping[str, str],
    rows: str,
    texts: Texts,
    only: Collection[str] | None,
) -> str:
    wanted = [column for column in table if only is None or column.name in only]
    named = {column.name for column in table}
    listed = [
        f'CAST({made[one.name]} AS {one.type}) AS "{one.name}"' for one in wanted if one.name != "problems"
    ]
    if len(listed) < len(wanted):
        listed.append(f"{problems(listed, texts)} AS problems")
    listed += [f"{text} AS {name}" for name, text in made.items() if name not in named]
    return f"SELECT {', '.join(listed)} FROM {stages(rows, texts)}"


def _ran(text: str) -> str:
    """None of it to a job that never started."""
    return f"CASE WHEN d_ran THEN {text} ELSE 0 END"


def _own_number(fields: Collection[str], job: str) -> str:
    """JobIDRaw. Where the dump lacks it, tasks of arrays get a negative number that tells them apart."""
    head = f"try_cast(regexp_extract({job}, '^\\d+') AS BIGINT)"
    task = f"try_cast(split_part({job}, '_', 2) AS BIGINT)"
    # Components of a heterogeneous job are numbered one after the other.
    offset = f"coalesce(try_cast(nullif(split_part({job}, '+', 2), '') AS BIGINT), 0)"
    of_task = f"-({head} * {LARGEST_TASK + 2} + {task} + 1)"
    made = f"CASE WHEN {task} IS NOT NULL THEN {of_task} ELSE {head} + {offset} END"
    return first([("jobidraw", "try_cast(split_part(jobidraw, '.', 1) AS BIGINT)"), ("jobid", made)], fields)


def _shared(fields: Collection[str]) -> dict[str, str]:
    """Columns that jobs and steps make in the same way."""
    return {
        "cluster": sql.word("cluster") if "cluster" in fields else "NULL",
        "state": "nullif(d_state, '')",
        "cancelled_by": "CASE WHEN starts_with(state, 'CANCELLED by ') THEN substr(state, 14) END"
        if "state" in fields
        else "NULL",
        "exit_code": "a_exitcode" if "exitcode" in fields else "NULL",
        "exit_signal": "a_signal" if "exitcode" in fields else "NULL",
        "node_list": f"CASE WHEN nodelist IN {NO_NODES} THEN NULL ELSE nodelist END"
        if "nodelist" in fields
        else "NULL",
        "nodes": first(
            [
                ("allocnodes", "a_allocnodes"),
                ("nnodes", "a_nnodes"),
                ("alloctres", late("alloctres", "node")),
            ],
            fields,
        ),
        "cpus": first([("alloccpus", "a_alloccpus"), ("alloctres", late("alloctres", "cpu"))], fields),
        "gpus": "a_gpu",
        # Nothing computes for nothing: zero stands where no energy was gathered.
        "energy": first(
            [
                ("consumedenergyraw", "nullif(a_consumedenergyraw, 0)"),
                ("consumedenergy", "nullif(a_consumedenergy, 0)"),
            ],
            fields,
        ),
        "name": "jobname" if "jobname" in fields else "NULL",
    }  # fmt: skip


def _job_columns(fields: Collection[str]) -> dict[str, str]:
    shared = _shared(fields)
    said = {name: reader(f'"{field}"') if field in fields else "NULL" for name, field, reader in _SAID}
    final = f"d_state IN {FINAL} AND (d_end IS NOT NULL OR d_state NOT IN {OVER_WITH_AN_END})"
    return {
        **shared,
        **said,
        "cluster": f"coalesce({shared['cluster']}, '')",
        "job_id": "jobid",
        "job_number": _own_number(fields, "jobid"),
        "array_job": "CASE WHEN contains(jobid, '_') THEN try_cast(split_part(jobid, '_', 1) AS BIGINT) END",
        "array_task": "CASE WHEN contains(jobid, '_') THEN try_cast(split_part(jobid, '_', 2) AS BIGINT) END",
        "array_tasks": sql.array_tasks("jobid"),
        "het_job": "CASE WHEN contains(jobid, '+') THEN try_cast(split_part(jobid, '+', 1) AS BIGINT) END",
        "het_offset": "CASE WHEN contains(jobid, '+') THEN try_cast(split_part(jobid, '+', 2) AS BIGINT) END",
        "uid": "a_uid" if "uid" in fields else "NULL",
        "submit_time": "a_submit" if "submit" in fields else "NULL",
        "eligible_time": "a_eligible" if "eligible" in fields else "NULL",
        "start_time": "d_start",
        "end_time": "CASE WHEN d_odd AND d_end < d_start THEN d_until ELSE d_end END",
        "until_time": "d_until",
        "elapsed": "d_elapsed",
        "suspended": "d_suspended",
        "time_limit": _limit(fields),
        "nodes": _ran(shared["nodes"]),
        "cpus": _ran(shared["cpus"]),
        "memory": _ran(memory(fields)),
        "gpus": _ran("a_gpu"),
        "gpu_type": "CASE WHEN d_ran AND a_gpu > 0 THEN a_gpu_type END",
        "shards": _ran("a_shard"),
        "billing": _ran("a_billing"),
        "requested_nodes": first([("reqnodes", "a_reqnodes"), ("reqtres", late("reqtres", "node"))], fields),
        "requested_cpus": first([("reqcpus", "a_reqcpus"), ("reqtres", late("reqtres", "cpu"))], fields),
        "requested_memory": first([("reqmem", asked_memory(fields)), ("reqtres", "a_req_mem")], fields),
        "requested_gpus": "a_req_gpu",
        "total_cpu": _total_cpu(fields),
        "restarts": "a_restarts" if "restarts" in fields else "NULL",
        "is_final": f"CASE WHEN {final} THEN TRUE WHEN d_state IN {OPEN} THEN FALSE"
        " ELSE d_end IS NOT NULL END",
        "is_runaway": f"coalesce(d_state = 'RUNNING' AND d_elapsed > {_limit(fields)} + {A_DAY}, FALSE)",
    }


def _limit(fields: Collection[str]) -> str:
    return first([("timelimitraw", "a_timelimitraw"), ("timelimit", "a_timelimit")], fields, "NULL::DOUBLE")


def _total_cpu(fields: Collection[str]) -> str:
    """Zero after a run of some length says that nothing was gathered."""
    if "totalcpu" not in fields:
        return "NULL"
    return "CASE WHEN a_totalcpu > 0 OR d_elapsed < 10 THEN a_totalcpu END"


def _step_columns(fields: Collection[str]) -> dict[str, str]:
    shared = _shared(fields)
    return {
        **shared,
        "cluster": f"coalesce({shared['cluster']}, '')",
        "job_id": "of_job",
        "job_number": _own_number(fields, "of_job"),
        "job_submit_time": "job_submit_time",
        "job_start_time": "job_start_time",
        "step": "split_part(jobid, '.', 2)",
        "start_time": "a_start" if "start" in fields else "NULL",
        "end_time": "a_end" if "end" in fields else "NULL",
        "elapsed": "d_said",
        "tasks": "a_ntasks" if "ntasks" in fields else "NULL",
        "max_rss": "a_maxrss" if "maxrss" in fields else "NULL",
        "memory_used": "a_used",
        "total_cpu": first([("totalcpu", "nullif(a_totalcpu, 0)"), ("tresusageintot", "a_used_cpu")], fields),
        "gpu_utilisation": "a_utilisation",
        "gpu_memory": "a_gpu_memory",
    }
