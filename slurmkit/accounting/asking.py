"""The reports there are, and how one is asked."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, cast

from slurmkit.accounting.parts import Window, window_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pandas import DataFrame

    from slurmkit.accounting.ledger import Ledger
    from slurmkit.accounting.question import Question
    from slurmkit.accounting.report import Report, Table

SUMMARIES: Mapping[str, str] = MappingProxyType(
    {
        "usage": "Jobs and CPU-, GPU-, node- and memory-hours, by whom.",
        "efficiency": "What was asked for and not used, and by how much less would have done.",
        "waits": "How long jobs waited, and how long one of a size would have.",
        "failures": "Why jobs failed, what it cost, and the nodes that are suspect.",
        "fairness": "Shares against targets, and how even they are.",
        "fragmentation": "GPUs that were idle while jobs waited.",
        "jobs": "One line for each job: used against asked.",
        "job": "Everything about one job.",
    }
)
"""Name to summary, which is all that help needs; each is a module that exports `REPORT`."""


class Answered(NamedTuple):
    """A report as it was asked, and its frames by the names of its tables."""

    report: Report
    question: Question
    window: Window
    frames: Mapping[str, DataFrame]
    notes: tuple[str, ...] = ()


def report_named(name: str) -> Report:
    """The report of one of the names of `SUMMARIES`."""
    return cast("Report", import_module(f"slurmkit.accounting.reports.{name}").REPORT)


def with_default(report: Report, question: Question, *, by_default: bool) -> Question:
    """The question, grouped as the report is by default where nothing was said of groups."""
    return replace(question, by=report.default_by) if by_default else question


def ask(report: Report, ledger: Ledger, question: Question, *, table: str | None = None) -> Answered:
    """Build a report's tables, or the one that is named.

    Raises:
        UsageError: it has no table of that name.
    """
    wanted = report.tables if table is None else (table_named(report, table),)
    frames = {one.name: one.build(ledger, question) for one in wanted}
    return Answered(report, question, window_of(ledger, question), frames, ledger.notes)


def table_named(report: Report, name: str) -> Table:
    """A report's table.

    Raises:
        UsageError: it has none of that name.
    """
    from slurmkit.errors import UsageError

    for one in report.tables:
        if one.name == name:
            return one
    raise UsageError(
        f"the report {report.name} has no table {name!r}",
        hint=f"one of {', '.join(one.name for one in report.tables)}",
    )
