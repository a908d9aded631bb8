"""The tables of job records: what each column is called, holds and means. Reader, store and reports share it.

Times are points in UTC, durations seconds, memory bytes. NULL is "not known", never zero. A job that Slurm
started several times has one row for each attempt; the key of an attempt is `ATTEMPT`.
"""

from __future__ import annotations

from typing import NamedTuple

VERSION = 1
"""Of the store; one written by a later version is not read."""


class Column(NamedTuple):
    """One column, by DuckDB's name of its type."""

    name: str
    type: str
    meaning: str


JOBS = (
    Column("cluster", "VARCHAR", "cluster; '' where the records do not say"),
    Column("job_id", "VARCHAR", "as Slurm prints it: 12, 12_3, 12_[3-99%4], 159+1"),
    Column("job_number", "BIGINT", "JobIDRaw: the number of its own that Slurm gave it"),
    Column("array_job", "BIGINT", "the number of the array; NULL outside arrays"),
    Column("array_task", "BIGINT", "the task; NULL outside arrays and for tasks that still wait together"),
    Column("array_tasks", "BIGINT", "tasks that the row stands for: 1, but for tasks that wait together"),
    Column("het_job", "BIGINT", "the number of the heterogeneous job; NULL outside one"),
    Column("het_offset", "BIGINT", "the component's number"),
    Column("user", "VARCHAR", "user"),
    Column("uid", "BIGINT", "the user's number; sacct names by number who cancelled a job"),
    Column("account", "VARCHAR", "account"),
    Column("partition", "VARCHAR", "partition; of a job that waits for several, the list"),
    Column("qos", "VARCHAR", "quality of service"),
    Column("state", "VARCHAR", "the state's one word: CANCELLED, not `CANCELLED by 1000`"),
    Column("cancelled_by", "VARCHAR", "who cancelled it: a uid or a name"),
    Column("exit_code", "INTEGER", "the part of ExitCode before the colon"),
    Column("exit_signal", "INTEGER", "the part after it; 125 is Slurm's mark for out of memory"),
    Column("submit_time", "TIMESTAMPTZ", "submitted, or requeued"),
    Column("eligible_time", "TIMESTAMPTZ", "nothing but resources and priority held it back from then on"),
    Column("start_time", "TIMESTAMPTZ", "NULL where it never started"),
    Column("end_time", "TIMESTAMPTZ", "NULL while it has not ended"),
    Column("until_time", "TIMESTAMPTZ", "until when its time is known: its end, or the moment of the record"),
    Column("elapsed", "BIGINT", "seconds that Slurm charges: without those suspended"),
    Column("suspended", "BIGINT", "seconds suspended"),
    Column("time_limit", "DOUBLE", "seconds; infinite where unlimited"),
    Column("nodes", "INTEGER", "nodes allocated; 0 where it never started"),
    Column("node_list", "VARCHAR", "their names as Slurm folds them; NULL where there are none"),
    Column("cpus", "INTEGER", "CPUs allocated; 0 where it never started"),
    Column("memory", "BIGINT", "bytes allocated"),
    Column("gpus", "INTEGER", "GPUs allocated, MIG devices among them"),
    Column("gpu_type", "VARCHAR", "a100, or a100=2,h100=1 sorted; '' where untyped; NULL without GPUs"),
    Column("shards", "INTEGER", "shards of GPUs allocated (gres/shard)"),
    Column("billing", "BIGINT", "billing units allocated"),
    Column("energy", "BIGINT", "joules"),
    Column("requested_nodes", "INTEGER", "nodes asked for"),
    Column("requested_cpus", "INTEGER", "CPUs asked for"),
    Column("requested_memory", "BIGINT", "bytes asked for in all; 0 stands for all of a node"),
    Column("requested_gpus", "INTEGER", "GPUs asked for"),
    Column("total_cpu", "DOUBLE", "CPU-seconds used; NULL where nothing was gathered"),
    Column("restarts", "INTEGER", "Slurm's own count of restarts, since 24.11"),
    Column("reason", "VARCHAR", "what it last waited for"),
    Column("name", "VARCHAR", "name"),
    Column("comment", "VARCHAR", "comment; a run of slurmkit has its id here"),
    Column("work_dir", "VARCHAR", "directory"),
    Column("submit_line", "VARCHAR", "the command that submitted it"),
    Column("allocated_tres", "VARCHAR", "AllocTRES as it was"),
    Column("is_final", "BOOLEAN", "it has ended: its record does not change any more"),
    Column("is_runaway", "BOOLEAN", "RUNNING in accounting alone: out of all sums, and counted apart"),
    Column("problems", "VARCHAR", "fields that could not be read, as NAME=TEXT; NULL where all could"),
)

STEPS = (
    Column("cluster", "VARCHAR", "as in jobs"),
    Column("job_id", "VARCHAR", "as in jobs"),
    Column("job_number", "BIGINT", "as in jobs"),
    Column("job_submit_time", "TIMESTAMPTZ", "submit_time of the attempt that it belongs to"),
    Column("job_start_time", "TIMESTAMPTZ", "start_time of the attempt that it belongs to"),
    Column("step", "VARCHAR", "batch, extern, interactive, 0, 1, ..."),
    Column("state", "VARCHAR", "as in jobs"),
    Column("cancelled_by", "VARCHAR", "as in jobs"),
    Column("exit_code", "INTEGER", "as in jobs"),
    Column("exit_signal", "INTEGER", "as in jobs"),
    Column("start_time", "TIMESTAMPTZ", "started"),
    Column("end_time", "TIMESTAMPTZ", "NULL while it has not ended"),
    Column("elapsed", "BIGINT", "seconds"),
    Column("nodes", "INTEGER", "nodes"),
    Column("node_list", "VARCHAR", "their names as Slurm folds them"),
    Column("tasks", "INTEGER", "tasks"),
    Column("cpus", "INTEGER", "CPUs"),
    Column("gpus", "INTEGER", "GPUs"),
    Column("max_rss", "BIGINT", "bytes of its largest task; NULL where nothing was gathered"),
    Column("memory_used", "BIGINT", "bytes of all its tasks at most (mem= of TRESUsageInTot); NULL as above"),
    Column("total_cpu", "DOUBLE", "CPU-seconds used: TotalCPU, or cpu= of TRESUsageInTot where that is zero"),
    Column("gpu_utilisation", "DOUBLE", "percent of its GPUs, summed (gres/gpuutil of TRESUsageInTot)"),
    Column("gpu_memory", "BIGINT", "bytes on its GPUs (gres/gpumem of TRESUsageInTot)"),
    Column("energy", "BIGINT", "joules"),
    Column("name", "VARCHAR", "name"),
    Column("problems", "VARCHAR", "as in jobs"),
)

_LONG = {"work_dir", "submit_line", "comment", "allocated_tres"}
OF_SUMS = tuple(column.name for column in JOBS if column.name not in _LONG)
"""Columns of JOBS but for long texts, which no sum reads."""

ATTEMPT = ("cluster", "job_number", "submit_time", "start_time")
"""What tells one attempt from every other (NULL equals NULL); steps have the last two as `job_...`."""


def definition(columns: tuple[Column, ...]) -> str:
    """The columns as CREATE TABLE wants them."""
    return ", ".join(f'"{column.name}" {column.type}' for column in columns)
