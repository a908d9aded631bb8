"""`slurmkit accounting export` on a testbed: what Slurm says, as node exporter reads it."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tests.cluster.site import Site, until
from tests.unit.accounting.exposition import Found, promtool_says, read, value

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from slurmkit.testbed.testbed import Testbed

pytestmark = pytest.mark.cluster


@pytest.fixture
def site(slurm_testbed: Testbed, tmp_path: Path) -> Iterator[Site]:
    with closing(Site(slurm_testbed, tmp_path)) as site:
        site.environment["XDG_DATA_HOME"] = str(tmp_path / "data")
        yield site


def exported(site: Site) -> Found:
    site.run("accounting", "export", "--textfile", "out.prom")
    file = site.work / "out.prom"
    assert file.stat().st_mode & 0o777 == 0o644
    assert promtool_says(file.read_text()) == ""
    return read(file.read_text())


def test_the_queue_and_the_gpus_are_what_slurm_says(site: Site) -> None:
    def call(*words: str) -> str:
        done = site.testbed.command(words)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    submit = [
        "sbatch",
        "--parsable",
        "--output=/dev/null",
        "--chdir=/tmp",
        "--mem=100M",
        "--wrap=exec sleep 300",
    ]
    running = call(*submit, "--gpus=3", "--nodelist=n1")
    call(*submit, "--hold", "--array=0-9")
    call("scontrol", "update", "NodeName=n2", "State=DRAIN", "Reason=test")
    try:
        until(lambda: call("squeue", "-h", "-o%T", f"-j{running}") == "RUNNING", "a job runs")
        found = exported(site)
    finally:
        call("scontrol", "update", "NodeName=n2", "State=RESUME")
    gpus = {
        state: value(found, "slurmkit_gpus", type="a100", state=state)
        for state in ("allocated", "idle", "down")
    }

    assert gpus["allocated"] == 3
    assert gpus["down"] == 8
    assert sum(gpus.values()) == 8 * len(site.testbed.nodes)
    assert value(found, "slurmkit_jobs", cluster=site.testbed.cluster, state="pending") == 10
    assert value(found, "slurmkit_jobs", state="running") == 1


def test_waits_and_ends_come_from_the_store_once_there_is_one(site: Site) -> None:
    before = exported(site)
    job = site.testbed.command(["sbatch", "--parsable", "--output=/dev/null", "--chdir=/tmp", "--mem=100M",
                                "--wrap=exit 3"]).stdout.strip()  # fmt: skip
    asked = ["sacct", "-X", "-n", "-P", "-o", "State", f"-j{job}"]
    until(lambda: site.testbed.command(asked).stdout.strip() == "FAILED", "a job has failed")

    def synced() -> Found:
        site.run("accounting", "sync", "--since", "1d")
        return exported(site)

    # slurmdbd lists a job by its time some moments after it knows it by its id.
    until(lambda: any(("state", "failed") in labels for _, labels in synced()), "the failed job is stored")
    after = exported(site)

    assert not [name for name, _ in before if name == "slurmkit_ended_jobs"]
    assert value(after, "slurmkit_ended_jobs", state="failed") >= 1
    assert value(after, "slurmkit_wait_seconds", percentile="50") >= 0
    assert value(after, "slurmkit_accounting_window_seconds") == 7 * 86_400


def test_a_file_that_cannot_be_written_or_would_not_be_read_is_refused(site: Site) -> None:
    assert site.run("accounting", "export", "--textfile", "no/such/folder/x.prom", code=2) == ""
    assert site.run("accounting", "export", "--textfile", "x.txt", code=2) == ""
