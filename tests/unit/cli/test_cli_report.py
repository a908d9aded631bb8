"""`slurmkit report` on a dump that somebody made with sacct."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING

import duckdb
import pytest

from slurmkit.accounting.asking import SUMMARIES

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.conftest import Slurmkit

FIELDS = (
    "JobID|JobIDRaw|Cluster|User|Account|Partition|QOS|State|ExitCode|Submit|Eligible|Start|End|ElapsedRaw"
    "|Suspended|TimelimitRaw|NNodes|NodeList|AllocCPUS|AllocTRES|ReqTRES|TotalCPU|MaxRSS|JobName"
)
HOUR = 3600
NOVEMBER = 1793491200
"""The first of November 2026, midnight in UTC."""


def line(number: int, user: str, *, begin: int, hours: int, gpus: int, state: str = "COMPLETED") -> str:
    start = NOVEMBER + begin * HOUR
    tres = f"billing=8,cpu=8,gres/gpu={gpus},mem=32G,node=1"
    times = f"{start - 60}|{start - 60}|{start}|{start + hours * HOUR}"
    return (
        f"{number}|{number}|test|{user}|physics|train|normal|{state}|0:0|{times}"
        f"|{hours * HOUR}|00:00:00|600|1|n1|8|{tres}|{tres}|01:00:00||train"
    )


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    path = tmp_path / "sacct.txt"
    rows = [
        line(1, "anna", begin=0, hours=2, gpus=4),
        line(2, "bert", begin=23, hours=2, gpus=8),
        line(3, "anna", begin=30, hours=1, gpus=1, state="FAILED"),
        "3.batch|3.batch|test||physics|||FAILED|1:0|||1793599200|1793602800|3600|00:00:00||1|n1|8|cpu=8,mem=32G,node=1"
        "||01:00:00|1G|batch",
    ]
    path.write_text("\n".join([FIELDS, *rows]) + "\n")
    return path


@pytest.mark.parametrize("name", SUMMARIES)
def test_every_report_is_made_of_a_dump(slurmkit: Slurmkit, dump: Path, name: str) -> None:
    words = ["report", name, "--source", str(dump), "--time-zone", "UTC", "--json"]
    done = slurmkit(*words, *(["1"] if name == "job" else []))
    assert done.code == 0, done.err
    data = json.loads(done.out)
    assert data["report"] == name
    assert data["tables"]


@pytest.mark.parametrize("group", ["none", "gpu_type", "week,gpu_type", "cluster,qos", "state", "month,day"])
@pytest.mark.parametrize("name", ["usage", "waits", "failures"])
def test_a_dump_is_read_for_what_the_groups_need(
    slurmkit: Slurmkit, dump: Path, name: str, group: str
) -> None:
    done = slurmkit("report", name, "--source", str(dump), "--by", group, "--json")
    assert done.code == 0, done.err


def test_a_dump_is_read_for_what_jobs_are_chosen_by(slurmkit: Slurmkit, dump: Path) -> None:
    chosen = {"user": "anna", "account": "physics", "partition": "train", "qos": "normal",
              "state": "COMPLETED", "cluster": "test", "name": "tr*"}  # fmt: skip
    options = [word for name, value in chosen.items() for word in (f"--{name}", value)]
    done = slurmkit("report", "usage", "--source", str(dump), "--by", "none", *options, "--json")
    assert json.loads(done.out)["tables"]["usage"][0]["jobs"] == 1


def test_usage_counts_what_lies_inside_the_window(slurmkit: Slurmkit, dump: Path) -> None:
    done = slurmkit(
        "report", "usage", "--source", str(dump), "--time-zone", "UTC",
        "--since", "2026-11-01", "--until", "2026-11-02", "--by", "user", "--format", "csv",
    )  # fmt: skip
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert [(row["user"], row["jobs"], row["gpu_seconds"]) for row in rows] == [
        ("anna", "1", str(8 * HOUR)),
        ("bert", "1", str(8 * HOUR)),
    ]


def test_people_read_a_table(slurmkit: Slurmkit, dump: Path) -> None:
    done = slurmkit("report", "usage", "--source", str(dump), "--time-zone", "UTC", "--by", "user")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0] == "usage by user, 2026-11-01 00:00 to 2026-11-02 07:00 (UTC)"
    assert "USER" in done.out
    assert any(line.startswith("bert") and "16.0" in line for line in lines)
    assert "\x1b" not in done.out


@pytest.mark.parametrize("suffix", ["csv", "json", "parquet", "md", "html", "txt"])
def test_the_suffix_of_the_file_tells_the_format(
    slurmkit: Slurmkit, dump: Path, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"out.{suffix}"
    done = slurmkit("report", "usage", "--source", str(dump), "--by", "user", "-o", str(path))
    assert (done.code, done.out) == (0, "")
    begin = path.read_bytes()[:200]
    signs = {
        "csv": b"user,jobs",
        "json": b'{\n  "report"',
        "parquet": b"PAR1",
        "md": b"# usage",
        "html": b"<!DOC",
        "txt": b"usage by",
    }
    assert begin.startswith(signs[suffix])
    if suffix == "parquet":
        assert len(duckdb.read_parquet(str(path)).fetchall()) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["usage", "--by", "usr"], "did you mean user?"),
        (["usage", "--since", "soon"], "not a time: 'soon'"),
        (["usage", "--since", "2026-11-02", "--until", "2026-11-01"], "ends before it begins"),
        (["usage", "--table", "x"], "has no table 'x'"),
        (["usage", "--format", "parquet"], "Parquet is not for a terminal"),
        (["usage", "--time-zone", "Nowhere"], "no time zone is called 'Nowhere'"),
        (["usage", "-o", "/nonexistent/x.csv"], "cannot be written"),
    ],
)
def test_what_cannot_be_done_is_said(slurmkit: Slurmkit, dump: Path, words: list[str], message: str) -> None:
    done = slurmkit("report", *words, "--source", str(dump))
    assert done.code == 2
    assert message in done.err
    assert done.out == ""


def test_a_source_that_is_not_there_is_said(slurmkit: Slurmkit, tmp_path: Path) -> None:
    done = slurmkit("report", "usage", "--source", str(tmp_path / "gone"))
    assert done.code == 2
    assert "gone" in done.err


def test_without_a_store_the_command_that_makes_one_is_named(slurmkit: Slurmkit) -> None:
    done = slurmkit("report", "usage")
    assert done.code == 2
    assert "slurmkit accounting sync" in done.err


def test_from_python_a_report_is_a_function(dump: Path) -> None:
    from slurmkit import accounting

    frame = accounting.usage(dump, by=["user"], since="2026-11-01")
    assert dict(zip(frame["user"], frame["gpu_seconds"], strict=True)) == {
        "anna": 9 * HOUR,
        "bert": 16 * HOUR,
    }
    assert accounting.usage(dump, by=["user"], users=["anna"]).shape[0] == 1
    assert callable(accounting.usage)


def test_fields_that_cannot_be_read_and_runaways_are_counted_beneath(slurmkit: Slurmkit, dump: Path) -> None:
    text = dump.read_text().replace("|600|1|n1|", "|6oo|1|n1|", 1)
    dump.write_text(text + line(9, "anna", begin=0, hours=48, gpus=1, state="RUNNING") + "\n")
    out = slurmkit("report", "usage", "--source", str(dump), "--by", "none").out
    assert "note: runaways, which run in accounting alone and are in no sum: 1" in out
    told = slurmkit("report", "jobs", "--source", str(dump), "--json").out
    assert any("could not be read" in note for note in json.loads(told)["notes"])
