from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from slurmkit.errors import Unreachable
from tests.unit.cli.conftest import own_job

if TYPE_CHECKING:
    from pathlib import Path

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
    }


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
