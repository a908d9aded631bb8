"""Reports of real jobs, synced from a real slurmdbd through the command."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.site import Site, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slurmkit.testbed.testbed import Testbed

pytestmark = pytest.mark.cluster

OURS = ("--name", "reports-*")
"""Other tests' jobs are in the records, too."""

WHAT = ("productive", "checkpointing", "startup", "lost", "hung", "idle", "unknown")


@pytest.fixture(scope="module")
def site(slurm_testbed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A user of whose jobs all have ended: a run that was done, one that failed, an array, a plain job."""
    with closing(Site(slurm_testbed, tmp_path_factory.mktemp("site"))) as site:
        site.environment["XDG_DATA_HOME"] = site.environment["XDG_STATE_HOME"]
        site.submit(str(site.job("sleep 3", name="reports-done", gpus="a100:2")))
        site.submit(str(site.job("sleep 2; exit 3", name="reports-fails", gpus="a100:1")))
        for name, options in (("array", ["--array=1-3"]), ("plain", ["--gpus=a100:4", "--comment=mine"])):
            done = slurm_testbed.command(
                ["sbatch", f"--job-name=reports-{name}", "--output=/dev/null", "--chdir=/tmp", "--mem=50M",
                 *options, "--wrap", 'sleep 2; exit $((${SLURM_ARRAY_TASK_ID:-0} == 2))']
            )  # fmt: skip
            assert done.returncode == 0, done.stderr

        def is_over() -> bool:
            site.run("accounting", "sync", "--since", "1h")
            tables = rows(site, "jobs")
            return len(tables) == 4 and not any(
                word in line["state"] for line in tables for word in ("RUNNING", "PENDING", "COMPLETING")
            )

        until(is_over, "all jobs have ended in the store")
        yield site


def rows(site: Site, report: str, *options: str, table: str | None = None) -> list[dict[str, Any]]:
    answer = site.json("report", report, *options, *OURS)
    found: list[dict[str, Any]] = answer["tables"][table or report]
    return found


def test_each_job_is_a_line_and_an_array_one_that_counts_its_states(site: Site) -> None:
    lines = {line["name"].removeprefix("reports-"): line for line in rows(site, "jobs")}
    assert {name: (line["state"], line["exit"]) for name, line in lines.items()} == {
        "done": ("COMPLETED", "0"),
        "fails": ("FAILED", "3"),
        "array": ("2 COMPLETED, 1 FAILED", "1"),
        "plain": ("COMPLETED", "0"),
    }
    assert lines["array"]["starts"] == 3
    assert lines["done"]["gpus"] == 2
    assert lines["plain"]["gpu_seconds"] == 4 * lines["plain"]["elapsed"]


def test_one_job_is_shown_with_its_steps_and_the_run_that_it_is_of(site: Site) -> None:
    (line,) = [line for line in rows(site, "jobs") if line["name"] == "reports-fails"]
    (attempt,) = rows(site, "job", line["job_id"], table="attempts")
    assert attempt["run"] == site.json("status", line["job_id"])[0]["id"]
    steps = rows(site, "job", line["job_id"], table="steps")
    assert {"batch", "0"} <= {step["step"] for step in steps}
    assert "3" in {step["exit"] for step in steps}


def test_efficiency_guesses_nothing(site: Site) -> None:
    answer = site.json("report", "efficiency", *OURS)
    (row,) = answer["tables"]["efficiency"]
    assert row["jobs"] == 6
    assert row["gpu_efficiency"] is None
    assert 0 <= (row["cpu_efficiency"] or 0) < 1
    assert "How busy GPUs were is not known: the site does not store gres/gpuutil." in answer["stands_out"]
    assert answer["tables"]["advice"] == []


def test_goodput_is_known_from_the_events_of_runs_and_adds_up_to_usage(site: Site) -> None:
    told = rows(site, "goodput", "--by", "none")
    (used,) = rows(site, "usage", "--by", "none")
    assert sum(row["gpu_seconds"] for row in told) == used["gpu_seconds"]
    for row in told:
        assert sum(row[f"{kind}_seconds"] for kind in WHAT) == row["gpu_seconds"]
    of = {row["known_from"]: row for row in told}
    assert (of["events"]["jobs"], of["accounting"]["jobs"]) == (2, 1)
    assert of["events"]["productive_seconds"] > 0  # of the one that was done
    assert of["events"]["lost_seconds"] > 0  # of the one that failed
    plain = {line["name"]: line for line in rows(site, "jobs")}["reports-plain"]
    # It slept: where its CPU time was gathered that is known, else all of a COMPLETED job counts.
    kept = of["accounting"]["productive_seconds"], of["accounting"]["idle_seconds"]
    assert sorted(kept) == [0, plain["gpu_seconds"]]
