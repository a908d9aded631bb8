from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.cli.conftest import own_job

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.conftest import Make, Slurmkit
    from tests.unit.run.conftest import FakeSlurm

DONE = ("run-ended", {"exit_code": 0})


def test_all_runs_are_listed_newest_first(slurmkit: Slurmkit, add_run: Make) -> None:
    for name in ("a", "b"):
        add_run(name, DONE, days=100)
    assert [row["id"] for row in slurmkit("runs", "--json").json] == ["b", "a"]


def test_only_what_ended_long_ago_is_pruned(
    slurmkit: Slurmkit, add_run: Make, slurm: FakeSlurm, tmp_path: Path
) -> None:
    old = add_run("old", DONE, days=31)
    kept = [
        add_run("young", DONE, days=29),
        add_run("running", job_id="7", days=99),
        add_run("blocked", job_id="8", days=99),
    ]
    slurm.live = [own_job("7"), own_job("8", "PENDING", reason="DependencyNeverSatisfied")]
    done = slurmkit("runs", "--prune", "--yes", "--json")
    assert [(row["id"], row["deleted"]) for row in done.json] == [("old", True)]
    assert not old.root.exists()
    assert not (tmp_path / "state/slurmkit/runs/old").is_symlink()
    assert all(paths.run_json.exists() for paths in kept)


@pytest.mark.parametrize(("age", "pruned"), [("10d", 0), ("4d", 1), ("100h", 1), ("1h30m", 1)])
def test_the_age_is_a_human_duration(slurmkit: Slurmkit, add_run: Make, age: str, pruned: int) -> None:
    add_run("r", DONE, days=5)
    assert len(slurmkit("runs", "--prune", "--older-than", age, "--yes", "--json").json) == pruned


def test_files_of_others_stay_and_are_named(slurmkit: Slurmkit, add_run: Make) -> None:
    paths = add_run("r", DONE, days=99)
    (paths.root / "checkpoint.pt").write_text("precious")
    done = slurmkit("runs", "--prune", "--yes", "--json")
    assert done.json[0]["deleted"] is False
    assert f"{paths.root} stays" in done.err
    assert [path.name for path in paths.root.iterdir()] == ["checkpoint.pt"]
    assert slurmkit("runs", "--json").json == []


def test_without_yes_somebody_must_be_there_to_be_asked(slurmkit: Slurmkit, add_run: Make) -> None:
    paths = add_run("r", DONE, days=99)
    done = slurmkit("runs", "--prune")
    assert done.code == 2
    assert str(paths.root) in done.err
    assert paths.root.exists()


def test_no_run_that_old_is_no_error(slurmkit: Slurmkit, add_run: Make) -> None:
    add_run("r", DONE)
    assert slurmkit("runs", "--prune") == ("", "no run is that old\n", 0)


@pytest.mark.parametrize("options", [("--yes",), ("--older-than", "3d"), ("--prune", "--older-than", "soon")])
def test_options_that_make_no_sense_are_an_error(slurmkit: Slurmkit, options: tuple[str, ...]) -> None:
    assert slurmkit("runs", *options).code == 2
