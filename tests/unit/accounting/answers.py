"""A report of made-up figures, asked and answered."""

from __future__ import annotations

from datetime import UTC, datetime

import pandas as pd

from slurmkit.accounting.asking import Answered
from slurmkit.accounting.parts import Window
from slurmkit.accounting.question import question
from slurmkit.accounting.report import Measure, Report, Table

MEASURES = (
    Measure("jobs", "jobs", "count", "jobs"),
    Measure("gpu_seconds", "GPU-hours", "hours", "GPU time"),
    Measure("share", "share", "share", "of all"),
    Measure("wait", "wait", "duration", "in the queue"),
    Measure("since", "since", "time", "first"),
)
FRAME = pd.DataFrame(
    {
        "account": ["physics", None],
        "jobs": [1200, 1],
        "gpu_seconds": [3_600_000, 1],
        "share": [0.75, None],
        "wait": [93784.0, float("nan")],
        "since": pd.to_datetime(["2026-11-01T10:00", ""], utc=True),
    }
)


def answered(frame: pd.DataFrame = FRAME, *, tables: int = 1, notes: tuple[str, ...] = ()) -> Answered:
    made = tuple(
        Table(f"t{n}", f"Table {n}", MEASURES, lambda _ledger, _question: frame) for n in range(tables)
    )
    report = Report("usage", "Who used what.", made, lambda _: ["physics has nearly all of it"])
    window = Window(datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC))
    asked = question(by=["account"], zone=UTC)
    return Answered(report, asked, window, {table.name: frame for table in made}, notes)
