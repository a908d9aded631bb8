"""What became of GPU-hours: progress that was kept, and what was lost, hung, idle, or spent on starting."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from slurmkit.accounting.formats import hours, records
from slurmkit.accounting.frames import frame_of
from slurmkit.accounting.parts import Query, parts, window_of
from slurmkit.accounting.periods import GROUPED_BY_TIME, periods
from slurmkit.accounting.report import Measure, Report, Table
from slurmkit.accounting.runs import KINDS, TAG, Attempt, known_runs, spans_of, split
from slurmkit.accounting.used import used_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pandas import DataFrame

    from slurmkit.accounting.ledger import Ledger
    from slurmkit.accounting.question import Question
    from slurmkit.accounting.runs import KnownRun

SHORT = 60
"""Seconds within which a job that failed had not got beyond its start."""

STILL = 0.01
"""Fraction of one CPU below which a job did nothing. No CPU time at all is not known, as after a kill."""

OF_ACCOUNTING = f"""CASE WHEN state IN ('REQUEUED', 'PREEMPTED', 'NODE_FAIL', 'BOOT_FAIL') THEN 'lost'
 WHEN used_cpu < {STILL} * elapsed AND state = 'TIMEOUT' THEN 'hung'
 WHEN used_cpu < {STILL} * elapsed AND is_final THEN 'idle'
 WHEN state = 'FAILED' AND elapsed <= {SHORT} THEN 'startup'
 WHEN state = 'COMPLETED' THEN 'productive' ELSE 'unknown' END"""
"""What accounting alone says of an attempt, all of it: at most so much was lost, or made progress."""

RUN_ID = f"regexp_replace({TAG}, '\\+\\d+$', '')"
IS_KNOWN = f"coalesce(list_contains($runs, {RUN_ID}), false)"

WHAT = (*KINDS, "unknown")
KNOWN_FROM = Measure("known_from", "known from", "text", "events of runs of slurmkit, or accounting alone")
MEASURES = (
    Measure("jobs", "jobs", "count", "attempts that held GPUs in the window"),
    Measure("gpu_seconds", "GPU-hours", "hours", "GPUs allocated, times the seconds"),
    Measure("productive_seconds", "productive", "hours", "GPU-hours of work that was kept"),
    Measure(
        "checkpointing_seconds", "saving", "hours", "GPU-hours in which training waited for a checkpoint"
    ),
    Measure("startup_seconds", "start-up", "hours", "GPU-hours from a start until it computed"),
    Measure("lost_seconds", "lost", "hours", "GPU-hours of work since the last checkpoint, thrown away"),
    Measure("hung_seconds", "hung", "hours", "GPU-hours without progress until that was noticed"),
    Measure("idle_seconds", "idle", "hours", "GPU-hours in which nothing ran"),
    Measure("unknown_seconds", "unknown", "hours", "GPU-hours of which nobody knows"),
    Measure("goodput", "goodput", "share", "productive, of the GPU-hours that are not unknown"),
)


def build(ledger: Ledger, question: Question) -> DataFrame:
    """The table: one row for each group and source of knowledge, the dearest first."""
    from pandas import DataFrame

    cut = parts(ledger, question)
    held = Query(f"SELECT * FROM ({cut.sql}) WHERE gpus > 0", cut.values)
    runs = known_runs(ledger, held.sql, held.values)
    sums: dict[tuple[Any, ...], dict[str, int]] = defaultdict(lambda: dict.fromkeys(("jobs", *WHAT), 0))
    for key, more in _of_accounting(ledger, question, held, runs):
        _add(sums[(*key, "accounting")], more)
    for key, more in _of_runs(ledger, question, held, runs):
        _add(sums[(*key, "events")], more)
    rows = [_row(question, key, one) for key, one in sums.items()]
    times = [name for name in question.by if name in GROUPED_BY_TIME]
    rows.sort(key=lambda row: ([row[name] for name in times], -row["gpu_seconds"], str(list(row.values()))))
    names = [*question.by, KNOWN_FROM.name, *(measure.name for measure in MEASURES)]
    whole = [measure.name for measure in MEASURES if measure.kind in {"count", "hours"}]
    frame = DataFrame(rows, columns=names, dtype=object)
    return frame.astype(dict.fromkeys(whole, "int64") | {"goodput": "float64"})


def _add(sums: dict[str, int], more: Mapping[str, int]) -> None:
    for name, value in more.items():
        sums[name] += value


def _row(question: Question, key: tuple[Any, ...], sums: Mapping[str, int]) -> dict[str, Any]:
    total = sum(sums[kind] for kind in WHAT)
    known = total - sums["unknown"]
    return {
        **dict(zip((*question.by, KNOWN_FROM.name), key, strict=True)),
        "jobs": sums["jobs"],
        "gpu_seconds": total,
        **{f"{kind}_seconds": sums[kind] for kind in WHAT},
        "goodput": sums["productive"] / known if known else None,
    }


def _of_accounting(
    ledger: Ledger, question: Question, held: Query, runs: Mapping[str, KnownRun]
) -> Iterator[tuple[tuple[Any, ...], dict[str, int]]]:
    """The groups' sums over the jobs of which accounting alone tells."""
    others = Query(f"SELECT * FROM ({held.sql}) WHERE NOT {IS_KNOWN}", held.values | {"runs": list(runs)})
    used = used_in(ledger, others)
    sums = ", ".join(
        f"coalesce(sum(gpus * seconds) FILTER (what = '{kind}'), 0)::BIGINT AS {kind}" for kind in WHAT
    )
    keys = ", ".join(f'"{name}"' for name in question.by)
    sql = (
        f"SELECT {keys}{', ' if keys else ''}coalesce(sum(counts), 0)::BIGINT AS jobs, {sums}"
        f" FROM (SELECT *, {OF_ACCOUNTING} AS what FROM ({used.sql})) {'GROUP BY ' if keys else ''}{keys}"
    )
    for row in records(frame_of(ledger, sql, used.values, texts=question.by)):
        if question.by or row["jobs"]:
            yield tuple(row[name] for name in question.by), {name: row[name] for name in ("jobs", *WHAT)}


def _of_runs(
    ledger: Ledger, question: Question, held: Query, runs: Mapping[str, KnownRun]
) -> Iterator[tuple[tuple[Any, ...], dict[str, int]]]:
    """The parts of the jobs of known runs, each split as the run's events tell."""
    keys = "".join(f', "{name}"' for name in question.by)
    sql = (
        f"SELECT {RUN_ID} AS run_id, job_id, coalesce(het_job::VARCHAR, job_id) AS name_id,"
        " coalesce(state, 'UNKNOWN') AS state, epoch(start_time) AS start, epoch(until_time) AS until,"
        f" epoch(end_time) AS ended, gpus, gpus * seconds AS held, counts AS jobs{keys}"
        f" FROM ({held.sql}) WHERE {IS_KNOWN}"
    )
    rows = records(frame_of(ledger, sql, held.values | {"runs": list(runs)}, texts=question.by))
    attempts: dict[str, dict[Attempt, None]] = defaultdict(dict)
    for row in rows:
        one = Attempt(row["job_id"], row["start"], row["until"], row["ended"], row["gpus"], row["state"])
        attempts[row["run_id"]][one] = None
    spans = {run_id: spans_of(runs[run_id], list(each)) for run_id, each in attempts.items()}
    bounds = _bounds(ledger, question)
    for row in rows:
        begin, end = bounds(row)
        told = split(
            row["held"],
            max(row["start"], begin),
            min(row["until"], end),
            spans[row["run_id"]],
            job_id=row["name_id"],
        )
        yield tuple(row[name] for name in question.by), told | {"jobs": row["jobs"]}


def _bounds(ledger: Ledger, question: Question) -> Callable[[Mapping[str, Any]], tuple[float, float]]:
    """Gives the time that a row covers: its period where rows are periods, inside the window."""
    span = window_of(ledger, question)
    since, until = span.since.timestamp(), span.until.timestamp()
    times = sorted((name for name in question.by if name in GROUPED_BY_TIME), key=GROUPED_BY_TIME.index)
    if not times:
        return lambda _: (since, until)
    fine = times[0]
    ends = {
        piece.name: (max(piece.since.timestamp(), since), min(piece.until.timestamp(), until))
        for piece in periods(fine, *span, question.zone)
    }
    return lambda row: ends[row[fine]]


def stands_out(frames: Mapping[str, DataFrame]) -> Sequence[str]:
    """How much was productive, and where most of the rest went."""
    rows = records(frames["goodput"])
    total = sum(row["gpu_seconds"] for row in rows)
    if not total:
        return ["No job held a GPU in this time."]
    sums = {kind: sum(row[f"{kind}_seconds"] for row in rows) for kind in WHAT}
    known = total - sums["unknown"]
    said = []
    if known:
        said.append(
            f"{sums['productive'] / known:.1%} of the GPU-hours of which something is known were kept."
        )
    worst = max((kind for kind in KINDS if kind != "productive"), key=lambda kind: sums[kind])
    if sums[worst]:
        words = {measure.name: measure.title for measure in MEASURES}[f"{worst}_seconds"]
        said.append(f"Of the rest most went into: {words}, {hours(sums[worst])} GPU-hours.")
    if sums["unknown"]:
        said.append(f"Of {sums['unknown'] / total:.1%} of all GPU-hours nobody knows what they went into.")
    return said


REPORT = Report(
    name="goodput",
    summary="GPU-hours that made progress, and those lost, hung or idle.",
    tables=(Table("goodput", "What became of GPU-hours", MEASURES, build, keys=(KNOWN_FROM,)),),
    stands_out=stands_out,
    default_by=("account", "user"),
    explanation=(
        "Of runs of slurmkit their events tell, to the second. Of others accounting tells little: all of a "
        "COMPLETED attempt is taken for productive, all of one that was requeued, preempted or lost its node "
        f"for lost, one that failed within {SHORT} s for start-up, and one that used next to no CPU time for "
        "idle, or for hung where it ran into its limit; the rest is unknown. The figures of accounting are "
        "therefore bounds: a job that Slurm requeued may have kept all its work."
    ),
)
