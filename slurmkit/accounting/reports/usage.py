"""What jobs held: CPU-, GPU-, node- and memory-hours, by whom, against the period before."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from slurmkit.accounting.formats import hours, records
from slurmkit.accounting.frames import frame_of
from slurmkit.accounting.parts import WORTH, micro, parts, window_of
from slurmkit.accounting.periods import GROUPED_BY_TIME, periods
from slurmkit.accounting.report import Measure, Report, Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from pandas import DataFrame, Series

    from slurmkit.accounting.ledger import Ledger
    from slurmkit.accounting.parts import Window
    from slurmkit.accounting.question import Question

MIB = 1024**2

WORTH_OF = {
    "gpu_seconds": "gpus",
    "cpu_seconds": "cpus",
    "node_seconds": "nodes",
    "memory_mib_seconds": f"(memory // {MIB})",
    "billing_seconds": "billing",
}
"""What a second of a job counts as, in each column."""

EARLY = 10
"""In the first so-manieth part of the period before, a record has to end for that period to be known."""

NOTABLE, NOTABLE_CHANGE = 0.05, 0.5
"""What a change is of, and how large it is, to be said: fractions of all hours, and of the hours before."""

MEASURES = (
    Measure("jobs", "jobs", "count", "attempts that ran in the window; each start of a job is one"),
    Measure("gpu_seconds", "GPU-hours", "hours", "GPUs allocated, times the seconds that the job ran"),
    Measure("cpu_seconds", "CPU-hours", "hours", "CPUs allocated, times the seconds that the job ran"),
    Measure("node_seconds", "node-hours", "hours", "nodes, whole or shared, times the seconds"),
    Measure("memory_mib_seconds", "GiB-hours", "memory_hours", "memory allocated, times the seconds"),
    Measure("billing_seconds", "billing-hours", "hours", "billing units allocated, times the seconds"),
    Measure(
        "share", "share", "share", "of the GPU-hours of all rows; of the CPU-hours where no GPU was used"
    ),
    Measure(
        "previous", "before", "hours", "the hours that `share` is of, in the period of equal length before"
    ),
    Measure("change", "change", "share", "how much more that is than in the period before"),
)


class Spent(NamedTuple):
    """What a row counts in the end: `share`, `previous` and `change` are of these hours."""

    column: str
    words: str


GPU = Spent("gpu_seconds", "GPU-hours")
CPU = Spent("cpu_seconds", "CPU-hours")


def spent(frame: DataFrame) -> Spent:
    """GPU-hours where there are any."""
    return GPU if frame["gpu_seconds"].sum() else CPU


def build(ledger: Ledger, question: Question) -> DataFrame:
    """The table: one row for each group, in order of time, then the dearest first."""
    span = window_of(ledger, question)
    by_time = [name for name in question.by if name in GROUPED_BY_TIME]
    before = None if by_time else _before(ledger, question, span)
    frame = _summed(ledger, question, span, before)
    column = spent(frame).column
    if by_time:
        earlier, change = _row_before(frame, question, span, column)
    else:
        earlier = frame[f"previous_{column}" if before else column].astype("Int64")
        earlier = earlier if before else earlier.where(earlier.isna())
        change = _change(frame[column], earlier)
    whole = int(frame[column].sum())
    made = {"share": frame[column] / (whole or float("nan")), "previous": earlier, "change": change}
    return frame.assign(**made)[[*question.by, *(measure.name for measure in MEASURES)]]


def _before(ledger: Ledger, question: Question, span: Window) -> datetime | None:
    """When the period before begins; None where the records do not reach back so far."""
    if question.since is None:
        return None
    length = span.until - span.since
    early = {"early": micro(span.since - length + length / EARLY)}
    sql = "SELECT count(*) FROM (FROM jobs WHERE until_time <= make_timestamptz($early) LIMIT 1)"
    is_known = ledger.connection.execute(sql, early).fetchall()[0][0]
    return span.since - length if is_known else None


def _summed(ledger: Ledger, question: Question, span: Window, before: datetime | None) -> DataFrame:
    """The sums of the groups, and `previous_...` of the period before, in one pass over the jobs."""
    cut = parts(ledger, replace(question, since=before or span.since, until=span.until))
    values, source, now, counts = cut.values, cut.sql, "seconds", "counts"
    sums = {}
    if before is not None:
        values = values | {"begin": micro(before), "middle": micro(span.since)}
        source = (
            f"SELECT *, {WORTH.format(at='$middle')} - {WORTH.format(at='$begin')} AS earlier,"
            " epoch_us(until_time) > $middle OR epoch_us(start_time) >= $middle AS is_now"
            f" FROM ({cut.sql})"
        )
        now, counts = "(seconds - earlier)", "CASE WHEN is_now THEN counts ELSE 0 END"
        sums = {f"previous_{one}": f"earlier * {WORTH_OF[one]}" for one in (GPU.column, CPU.column)}
    sums |= {"jobs": counts} | {name: f"{now} * {worth}" for name, worth in WORTH_OF.items()}
    summed = [f"coalesce(sum({value}), 0)::BIGINT AS {name}" for name, value in sums.items()]
    keys = [f'"{name}"' for name in question.by]
    by_time = [f'"{name}"' for name in question.by if name in GROUPED_BY_TIME]
    order = [*by_time, "gpu_seconds DESC", "cpu_seconds DESC", "jobs DESC", *keys]
    sql = f"SELECT {', '.join([*keys, *summed])} FROM ({source}){' GROUP BY ' if keys else ''}"
    sql += f"{', '.join(keys)} ORDER BY {', '.join(order)}"
    return frame_of(ledger, sql, values, texts=question.by)


def _row_before(frame: DataFrame, question: Question, span: Window, column: str) -> tuple[Series, Series]:
    """Of rows that are periods: the hours of the one before, and the change where both are whole."""
    from pandas import Series

    fine = min((name for name in question.by if name in GROUPED_BY_TIME), key=GROUPED_BY_TIME.index)
    pieces = periods(fine, *span, question.zone)
    place = {piece.name: number for number, piece in enumerate(pieces)}
    is_whole = [piece.since >= span.since and piece.until <= span.until for piece in pieces]
    others = [name for name in question.by if name not in GROUPED_BY_TIME]
    numbers = [place[name] for name in frame[fine]]
    keys = list(zip(numbers, *(frame[name] for name in others), strict=True))
    hours = dict(zip(keys, frame[column], strict=True))
    before = [hours.get((number - 1, *rest), 0) if number else None for number, *rest in keys]
    compared = [number > 0 and is_whole[number] and is_whole[number - 1] for number in numbers]
    earlier = Series(before, index=frame.index, dtype="Int64")
    return earlier, _change(frame[column], earlier.where(Series(compared, index=frame.index, dtype=bool)))


def _change(hours: Series, earlier: Series) -> Series:
    """By which fraction hours grew; not known where there were none."""
    before = earlier.astype("Float64").where(earlier != 0)
    return (hours.astype("Float64") / before - 1).astype("float64")


def stands_out(frames: Mapping[str, DataFrame]) -> Sequence[str]:
    """Who used most, and what changed most."""
    frame = frames["usage"]
    (column, words), rows = spent(frame), records(frame)
    jobs, whole = (sum(row[name] for row in rows) for name in ("jobs", column))
    if not jobs:
        return ["No job ran in this time."]
    said = [f"{jobs:,} {'job' if jobs == 1 else 'jobs'} ran and held {hours(whole)} {words}."]
    if not whole or len(rows) < 2:
        return said
    groups = list(frame.columns[: list(frame.columns).index("jobs")])
    top = max(rows, key=lambda row: row[column])
    said.append(f"{_called(top, groups)}: {top['share']:.1%} of the {words}, more than any other.")
    moved = [row for row in rows if abs(row["change"] or 0) >= NOTABLE_CHANGE]
    moved = [row for row in moved if max(row[column], row["previous"]) >= NOTABLE * whole]
    if moved:
        row = max(moved, key=lambda row: abs(row[column] - row["previous"]))
        way = "rose" if row["change"] > 0 else "fell"
        said.append(
            f"{_called(row, groups)}: {way} by {abs(row['change']):,.0%} against the period before,"
            f" to {hours(row[column])} {words}."
        )
    return said


def _called(row: Mapping[str, Any], groups: Sequence[str]) -> str:
    """A row in words: account physics, month 2026-11."""
    return ", ".join(f"{name.replace('_', ' ')} {row[name] or '-'}" for name in groups)


REPORT = Report(
    name="usage",
    summary="Jobs and CPU-, GPU-, node- and memory-hours, by whom.",
    tables=(Table("usage", "What jobs held", MEASURES, build),),
    columns=("gpus", "cpus", "nodes", "memory", "billing"),
    stands_out=stands_out,
    default_by=("account",),
    explanation=(
        "A job counts with the part of its elapsed time that lies in the window, times what it was given: "
        "suspended time is not charged. Every start of a requeued job counts. `before` is the same in the "
        "period of equal length before the window (of rows that are days, weeks or months: in the row "
        "before), where the records reach back so far."
    ),
)
