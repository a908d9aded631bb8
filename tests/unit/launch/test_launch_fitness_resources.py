"""Disks and memory, looked at on real and made-up files."""

from __future__ import annotations

import errno
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from slurmkit.launch import fitness_resources as resources
from slurmkit.launch.fitness_resources import check_directory

MEBIBYTE = 1 << 20
NO_LIMIT = "9223372036854771712"
"""As version 1 of cgroups writes it."""


def fails_with(number: int) -> object:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.ESTALE])
def test_a_directory_that_cannot_be_written_makes_the_node_unfit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr("slurmkit.launch.fitness_resources.os.write", fails_with(number))
    found = check_directory("checkpoint directory", str(tmp_path), 1000)
    assert found.problems == [f"checkpoint directory {tmp_path} cannot be written: {os.strerror(number)}"]
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_place_of_a_directory_is_named(tmp_path: Path) -> None:
    file = tmp_path / "check 'points'"
    file.write_text("")
    (problem,) = check_directory("checkpoint directory", str(file), 1000).problems
    assert problem.startswith(f"checkpoint directory {file} cannot be written: ")


def test_a_directory_yet_to_be_made_is_judged_by_the_one_above(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a" / "b"
    assert check_directory("checkpoint directory", str(path), 1000).problems == ()
    monkeypatch.setattr("slurmkit.launch.fitness_resources.os.write", fails_with(errno.EROFS))
    (problem,) = check_directory("checkpoint directory", str(path), 1000).problems
    assert problem == f"checkpoint directory {path}, in {tmp_path} cannot be written: Read-only file system"


def test_too_little_space_makes_the_node_unfit(tmp_path: Path) -> None:
    (problem,) = check_directory("scratch", str(tmp_path), 1000, space=1 << 60).problems
    assert problem.endswith(" free, 1.049e+06 TiB are wanted")


def test_a_slow_directory_is_odd_and_is_not_written_to_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write

    def slow(descriptor: int, data: bytes) -> int:
        time.sleep(0.05)
        return real(descriptor, data[:1000])

    monkeypatch.setattr("slurmkit.launch.fitness_resources.os.write", slow)
    monkeypatch.setattr(resources, "WRITE_SECONDS", 0.5)
    found = check_directory("scratch", str(tmp_path), 16 * MEBIBYTE)
    assert found.problems == ()
    assert found.warnings == [f"scratch {tmp_path} is slow: 0.0 MB/s"]
    assert found.facts["scratch"]["written"] < 16 * MEBIBYTE


def cgroup_files(root: Path, version: int, limits: dict[str, str]) -> tuple[str, str]:
    """A made-up /proc/self/cgroup and tree; the paths of both."""
    name, base = ("memory.max", root) if version == 2 else ("memory.limit_in_bytes", root / "memory")
    for path, limit in limits.items():
        (base / path.lstrip("/")).mkdir(parents=True, exist_ok=True)
        (base / path.lstrip("/") / name).write_text(f"{limit}\n")
    file = root / "cgroup"
    deepest = max(limits, key=len)
    file.write_text(f"0::{deepest}\n" if version == 2 else f"9:cpu:/x\n5:memory:{deepest}\n")
    return str(file), str(root)


@pytest.mark.parametrize(
    ("version", "limits", "expected"),
    [
        (2, {"/job_1/step_0/task": "max", "/job_1/step_0": "max", "/job_1": "104857600"}, 100 * MEBIBYTE),
        (2, {"/job_1/step_0": "5000", "/job_1": "104857600"}, 5000),
        (2, {"/job_1": "max"}, None),
        (
            1,
            {"/slurm/job_1/step_0": NO_LIMIT, "/slurm/job_1": "104857600"},
            100 * MEBIBYTE,
        ),
        (1, {"/slurm": NO_LIMIT}, None),
    ],
)
def test_the_least_limit_of_all_cgroups_above_holds(
    tmp_path: Path, version: int, limits: dict[str, str], expected: int | None
) -> None:
    file, root = cgroup_files(tmp_path, version, limits)
    assert resources.memory_limit(file, root) == expected


def test_less_memory_than_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemFree: 1 kB\nMemTotal:    1048576 kB\n")
    none = str(tmp_path / "absent")
    found = resources.check_memory(2048, none, str(meminfo))
    assert (found.problems, found.warnings) == (
        (),
        ["the node has 1 GiB of memory, 2 GiB were asked for"],
    )
    assert resources.check_memory(1024, none, str(meminfo)).warnings == ()
    assert resources.check_memory(None, none, none).facts == {"memory": {"total": None, "limit": None}}
    monkeypatch.setattr(resources, "memory_limit", lambda _: 100 * MEBIBYTE)
    found = resources.check_memory(112, none, str(meminfo))
    assert found.problems == ["the step may use 100 MiB of memory, 112 MiB were asked for"]
    assert resources.check_memory(111, none, str(meminfo)).problems == ()


def test_two_checks_of_one_place_at_once_do_not_meet(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        what = [f"directory {number}" for number in range(8)]
        found = list(pool.map(lambda one: check_directory(one, str(tmp_path), 100_000), what))
    assert [one.problems for one in found] == [()] * 8
    assert list(tmp_path.iterdir()) == []
