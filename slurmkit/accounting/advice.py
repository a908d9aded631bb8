"""By how much less would have done: for jobs that somebody submits again and again under one name."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, isfinite
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.accounting.formats import records
from slurmkit.accounting.frames import frame_of
from slurmkit.accounting.parts import parts
from slurmkit.accounting.report import Measure, Table
from slurmkit.accounting.used import used_in
from slurmkit.slurm.tres import format_memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from pandas import DataFrame

    from slurmkit.accounting.ledger import Ledger
    from slurmkit.accounting.question import Question

GIB = 1024**3
FEWEST = 5
"""Finished jobs of one name from which a habit is taken."""

HEADROOM = 1.25
"""What is advised lies so much above the most that was ever used."""

ADVISED = 50
"""Rows where the question sets no limit; they are of the so-many habits that held most."""
HABITUAL = 10_000

WORTHWHILE = 0.75
"""Less is advised where it is at most this fraction of what was asked for."""

QUARTER_HOUR = 900


class Habit(NamedTuple):
    """What jobs of one user and name ask for, and the most that any of them used. None is not known."""

    memory: float | None
    """Bytes on a node."""
    used_memory: float | None
    cpus: float
    """In all."""
    used_cpus: float | None
    """Busy on average over a job."""
    time_limit: float | None
    """Seconds."""
    elapsed: float


class Advice(NamedTuple):
    """Less that would have done, in the unit of the habit."""

    resource: str
    would_do: float
    sentence: str


def advise(habit: Habit) -> Iterator[Advice]:
    """What of a habit is worth changing. Pure."""
    if habit.memory and habit.used_memory:
        enough = max(ceil(habit.used_memory * HEADROOM / GIB), 1) * GIB
        if enough <= habit.memory * WORTHWHILE:
            yield Advice(
                "memory",
                enough,
                f"asks {_memory(habit.memory)} a node, never used more than {_memory(habit.used_memory)}:"
                f" --mem={enough // GIB}G would do",
            )
    if habit.used_cpus:
        enough = max(ceil(habit.used_cpus * HEADROOM), 1)
        if enough <= habit.cpus * WORTHWHILE:
            yield Advice(
                "CPUs",
                enough,
                f"asks {habit.cpus:.0f} CPUs, never kept more than {habit.used_cpus:.1f} busy:"
                f" {enough} would do",
            )
    if habit.time_limit and isfinite(habit.time_limit):
        enough = max(ceil(habit.elapsed * HEADROOM / QUARTER_HOUR), 1) * QUARTER_HOUR
        if enough <= habit.time_limit * WORTHWHILE:
            yield Advice(
                "time",
                enough,
                f"asks {_time(habit.time_limit)}, never ran longer than {_time(habit.elapsed)}:"
                f" --time={_time(enough)} would do, and start sooner",
            )


def _memory(size: float) -> str:
    """As sbatch takes it, to a tenth of a GiB."""
    return (
        f"{size / GIB:.1f}".removesuffix(".0") + "G"
        if size >= GIB
        else format_memory(ceil(size / 2**20) * 2**20)
    )


def _time(seconds: float) -> str:
    days, rest = divmod(ceil(seconds), 86400)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}-{clock}" if days else clock


KEYS = (
    Measure("user", "user", "text", "user"),
    Measure("name", "name", "text", "name of the jobs"),
    Measure("resource", "resource", "text", "memory, CPUs or time"),
)
MEASURES = (
    Measure("jobs", "jobs", "count", "COMPLETED jobs that the advice rests on"),
    Measure("advice", "advice", "text", "what they ask for, the most that any used, and what would do"),
    Measure("cpu_seconds", "CPU-hours", "hours", "that others could have had"),
    Measure("memory_mib_seconds", "GiB-hours", "memory_hours", "that others could have had"),
)

HABITS = """SELECT "user", name, count(*) AS jobs, arg_max(memory / nodes, start_time) AS memory,
 CASE WHEN count(used_memory) >= {fewest} THEN max(greatest(used_memory / nodes, max_rss)) END AS used_memory,
 arg_max(cpus, start_time)::DOUBLE AS cpus,
 CASE WHEN count(used_cpu) >= {fewest} THEN max(used_cpu / nullif(elapsed, 0)) END AS used_cpus,
 arg_max(time_limit, start_time) AS time_limit, max(elapsed) AS elapsed,
 sum(seconds * (memory // 1048576))::BIGINT AS memory_held, sum(seconds * nodes)::BIGINT AS nodes_held,
 sum(seconds * cpus)::BIGINT AS cpus_held, sum(seconds)::BIGINT AS held
 FROM ({used}) WHERE state = 'COMPLETED' AND nodes > 0
 GROUP BY "user", name HAVING count(*) >= {fewest}
 ORDER BY cpus_held DESC, memory_held DESC LIMIT {habitual}"""
"""A job of which nothing is known does not say that it used nothing: enough others have to speak."""


def build(ledger: Ledger, question: Question) -> DataFrame:
    """Advice, first where most could have been had."""
    from pandas import DataFrame

    used = used_in(ledger, parts(ledger, replace(question, by=())))
    sql = HABITS.format(used=used.sql, fewest=FEWEST, habitual=HABITUAL)
    habits = frame_of(ledger, sql, used.values, texts=("user", "name"))
    rows = [row for habit in records(habits) for row in _rows(habit)]
    rows.sort(key=lambda row: (-row["cpu_seconds"], -row["memory_mib_seconds"], -row["jobs"]))
    names = [measure.name for measure in (*KEYS, *MEASURES)]
    frame = DataFrame(rows[: question.limit or ADVISED], columns=names)
    return frame.astype(dict.fromkeys(("jobs", "cpu_seconds", "memory_mib_seconds"), "int64"))


def _rows(told: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The advice on one habit as rows of the table."""
    for one in advise(Habit(**{name: told[name] for name in Habit._fields})):
        could_have = {"cpu_seconds": 0, "memory_mib_seconds": 0}
        if one.resource == "memory":
            enough = int(one.would_do) // 1048576
            could_have["memory_mib_seconds"] = max(told["memory_held"] - enough * told["nodes_held"], 0)
        elif one.resource == "CPUs":
            could_have["cpu_seconds"] = max(told["cpus_held"] - int(one.would_do) * told["held"], 0)
        yield {
            "user": told["user"],
            "name": told["name"],
            "resource": one.resource,
            "jobs": told["jobs"],
            "advice": one.sentence,
            **could_have,
        }


ADVICE = Table("advice", "What would have done", MEASURES, build, is_grouped=False, keys=KEYS)
