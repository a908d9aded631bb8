"""`slurmkit render`: the script on stdout, all else on stderr."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING

import pytest

from slurmkit.spec import load

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.conftest import Slurmkit


def test_the_script_alone_is_on_stdout(slurmkit: Slurmkit, job: Path, place: Path) -> None:
    done = slurmkit("render", str(job))
    assert done.code == 0
    assert done.out.startswith("#!/bin/bash\n")
    assert "#SBATCH --time=0:10:00\n" in done.out
    assert "sbatch" in done.err
    assert str(place) in done.err


def test_the_same_job_file_makes_the_same_bytes_and_touches_nothing(
    slurmkit: Slurmkit, job: Path, place: Path
) -> None:
    assert slurmkit("render", str(job)) == slurmkit("render", str(job))
    assert [file.name for file in place.iterdir()] == ["job.toml"]


def test_without_a_run_its_id_is_the_name_and_preview(slurmkit: Slurmkit, job: Path, place: Path) -> None:
    answer = slurmkit("render", str(job), "--json").json
    assert answer["id"] == "a-tiny-job-preview"
    assert answer["directory"] == str(place / "runs" / "a-tiny-job-preview")
    assert answer["script"].startswith("#!/bin/bash\n")
    assert answer["command"][0] == "sbatch"


def test_it_may_be_written_to_a_file(slurmkit: Slurmkit, job: Path, place: Path) -> None:
    printed = slurmkit("render", str(job)).out
    done = slurmkit("render", str(job), "-o", "my job.sbatch")
    assert not done.out
    assert (place / "my job.sbatch").read_text() == printed
    assert "'my job.sbatch'" in done.err


@pytest.mark.parametrize("target", ["missing/x.sbatch", "."])
def test_a_file_that_cannot_be_written_is_an_error_with_its_name(
    slurmkit: Slurmkit, job: Path, target: str
) -> None:
    done = slurmkit("render", str(job), "-o", target)
    assert done.code == 2
    assert f"at: {target}" in done.err


def test_explain_says_where_each_value_came_from(slurmkit: Slurmkit, job: Path) -> None:
    done = slurmkit("render", str(job), "--explain", "--set", "resources.time=20m", "--json")
    origins = {row["key"]: row["origin"] for row in done.json}
    assert origins["name"].endswith("job.toml:1:1")
    assert origins["resources.time"].startswith("--set ")
    assert origins["launch.grace"] == "built-in default"


def test_a_value_that_is_likely_not_meant_is_a_warning(slurmkit: Slurmkit, job: Path) -> None:
    assert "4 minutes" in slurmkit("render", str(job), "--set", "resources.time=4:00").err


def test_an_imported_script_is_a_job_file_on_stdout(slurmkit: Slurmkit, place: Path) -> None:
    (place / "old.sbatch").write_text("#!/bin/bash\n#SBATCH -N 2 -t 10\nmodule purge\nsrun ./a.out\n")
    done = slurmkit("import", "old.sbatch")
    assert tomllib.loads(done.out)["resources"] == {"nodes": 2, "time": "0:10:00"}
    assert done.err.startswith("old.sbatch: line 3: `module purge`")


def test_an_imported_script_may_be_written_to_a_file(slurmkit: Slurmkit, place: Path) -> None:
    (place / "old.sbatch").write_text("#!/bin/bash\n#SBATCH -t 10\n./a.out\n")
    assert not slurmkit("import", "old.sbatch", "-o", "job.toml").out
    assert load(place / "job.toml").spec.name == "old.sbatch"


@pytest.mark.parametrize(("data", "said"), [(None, "cannot be read"), (b"\xff", "not UTF-8")])
def test_what_cannot_be_imported_is_an_error_with_its_name(
    slurmkit: Slurmkit, place: Path, data: bytes | None, said: str
) -> None:
    if data is not None:
        (place / "old.sbatch").write_bytes(data)
    done = slurmkit("import", "old.sbatch")
    assert done.code == 2
    assert said in done.err
    assert "at: old.sbatch" in done.err
