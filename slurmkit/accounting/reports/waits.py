"""How long jobs waited once nothing but resources and priority held them back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from slurmkit.accounting.frames import frame_of
from slurmkit.accounting.moments import END, LAST, READY, START, at_moment
from slurmkit.accounting.parts import micro
from slurmkit.accounting.periods import GROUPED_BY_TIME
from slurmkit.accounting.report import Chart, Measure, Report, Table
from slurmkit.accounting.schema import OF_SUMS
from slurmkit.accounting.sizes import ALLOCATED, ASKED, in_order, size_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pandas import DataFrame

    from slurmkit.accounting.ledger import Ledger
    from slurmkit.accounting.question import Question

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
ENOUGH = 5
"""Jobs that a sentence on a group takes at least."""

JOBS = Measure("jobs", "started", "count", "attempts that started in the window; the waits are theirs")
P50 = Measure("wait_p50", "wait p50", "duration", "half of them waited no longer")
P90 = Measure("wait_p90", "p90", "duration", "nine of ten waited no longer")
P99 = Measure("wait_p99", "p99", "duration", "99 of 100 waited no longer")
STILL = Measure("still_waiting", "still waiting", "count", "jobs that waited when the window ended")
MEASURES = (
    JOBS,
    P50,
    P90,
    P99,
    Measure(
        "blocked_p90", "blocked p90", "duration", "not in the wait: dependency, begin time or hold before"
    ),
    Measure("blocked_seconds", "blocked hours", "hours", "all of that time, summed over the jobs"),
    STILL,
    Measure(
        "still_p50", "waited p50", "duration", "so long half of those had waited: their waits are longer"
    ),
    Measure(
        "still_blocked", "still blocked", "count", "jobs that a dependency, begin time or hold kept then"
    ),
    Measure("gave_up", "gave up", "count", "jobs that ended in the window without a start"),
    Measure(
        "from_submit", "from submit", "count", "of those started: eligible time not known, submit's taken"
    ),
)


class _Event(NamedTuple):
    """What jobs of one kind add to the rows: names of its columns to SQL."""

    moment: str
    condition: str
    size: tuple[str, str]
    adds: Mapping[str, str]


_NOT_YET = "({0} IS NULL OR {0} >= make_timestamptz($until))".format
_UNSTARTED = f"{_NOT_YET('start_time')} AND (start_time IS NOT NULL OR {_NOT_YET('end_time')})"
EVENTS = (
    _Event(
        START,
        "start_time IS NOT NULL",
        ALLOCATED,
        {
            "wait": f"greatest({START} - {READY}, 0) // 1000000",
            "blocked": f"greatest({READY} - epoch_us(submit_time), 0) // 1000000",
            "jobs": "1",
            "from_submit": "(eligible_time IS NULL)::INTEGER",
        },
    ),
    _Event(
        LAST,
        f"{READY} < $until AND eligible_time IS NOT NULL AND {_UNSTARTED}",
        ASKED,
        {"still": f"greatest($known - {READY}, 0) // 1000000", "still_waiting": "array_tasks"},
    ),
    _Event(
        LAST,
        f"epoch_us(submit_time) < $until AND (eligible_time IS NULL OR {READY} >= $until) AND {_UNSTARTED}",
        ASKED,
        {"still_blocked": "array_tasks"},
    ),
    _Event(END, "start_time IS NULL AND end_time IS NOT NULL", ASKED, {"gave_up": "array_tasks"}),
)
COLUMNS = ("wait", "blocked", "still", "jobs", "from_submit", "still_waiting", "still_blocked", "gave_up")

SUMMED = ", ".join(
    [
        *(f"quantile_disc(wait, {part}) AS wait_p{part * 100:.0f}" for part in (0.5, 0.9, 0.99)),
        "quantile_disc(blocked, 0.9) AS blocked_p90",
        "coalesce(sum(blocked), 0)::BIGINT AS blocked_seconds",
        "quantile_disc(still, 0.5) AS still_p50",
        *(f"coalesce(sum({name}), 0)::BIGINT AS {name}" for name in COLUMNS[3:]),
    ]
)
"""Quantiles are waits that a job had, by rank: the least that at least so many do not exceed."""


def grouped(ledger: Ledger, question: Question, keys: Mapping[str, str], order: Sequence[str]) -> DataFrame:
    """All measures for each group of the question and of `keys`, which are names to SQL over jobs.

    `{size}` in a key stands for the job's size. Rows are sorted by periods, then `order`.
    """
    groups = [f'"{name}"' for name in question.by]
    rows = []
    values: dict[str, Any] = {}
    for event in EVENTS:
        jobs = at_moment(ledger, question, event.moment, event.condition)
        values |= jobs.values
        named = [f'{sql.format(size=size_of(*event.size))} AS "{name}"' for name, sql in keys.items()]
        adds = [f"{event.adds.get(name, 'NULL')} AS {name}" for name in COLUMNS]
        rows.append(f"SELECT {', '.join([*groups, *named, *adds])} FROM ({jobs.sql})")
    known = micro(ledger.as_of) if ledger.as_of else values["until"]
    values["known"] = min(known, values["until"])
    groups += [f'"{name}"' for name in keys]
    by_time = [f'"{name}"' for name in question.by if name in GROUPED_BY_TIME]
    sql = (
        f"SELECT {', '.join([*groups, SUMMED])} FROM ({' UNION ALL '.join(rows)})"
        f"{' GROUP BY ' if groups else ''}{', '.join(groups)}"
        f" ORDER BY {', '.join([*by_time, *order, 'jobs DESC', *groups])}"
    )
    texts = [*question.by, *(name for name in keys if name != "hour")]
    return frame_of(ledger, sql, values, texts=texts)


def _groups(ledger: Ledger, question: Question) -> DataFrame:
    frame = grouped(ledger, question, {}, ())
    return frame[[*question.by, *(measure.name for measure in MEASURES)]]


def _sizes(ledger: Ledger, question: Question) -> DataFrame:
    frame = grouped(ledger, replace(question, by=()), {"size": "{size}"}, (in_order("size"),))
    return frame[["size", *(measure.name for measure in MEASURES)]]


def _estimate(ledger: Ledger, question: Question) -> DataFrame:
    keys = {"size": "{size}", "partition": '"partition"'}
    frame = grouped(ledger, replace(question, by=()), keys, (in_order("size"),))
    kept = frame[(frame["jobs"] > 0) | (frame["still_waiting"] > 0)]
    return kept[[*keys, *(measure.name for measure in (JOBS, P50, P90, STILL))]].reset_index(drop=True)


def _hours(ledger: Ledger, question: Question) -> DataFrame:
    """By the hour of the week, on the wall clock of the question's zone, at which the wait began."""
    clock = _wall_clock(question, f"make_timestamptz({READY})")
    days = ", ".join(f"'{day}'" for day in WEEKDAYS)
    keys = {"weekday": f"([{days}])[isodow({clock})]", "hour": f"hour({clock})"}
    order = (f"list_position([{days}], weekday)", "hour")
    frame = grouped(ledger, replace(question, by=()), keys, order)
    kept = frame[frame["jobs"] > 0].astype({"hour": "int64"})
    return kept[[*keys, *(measure.name for measure in (JOBS, P50, P90))]].reset_index(drop=True)


def _wall_clock(question: Question, moment: str) -> str:
    name = getattr(question.zone, "key", None)
    if name:
        return f"timezone('{name}', {moment})"
    offset = question.zone.utcoffset(None)
    return f"(timezone('UTC', {moment}) + to_seconds({offset.total_seconds() if offset else 0:.0f}))"


def stands_out(frames: Mapping[str, DataFrame]) -> Sequence[str]:
    """Where waits are long, and what is not in them."""
    said = []
    groups, sizes, hours = (frames.get(name) for name in ("waits", "sizes", "hours"))
    if groups is not None:
        said += _left_out(groups)
    if sizes is not None:
        often = sizes[sizes["jobs"] >= ENOUGH]
        if len(often) > 1:
            worst = often.sort_values("wait_p50", kind="stable").iloc[-1]
            if worst["wait_p50"]:
                said.append(
                    f"Jobs of {worst['size'] or 'unknown size'} waited longest:"
                    f" half of {worst['jobs']:,} longer than {_hours_of(worst['wait_p50'])}."
                )
    if hours is not None:
        often = hours[hours["jobs"] >= ENOUGH]
        if len(often) > 1 and often["wait_p50"].max() > 0:
            best = often.sort_values("wait_p50", kind="stable").iloc[0]
            said.append(
                f"Shortest were the waits of jobs that were ready on {best['weekday']} at"
                f" {best['hour']:02}:00 (p50 {_hours_of(best['wait_p50'])})."
            )
    return said


def _left_out(groups: DataFrame) -> list[str]:
    said = []
    if not groups["jobs"].sum():
        said.append("No job started in this time.")
    if still := int(groups["still_waiting"].sum()):
        said.append(
            f"{still:,} {'jobs were' if still > 1 else 'job was'} still waiting when the window ended:"
            " not in the quantiles, which would be longer with them."
        )
    if unknown := int(groups["from_submit"].sum()):
        said.append(f"Of {unknown:,} jobs the records have no eligible time: their waits count from submit.")
    return said


def _hours_of(seconds: float) -> str:
    return f"{seconds / 3600:,.1f} h" if seconds >= 3600 else f"{seconds / 60:,.0f} min"


SIZE = Measure("size", "size", "text", "GPUs of the job, or nodes where it has no GPU")
REPORT = Report(
    name="waits",
    summary="How long jobs waited, and how long one of a size would have.",
    tables=(
        Table("waits", "Queue times", MEASURES, _groups, chart=Chart("bars", "", ("wait_p50", "wait_p90"))),
        Table(
            "sizes",
            "Queue times by size",
            MEASURES,
            _sizes,
            is_grouped=False,
            keys=(SIZE,),
            chart=Chart("bars", "size", ("wait_p50", "wait_p90")),
        ),
        Table(
            "hours",
            "Queue times by the hour at which a job was ready",
            (JOBS, P50, P90),
            _hours,
            is_grouped=False,
            keys=(
                Measure("weekday", "weekday", "text", "in the zone of the report"),
                Measure("hour", "hour", "count", "0 to 23"),
            ),
            chart=Chart("heatmap", "hour", ("weekday", "wait_p50")),
        ),
        Table(
            "estimate",
            "How long a job of this size would have waited",
            (JOBS, P50, P90, STILL),
            _estimate,
            is_grouped=False,
            keys=(SIZE, Measure("partition", "partition", "text", "partition")),
        ),
    ),
    columns=OF_SUMS,
    stands_out=stands_out,
    default_by=("partition",),
    explanation=(
        "A wait lasts from when a job is eligible, or was requeued, until it starts; what a dependency, a "
        "begin time or a hold took before is `blocked`, and no part of it. Every start in the window counts, "
        "its wait whole. Jobs that waited when the window ended have no wait yet: they are counted, and "
        "how long they had waited is a column of its own."
    ),
)
