"""Open XDMoD's dumps are known by their first line, and read in UTC whatever the reader's zone is."""

from __future__ import annotations

import gzip
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from slurmkit.accounting.source import open_source
from slurmkit.accounting.xdmod import FIELDS, is_xdmod

if TYPE_CHECKING:
    from pathlib import Path

LINE = (
    "12_3|14|aurora|main|normal|research|users|100|ada|1000|2026-11-03T06:00:00|2026-11-03T06:00:00"
    "|2026-11-03T06:30:00|2026-11-03T07:30:00|01:00:00|0:0|COMPLETED|2|16|16|4000M|cpu=16,mem=8000M,node=2"
    "|cpu=16,gres/gpu:a100=8,gres/gpu=8,mem=8000M,node=2|1-00:00:00|n[1-2]|train|with a bar"
)


def test_the_first_line_tells() -> None:
    assert LINE.count("|") == len(FIELDS)
    assert is_xdmod(LINE + "\n")
    assert is_xdmod(LINE.replace("2026-11-03T07:30:00", "Unknown"))
    assert not is_xdmod("|".join(FIELDS))
    assert not is_xdmod("12|COMPLETED|0:0")
    assert not is_xdmod(LINE.replace("2026-11-03T06:30:00", "1793687400"))
    assert not is_xdmod("")


@pytest.mark.parametrize("packed", [False, True])
def test_its_records_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    dump = tmp_path / "slurm.log"
    data = f"{LINE}\n".encode()
    dump.write_bytes(gzip.compress(data) if packed else data)
    with closing(open_source(dump)) as ledger:
        found = ledger.connection.execute(
            "SELECT cluster, job_id, job_number, array_task, start_time, elapsed, gpus, nodes, name,"
            " time_limit FROM jobs"
        ).fetchall()
    start = datetime(2026, 11, 3, 6, 30, tzinfo=UTC)
    assert found == [("aurora", "12_3", 14, 3, start, 3600, 8, 2, "train|with a bar", 86400.0)]
