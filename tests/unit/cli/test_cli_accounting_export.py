"""`slurmkit accounting export` without a Slurm: the file, and what is said where it cannot be."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from slurmkit.slurm.records import Node, Partition
from slurmkit.slurm.states import NodeState
from tests.unit.accounting.exposition import read, value
from tests.unit.run.conftest import make_job

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.conftest import Slurmkit
    from tests.unit.run.conftest import FakeSlurm

NODE = Node(
    name="n1",
    address="n1",
    hostname="n1",
    state=NodeState("MIXED"),
    gres="gpu:a100:8",
    gres_used="gpu:a100:3(IDX:0-2)",
    partitions=("train",),
)


@pytest.fixture(autouse=True)
def cluster(slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    train = Partition(name="train", is_default=True, state="UP", nodes=("n1",))
    monkeypatch.setattr(slurm, "partitions", lambda: [train])
    monkeypatch.setattr(slurm, "nodes", lambda: [NODE])
    slurm.configuration["ClusterName"] = "aurora"
    slurm.live = [make_job("12", "RUNNING", partition="train")]
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def test_without_a_store_the_file_has_what_is_now_and_a_note_says_what_is_missing(
    slurmkit: Slurmkit, place: Path
) -> None:
    done = slurmkit("accounting", "export", "--textfile", "out.prom")
    found = read((place / "out.prom").read_text())

    assert (done.out, done.code) == ("", 0)
    assert "slurmkit accounting sync" in done.err
    assert value(found, "slurmkit_gpus", cluster="aurora", state="allocated") == 3
    assert value(found, "slurmkit_jobs", partition="train", state="running") == 1
    assert not [name for name, _ in found if name == "slurmkit_ended_jobs"]


def test_the_file_is_readable_by_all_whatever_the_umask(slurmkit: Slurmkit, place: Path) -> None:
    before = os.umask(0o077)
    try:
        slurmkit("accounting", "export", "--textfile", "out.prom")
    finally:
        os.umask(before)

    assert (place / "out.prom").stat().st_mode & 0o777 == 0o644
    assert [path.name for path in place.iterdir()] == ["out.prom"]


def test_a_name_that_node_exporter_would_not_read_is_refused(slurmkit: Slurmkit, place: Path) -> None:
    done = slurmkit("accounting", "export", "--textfile", "out.txt")

    assert done.code == 2
    assert ".prom" in done.err
    assert list(place.iterdir()) == []


def test_where_the_file_cannot_be_written_the_reason_is_said(slurmkit: Slurmkit) -> None:
    done = slurmkit("accounting", "export", "--textfile", "no/such/folder/out.prom")

    assert done.code == 2
    assert "No such file or directory" in done.err


def test_a_store_that_was_named_has_to_be_there(slurmkit: Slurmkit, place: Path) -> None:
    done = slurmkit("accounting", "export", "--textfile", "out.prom", "--store", "absent")

    assert done.code == 2
    assert list(place.iterdir()) == []
