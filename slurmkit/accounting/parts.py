"""Jobs cut to a window and into groups, as SQL: what every report counts from.

A job is worth its elapsed time, spread evenly from its start to its end. What it is worth up to a moment is
rounded down to a second, and a part is the difference of two such figures: so the parts of a job add up to
the job, exactly, however it is cut.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from slurmkit.accounting.periods import GROUPED_BY_TIME, periods

if TYPE_CHECKING:
    from slurmkit.accounting.ledger import Ledger
    from slurmkit.accounting.question import Question

WORTH = """(CASE WHEN {at} <= epoch_us(start_time) THEN 0 WHEN {at} >= epoch_us(until_time) THEN elapsed
 ELSE elapsed * (({at} - epoch_us(start_time)) // 1000000)
      // greatest((epoch_us(until_time) - epoch_us(start_time)) // 1000000, 1) END)"""
"""Seconds of a job up to a moment, which is in microseconds."""

QUARTER = 15 * 60 * 1_000_000
"""Of an hour, in microseconds."""

OF_THE_JOB = ("nodes", "cpus", "memory", "billing", "energy", "shards")
"""What a job with GPUs of several types counts once, at the first of them."""

_LISTS = (
    ("users", "user"),
    ("accounts", "account"),
    ("partitions", "partition"),
    ("qos", "qos"),
    ("clusters", "cluster"),
)


class Query(NamedTuple):
    """SQL and the values that it names with a dollar."""

    sql: str
    values: dict[str, Any]


class Window(NamedTuple):
    """What a report covers, the end outside. UTC."""

    since: datetime
    until: datetime


def window_of(ledger: Ledger, question: Question) -> Window:
    """The window of a question, its open ends set to the first and the last record."""
    since, until = question.since, question.until
    if since is None or until is None:
        first, last = ledger.connection.execute(
            "SELECT min(coalesce(start_time, submit_time)), max(coalesce(until_time, submit_time)) FROM jobs"
        ).fetchall()[0]
        since = since or first or until or datetime.fromtimestamp(0, UTC)
        until = until or max(_whole(last or since), since)
    return Window(since.astimezone(UTC), until.astimezone(UTC))


def _whole(moment: datetime) -> datetime:
    """The moment, or the next whole second: a record that was made in mid-second counts to its end."""
    return moment.replace(microsecond=0) + timedelta(seconds=bool(moment.microsecond))


def chosen(question: Question) -> Query:
    """The condition that the question's jobs meet, whenever they ran; runaways never do."""
    terms = ["NOT is_runaway"]
    values: dict[str, Any] = {}
    for name, column in _LISTS:
        if wanted := getattr(question, name):
            terms.append(f'list_contains(${name}, "{column}")')
            values[name] = list(wanted)
    if question.states:
        terms.append("list_contains($states, state)")
        values["states"] = list(question.states)
    if question.names:
        terms.append("(" + " OR ".join(f"name GLOB $name_{i}" for i in range(len(question.names))) + ")")
        values |= {f"name_{index}": pattern for index, pattern in enumerate(question.names)}
    if question.jobs:
        terms.append(
            "(list_contains($jobs, job_id) OR list_contains($jobs, job_number::VARCHAR)"
            " OR list_contains($jobs, array_job::VARCHAR) OR list_contains($jobs, het_job::VARCHAR))"
        )
        values["jobs"] = list(question.jobs)
    return Query(" AND ".join(terms), values)


def parts(ledger: Ledger, question: Question) -> Query:
    """A SELECT of what of each job lies in the window, one row for each group that it has a part in.

    Beside the columns of a job: one for each of `question.by`, under its name; `seconds` of the part;
    `counts`, which is 1 in one row of each job and 0 in its others. `gpus` is that of the row's type where
    jobs are grouped by type. Jobs that never started have no part.
    """
    span = window_of(ledger, question)
    condition = chosen(question)
    values = condition.values | {"since": micro(span.since), "until": micro(span.until)}
    kinds = [kind for kind in question.by if kind in GROUPED_BY_TIME]
    begin, end = ("greatest($since, p.since)", "least($until, p.until)") if kinds else ("$since", "$until")
    is_by_type = "gpu_type" in question.by
    source, left_out, replaced = _by_type() if is_by_type else ("jobs", [], "")
    if kinds:
        source = _cut_by_time(source, kinds)
        left_out = [*left_out, "piece"]
        values |= _pieces(kinds, span, question)
    columns = "jobs.*" + (f" EXCLUDE ({', '.join(left_out)})" if left_out else "") + replaced
    names = "".join(f', p."{kind}"' for kind in kinds)
    start, end_of_job = "epoch_us(start_time)", "epoch_us(until_time)"
    inside = f"{start} < {end} AND ({end_of_job} > {begin} OR {start} >= {begin})"
    # Said of the bare columns too: whole row groups of a store are then not read.
    inside += " AND start_time < make_timestamptz($until) AND until_time >= make_timestamptz($since)"
    first = f"({start} >= {begin} OR {begin} <= $since)" + (" AND of_type = 1" if is_by_type else "")
    # Most jobs lie in one piece: they are spared the arithmetic.
    seconds = (
        f"CASE WHEN {start} >= {begin} AND {end_of_job} <= {end} THEN elapsed"
        f" ELSE {WORTH.format(at=end)} - {WORTH.format(at=begin)} END"
    )
    return Query(
        f"SELECT {columns}{names}, {seconds} AS seconds, CASE WHEN {first} THEN 1 ELSE 0 END AS counts"
        f" FROM {source} WHERE start_time IS NOT NULL AND {inside} AND {condition.sql}",
        values,
    )


def micro(moment: datetime) -> int:
    """A point in time as DuckDB's epoch_us has it, in whole seconds."""
    return int(moment.timestamp()) * 1_000_000


def _pieces(kinds: list[str], span: Window, question: Question) -> dict[str, Any]:
    """The periods that the window touches; of two kinds the finer one, and which coarse one holds it."""
    fine, *coarse = sorted(kinds, key=GROUPED_BY_TIME.index)
    pieces = periods(fine, *span, question.zone)
    values: dict[str, Any] = {
        "piece_since": [micro(piece.since) for piece in pieces],
        "piece_until": [micro(piece.until) for piece in pieces],
        f"piece_{fine}": [piece.name for piece in pieces],
    }
    for kind in coarse:
        whole = periods(kind, *span, question.zone)
        values[f"piece_{kind}"] = [
            next(one.name for one in reversed(whole) if one.since <= piece.since) for piece in pieces
        ]
    return values


def _cut_by_time(source: str, kinds: list[str]) -> str:
    """Jobs, once for each period `p` that they touch.

    The numbers of the first and the last come from a table of quarters of an hour, at which all time zones
    begin their days: a join by equality, where one by comparison takes ten times as long.
    """
    named = "".join(f', unnest($piece_{kind}) AS "{kind}"' for kind in kinds)
    pieces = (
        "SELECT unnest(range(len($piece_since))) AS number,"
        f" unnest($piece_since) AS since, unnest($piece_until) AS until{named}"
    )
    quarters = (
        f"SELECT number, unnest(range(since // {QUARTER}, until // {QUARTER})) AS quarter FROM ({pieces})"
    )
    begin = "greatest(epoch_us(start_time), $since)"
    end = f"greatest(least(epoch_us(until_time), $until) - 1, {begin})"
    touched = (
        "SELECT jobs.*, unnest(range(first.number, last.number + 1)) AS piece"
        f" FROM {source} JOIN ({quarters}) first ON first.quarter = {begin} // {QUARTER}"
        f" JOIN ({quarters}) last ON last.quarter = {end} // {QUARTER}"
    )
    return f"({touched}) jobs JOIN ({pieces}) p ON p.number = jobs.piece"


def _by_type() -> tuple[str, list[str], str]:
    """One row for each type of GPU; what is not about GPUs counts at the first type."""
    shares = (
        "CASE WHEN contains(gpu_type, '=') THEN list_transform(string_split(gpu_type, ','),"
        " lambda one: {'t': regexp_replace(one, '=\\d+$', ''),"
        " 'n': regexp_extract(one, '(\\d+)$', 1)::INTEGER})"
        " ELSE [{'t': gpu_type, 'n': gpus}] END"
    )
    numbers = f"unnest(range(1, len({shares}) + 1)) AS of_type"
    once = ", ".join(f"CASE WHEN of_type = 1 THEN {name} ELSE 0 END AS {name}" for name in OF_THE_JOB)
    return (
        f"(SELECT *, unnest({shares}) AS share, {numbers} FROM jobs) jobs",
        ["share"],
        f" REPLACE (share.t AS gpu_type, share.n AS gpus, {once})",
    )
