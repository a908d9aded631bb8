"""Jobs cut to a window and into groups, as SQL: what every report counts from.

A job is worth its elapsed time, spread evenly from its start to its end. What it is worth up to a moment is
rounded down to a second, and a part is the difference of two such figures: so the parts of a job add up to
the job, exactly, however it is cut.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from slurmkit.accounting.periods import GROUPED_BY_TIME, periods

if TYPE_CHECKING:
    from slurmkit.accounting.ledger import Ledger
    from slurmkit.accounting.question import Question

WORTH = """(CASE WHEN {at} <= epoch_us(start_time) THEN 0 WHEN {at} >= epoch_us(until_time) THEN elapsed
 ELSE elapsed * (({at} - epoch_us(start_time)) // 1000000)
      // greatest((epoch_us(until_time) - epoch_us(start_time)) // 1000000, 1) END)"""
"""Seconds of a job up to a moment, which is in microseconds."""

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
        until = until or max(last or since, since)
    return Window(since.astimezone(UTC), until.astimezone(UTC))


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
    source = "jobs"
    if kinds:
        source, cuts = _cut_by_time(kinds, span, question)
        values |= cuts
    inside = (
        f"epoch_us(start_time) < {end}"
        f" AND (epoch_us(until_time) > {begin} OR epoch_us(start_time) >= {begin})"
    )
    columns = "jobs.*"
    if "gpu_type" in question.by:
        columns, source = _by_type(source)
    names = "".join(f', p."{kind}" AS "{kind}"' for kind in kinds)
    first = f"epoch_us(start_time) >= {begin} OR {begin} <= $since"
    counts = f"CASE WHEN ({first}){' AND of_type = 1' if 'gpu_type' in question.by else ''} THEN 1 ELSE 0 END"
    seconds = f"{WORTH.format(at=end)} - {WORTH.format(at=begin)}"
    return Query(
        f"SELECT {columns}{names}, {seconds} AS seconds, {counts} AS counts"
        f" FROM {source} WHERE start_time IS NOT NULL AND {inside} AND {condition.sql}",
        values,
    )


def micro(moment: datetime) -> int:
    """The moment as SQL's epoch_us has it, whole seconds."""
    """A point in time as DuckDB's epoch_us has it."""
    return int(moment.timestamp()) * 1_000_000


def _cut_by_time(kinds: list[str], span: Window, question: Question) -> tuple[str, dict[str, Any]]:
    """Jobs joined with the periods that they touch: of two kinds at once, with the finer one."""
    fine, *coarse = sorted(kinds, key=GROUPED_BY_TIME.index)
    pieces = [(piece.name, piece.since, piece.until) for piece in periods(fine, *span, question.zone)]
    values: dict[str, Any] = {
        "piece_names": [name for name, _, _ in pieces],
        "piece_since": [micro(since) for _, since, _ in pieces],
        "piece_until": [micro(until) for _, _, until in pieces],
    }
    unnested = "unnest($piece_since) AS since, unnest($piece_until) AS until"
    named = f'unnest($piece_names) AS "{fine}"'
    for kind in coarse:
        whole = periods(kind, *span, question.zone)
        values["coarse_names"] = [
            next(one.name for one in reversed(whole) if one.since <= since) for _, since, _ in pieces
        ]
        named += f', unnest($coarse_names) AS "{kind}"'
    table = f"(SELECT {unnested}, {named}) p"
    joined = (
        f"jobs JOIN {table} ON epoch_us(jobs.start_time) < p.until AND epoch_us(jobs.until_time) >= p.since"
    )
    return joined, values


def _by_type(source: str) -> tuple[str, str]:
    """One row for each type of GPU; what is not about GPUs counts at the first type."""
    shares = (
        "CASE WHEN contains(gpu_type, '=') THEN list_transform(string_split(gpu_type, ','),"
        " lambda one: {'t': regexp_replace(one, '=\\d+$', ''),"
        " 'n': regexp_extract(one, '(\\d+)$', 1)::INTEGER})"
        " ELSE [{'t': gpu_type, 'n': gpus}] END"
    )
    numbers = f"unnest(range(1, len({shares}) + 1)) AS of_type"
    spread = f"(SELECT *, unnest({shares}) AS share, {numbers} FROM jobs) jobs"
    once = ", ".join(f"CASE WHEN of_type = 1 THEN {name} ELSE 0 END AS {name}" for name in OF_THE_JOB)
    return (
        f"jobs.* EXCLUDE (share) REPLACE (share.t AS gpu_type, share.n AS gpus, {once})",
        source.replace("jobs", spread, 1),
    )
