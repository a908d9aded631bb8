"""What the job file's texts mean, asked of a real Slurm."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from slurmkit.spec.patterns import expand
from slurmkit.spec.units import format_time, parse_memory, parse_time, slurm_minutes
from tests.cluster.batch import fields
from tests.cluster.site import until

if TYPE_CHECKING:
    from pathlib import Path

    from slurmkit.testbed.testbed import Testbed

pytestmark = pytest.mark.cluster

PATTERNS = (
    "job%j.out",
    "%5j.out",
    "%12A.out",
    "%A_%4a.log",
    "a%%b-%A",
    "%%%j",
    "%x-%u-%j",
    "%J.%s.%2t",
    "%z-%j",
    "100%-%j%",
    "with a space %j",
    "{directory}/pre\\\\%j.out",
    "{directory}/all\\%j.out",
)
TIMES = ("4", "4:00", "90:30", "1:30:00", "1-0", "1-12", "2-12:30", "3-0:00", "0-0:59:30", "1-1:1:1")
SIZES = ("100", "1g", "1GB", "1024K", "500k", "2M")


def sbatch(testbed: Testbed, directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sbatch", "--parsable", *arguments],
        input="#!/bin/sh\ntrue\n",
        env={**os.environ, **testbed.environment},
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )


def show(testbed: Testbed, job: str) -> dict[str, str]:
    return fields(testbed.command(["scontrol", "show", "job", job]).stdout)


def completed(testbed: Testbed, job: str) -> dict[str, str]:
    until(lambda: show(testbed, job)["JobState"] == "COMPLETED", f"job {job} ends")
    return show(testbed, job)


def test_trap_143_a_pattern_is_expanded_as_sbatch_does(slurm_testbed: Testbed, tmp_path: Path) -> None:
    user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    names = {}
    for pattern in PATTERNS:
        output = pattern.format(directory=tmp_path)
        submitted = sbatch(slurm_testbed, tmp_path, "--array=3", "--job-name=big sim", f"--output={output}")
        assert submitted.returncode == 0, submitted.stderr
        array = submitted.stdout.strip()
        job = completed(slurm_testbed, array)["JobId"]
        values: dict[str, str | int] = {
            "j": job, "J": job, "A": array, "a": 3, "x": "big sim", "u": user, "s": "batch", "t": 0,
        }  # fmt: skip
        names[pattern] = tmp_path / expand(output, values)
    assert [pattern for pattern, name in names.items() if not name.is_file()] == [], sorted(
        tmp_path.iterdir()
    )


def held(testbed: Testbed, directory: Path, option: str) -> dict[str, str]:
    """The fields of a job that is held and at once cancelled."""
    submitted = sbatch(testbed, directory, "--hold", option)
    assert submitted.returncode == 0, submitted.stderr
    job = submitted.stdout.strip()
    try:
        return show(testbed, job)
    finally:
        testbed.command(["scancel", job])


@pytest.mark.parametrize("text", TIMES)
def test_trap_129_a_time_is_what_slurm_takes_it_for(
    slurm_testbed: Testbed, tmp_path: Path, text: str
) -> None:
    limit = held(slurm_testbed, tmp_path, f"--time={text}")["TimeLimit"]
    seconds = parse_time(text)
    assert seconds is not None
    assert parse_time(limit) == slurm_minutes(seconds) * 60
    again = held(slurm_testbed, tmp_path, f"--time={format_time(seconds)}")["TimeLimit"]
    assert again == limit


@pytest.mark.parametrize("text", ["24h", "1d", "1:2:3:4"])
def test_trap_129_what_slurm_refuses_never_reaches_it_as_it_stands(
    slurm_testbed: Testbed, tmp_path: Path, text: str
) -> None:
    assert sbatch(slurm_testbed, tmp_path, f"--time={text}").returncode != 0


@pytest.mark.parametrize("text", SIZES)
def test_trap_131_a_size_is_what_slurm_takes_it_for(
    slurm_testbed: Testbed, tmp_path: Path, text: str
) -> None:
    shown = held(slurm_testbed, tmp_path, f"--mem={text}")["MinMemoryNode"]
    assert parse_memory(shown) == parse_memory(text)
