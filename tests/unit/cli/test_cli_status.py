from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from slurmkit.cli import status
from slurmkit.cli.output import cell
from slurmkit.errors import Unreachable
from tests.unit.cli.conftest import own_job

if TYPE_CHECKING:
    from pathlib import Path

    from slurmkit.run.paths import RunPaths
    from tests.unit.cli.conftest import Make, Slurmkit
    from tests.unit.run.conftest import FakeSlurm

DONE = ("run-ended", {"exit_code": 0})


def test_what_goes_on_and_what_ended_lately_is_shown(
    slurmkit: Slurmkit, add_run: Make, slurm: FakeSlurm
) -> None:
    add_run("long-over", DONE, days=3)
    add_run("over", DONE)
    add_run("old-and-running", job_id="12", days=9)
    slurm.live = [own_job("12")]
    done = slurmkit("status")
    assert [line.split()[:2] for line in done.out.splitlines()[1:]] == [
        ["old-and-running", "running"],
        ["over", "completed"],
    ]
    assert [row["id"] for row in slurmkit("status", "--all", "--json").json] == [
        "old-and-running",
        "over",
        "long-over",
    ]


def test_runs_that_are_named_are_shown_however_old(slurmkit: Slurmkit, add_run: Make) -> None:
    add_run("long-over", DONE, days=30)
    assert [row["id"] for row in slurmkit("status", "long", "--json").json] == ["long-over"]


def test_one_squeue_and_one_sacct_however_many_runs(
    slurmkit: Slurmkit, add_run: Make, slurm: FakeSlurm
) -> None:
    for number in range(1, 31):
        add_run(f"r-{number}", job_id=str(number))
    slurm.live = [own_job(str(number)) for number in range(1, 11)]
    slurm.past = [own_job(str(number), "FAILED", exit_code="1:0") for number in range(11, 31)]
    assert len(slurmkit("status", "--json").json) == 30
    assert slurm.calls == ["jobs", "accounting"]


def test_the_keys_of_json_are_these(slurmkit: Slurmkit, add_run: Make) -> None:
    paths = add_run("r", ("attempt-started", {"attempt": "12-0", "job_id": "12", "nodes": ["n1"]}), DONE)
    (row,) = slurmkit("status", "--json").json
    times = {name: row.pop(name) for name in ("submitted", "started", "ended")}
    assert all(datetime.fromisoformat(time).utcoffset() is not None for time in times.values())
    assert row == {
        "id": "r",
        "name": "a name",
        "state": "completed",
        "reason": None,
        "job_id": "12",
        "cluster": None,
        "job_state": None,
        "exit_code": 0,
        "elapsed": 0.0,
        "nodes": ["n1"],
        "attempts": 1,
        "tasks": {},
        "directory": str(paths.root),
        "step": None,
        "total": None,
        "steps_per_second": None,
        "seconds_left": None,
        "straggler": None,
    }


ATTEMPT = ("attempt-started", {"attempt": "12-0", "job_id": "12", "nodes": ["n1"]})


def tell_progress(paths: RunPaths, **fields: object) -> None:
    """Write what an agent would."""
    now = datetime.now(UTC).timestamp()
    slow = {"rank": 3, "host": "n2\x1b[31m", "phase": "data", "own": 0.312, "median": 0.2, "since": now}
    known = {"updated": now, "step": 120, "total": 1000, "steps_per_second": 12.25, "seconds_left": 72.0}
    file = paths.progress("12-0")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({**known, "stragglers": [slow, slow], **fields}))


def test_progress_is_told_where_there_is_any(slurmkit: Slurmkit, add_run: Make, slurm: FakeSlurm) -> None:
    tell_progress(add_run("r", ATTEMPT))
    slurm.live = [own_job(start_time=datetime.now(UTC))]
    (row,) = slurmkit("status", "--json").json
    assert {name: row[name] for name in ("step", "total", "steps_per_second", "seconds_left")} == {
        "step": 120,
        "total": 1000,
        "steps_per_second": 12.25,
        "seconds_left": 72.0,
    }
    out = slurmkit("status").out.splitlines()
    assert out[0].split() == [
        "ID",
        "STATE",
        "JOB",
        "ID",
        "ELAPSED",
        "STEP",
        "SPEED",
        "TIME",
        "LEFT",
        "REASON",
    ]
    assert re.split("  +", out[1])[4:] == ["120/1000", "12.2/s", "1m 12s", "-"]
    slow = "rank 3 on n2\\x1b[31m is slow in data: 312 ms a step of its own, the others 200 ms (+56 %)"
    assert out[2:] == [f"r: {slow}; 1 more"]


def test_runs_without_progress_stand_beside_those_with(
    slurmkit: Slurmkit, add_run: Make, slurm: FakeSlurm
) -> None:
    tell_progress(add_run("a", ATTEMPT, job_id="12"), total=None, seconds_left=None, stragglers=[])
    add_run("b", job_id="13")
    slurm.live = [own_job("12"), own_job("13", "PENDING")]
    told = {line.split()[0]: re.split("  +", line)[4:7] for line in slurmkit("status").out.splitlines()}
    assert (told["a"], told["b"]) == (["120", "12.2/s", "-"], ["-", "-", "-"])


def test_on_a_narrow_terminal_ids_are_whole_and_reasons_stand_beneath(
    slurmkit: Slurmkit, add_run: Make, slurm: FakeSlurm
) -> None:
    tell_progress(add_run("llama-8b-20261201-a1b2c3", ATTEMPT), step=41230, total=100000)
    tell_progress(add_run("vit-20261201-a1b2c3", job_id="13"))
    slurm.live = [own_job(), own_job("13", "PENDING", reason="Priority")]
    rows = slurmkit("status", "--json").json
    answer = status._answer(rows, empty="", is_wide=False)
    assert answer.rows is not None
    widths = [max(len(name), *(len(cell(row[name])) for row in answer.rows)) for name in answer.columns]
    assert sum(widths) + 2 * (len(widths) - 1) <= 80
    assert answer.text.splitlines()[0] == "vit-20261201-a1b2c3: Priority"


def test_of_a_run_that_ended_the_step_stands_and_no_speed(slurmkit: Slurmkit, add_run: Make) -> None:
    tell_progress(add_run("r", ATTEMPT, DONE), step=1000)
    (row,) = slurmkit("status", "--json").json
    names = ("step", "total", "steps_per_second", "seconds_left", "straggler")
    assert [row[name] for name in names] == [1000, 1000, None, None, None]


def test_an_outage_of_slurms_is_a_reason_not_an_error(
    slurmkit: Slurmkit, add_run: Make, slurm: FakeSlurm
) -> None:
    add_run("r")
    slurm.live = slurm.past = Unreachable("no answer")
    done = slurmkit("status")
    assert done.code == 0
    assert "last known; Slurm does not answer" in done.out


@pytest.mark.parametrize("arguments", [(), ("--all",)])
def test_without_runs_it_says_how_to_make_one(slurmkit: Slurmkit, arguments: tuple[str, ...]) -> None:
    assert slurmkit("status", *arguments).err == "there is no run yet; `slurmkit submit job.toml` makes one\n"
    assert slurmkit("status", *arguments, "--json").json == []


def test_a_run_that_is_none_is_an_error(slurmkit: Slurmkit) -> None:
    done = slurmkit("status", "nothing")
    assert done.code == 2
    assert "no run is called 'nothing'" in done.err


@pytest.mark.parametrize(
    ("arguments", "helped"),
    [
        (("status", "--json"), ("status",)),
        (("wait", "r", "--json"), ("status",)),
        (("runs", "--json"), ("status",)),
        (("show", "r", "--json"), ("status", "show")),
        (("cancel", "r", "--json"), ("cancel",)),
        (("submit", "job.toml", "--json"), ("submit",)),
        (("submit", "job.toml", "--dry-run", "--json"), ("submit",)),
        (("runs", "--prune", "--older-than", "1s", "--yes", "--json"), ("runs",)),
    ],
    ids=" ".join,
)
def test_every_key_of_json_is_in_the_help(
    slurmkit: Slurmkit, job: Path, add_run: Make, arguments: tuple[str, ...], helped: tuple[str, ...]
) -> None:
    add_run("r", DONE, days=0.9)
    data = slurmkit(*arguments).json
    keys = set(data if isinstance(data, dict) else data[0])
    words = set(re.findall(r"[a-z_]+", " ".join(slurmkit(name, "--help").out for name in helped)))
    assert keys - words == set()
