"""The reports there are, and how one is asked."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, cast

from slurmkit.accounting.parts import OF_THE_JOB, Window, window_of
from slurmkit.accounting.periods import GROUPED_BY_TIME

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
        "goodput": "GPU-hours that made progress, and those lost, hung or idle.",
        "fairness": "Shares against targets, and how even they are.",
        "fragmentation": "GPUs that were idle while jobs waited.",
        "jobs": "One line for each job: used against asked.",
        "job": "Everything about one job.",
    }
)
"""Name to summary, which is all that help needs; each is a module that exports `REPORT`."""


ALWAYS = ("submit_time", "start_time", "end_time", "until_time", "elapsed")
"""Columns by which jobs are cut to a window."""

ASKED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "users": ("user",),
        "accounts": ("account",),
        "partitions": ("partition",),
        "qos": ("qos",),
        "clusters": ("cluster",),
        "names": ("name",),
        "jobs": ("job_id", "job_number", "array_job", "het_job"),
    }
)
"""Columns by which a question chooses jobs, by the question's fields."""

GROUPED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"gpu_type": ("gpu_type", "gpus", *OF_THE_JOB)} | dict.fromkeys(GROUPED_BY_TIME, ())
)
"""Columns that a group needs, where it is not the one of its name."""


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


def columns_read(report: Report, question: Question) -> frozenset[str] | None:
    """The columns of jobs that a report reads for a question; None where it is all of them, and the steps."""
    if report.columns is None:
        return None
    asked = {column for name, columns in ASKED.items() if getattr(question, name) for column in columns}
    groups = {column for name in question.by for column in GROUPED.get(name, (name,))}
    return frozenset({*report.columns, *ALWAYS, *asked, *groups})


def ask(report: Report, ledger: Ledger, question: Question, *, table: str | None = None) -> Answered:
    """Build a report's tables, or the one that is named.

    Raises:
        UsageError: it has no table of that name.
    """
    wanted = report.tables if table is None else (table_named(report, table),)
    span = window_of(ledger, question)
    # With its ends, so that each table need not look for them again.
    within = replace(question, since=span.since, until=span.until)
    frames = {one.name: one.build(ledger, within) for one in wanted}
    return Answered(report, question, span, frames, ledger.notes)


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
