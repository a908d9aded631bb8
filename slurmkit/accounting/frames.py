"""The answer to a query as a DataFrame of the kinds that reports promise."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from pandas import DataFrame

    from slurmkit.accounting.ledger import Ledger


def frame_of(
    ledger: Ledger, sql: str, values: Mapping[str, Any] | None = None, *, texts: Iterable[str] = ()
) -> DataFrame:
    """What a query answers; the columns `texts` hold None where the database has NULL, not NaN.

    Whole numbers are int64, or Int64 where one is not known: sums stay exact.
    """
    frame: DataFrame = ledger.connection.execute(sql, dict(values or {})).df()
    return with_none(frame, texts)


def with_none(frame: DataFrame, texts: Iterable[str]) -> DataFrame:
    """The frame, with None where one of those columns has no value."""
    made = {name: frame[name].astype(object).where(frame[name].notna(), None) for name in texts}
    return frame.assign(**made)
