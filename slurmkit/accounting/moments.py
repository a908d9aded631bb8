"""Jobs by something that happened to them at one moment in the window, as SQL: a start, an end.

`parts` cuts what a job held; what happened to it happened once, and belongs to one period.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmkit.accounting.parts import Query, chosen, micro, window_of
from slurmkit.accounting.periods import GROUPED_BY_TIME, periods

if TYPE_CHECKING:
    from slurmkit.accounting.ledger import Ledger
    from slurmkit.accounting.question import Question

START = "epoch_us(start_time)"
END = "greatest(epoch_us(coalesce(start_time, submit_time)), epoch_us(coalesce(end_time, until_time)) - 1)"
"""The last moment before a job's end, so that one that ends with the window is inside."""
READY = "epoch_us(greatest(eligible_time, submit_time))"
"""From when a job waits: a requeue sets its submit time anew, and its eligible time may be an older one."""
LAST = "($until - 1)"
"""The last moment of the window, for what is the case then."""


def at_moment(ledger: Ledger, question: Question, moment: str, condition: str) -> Query:
    """A SELECT of the question's jobs whose `moment`, SQL in microseconds, lies in the window.

    One row for each job, with a column for each of `question.by`. A job with GPUs of several types stands
    under the first. `condition` may use `$since` and `$until`, microseconds too.
    """
    span = window_of(ledger, question)
    wanted = chosen(question)
    values = wanted.values | {"since": micro(span.since), "until": micro(span.until)}
    source, names = "jobs", ""
    for kind in (one for one in question.by if one in GROUPED_BY_TIME):
        pieces = periods(kind, *span, question.zone)
        values |= {
            f"{kind}_name": [piece.name for piece in pieces],
            f"{kind}_since": [micro(piece.since) for piece in pieces],
            f"{kind}_until": [micro(piece.until) for piece in pieces],
        }
        columns = [f"{kind}_{end}" for end in ("name", "since", "until")]
        unnested = ", ".join(f"unnest(${column}) AS {column}" for column in columns)
        source += f" JOIN (SELECT {unnested}) ON {moment} >= {kind}_since AND {moment} < {kind}_until"
        names += f', {kind}_name AS "{kind}"'
    return Query(
        f"SELECT jobs.* REPLACE (regexp_extract(gpu_type, '^[^=,]*') AS gpu_type){names} FROM {source}"
        f" WHERE {moment} >= $since AND {moment} < $until AND {condition}"
        f" AND {wanted.sql}",
        values,
    )
