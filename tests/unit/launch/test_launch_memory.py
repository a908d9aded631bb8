"""Whether the kernel killed something for want of memory, read from the files of both versions of cgroups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from slurmkit.launch.memory import oom_kills

if TYPE_CHECKING:
    from pathlib import Path

STEP = "/slurm/uid_0/job_12/step_0/task_0"
V1 = f"9:name=systemd:/\n5:devices:{STEP}\n4:memory:{STEP}\n0::/\n"
V2 = f"0::{STEP}\n"
CONTROL = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"
EVENTS = "low 0\nhigh 0\nmax 41\noom 2\noom_kill 2\noom_group_kill 0\n"


@pytest.mark.parametrize(
    ("cgroups", "file", "content", "count"),
    [
        (V1, f"memory{STEP}/memory.oom_control", CONTROL, 3),
        (V1.replace("memory:", "cpu,memory:"), f"memory{STEP}/memory.oom_control", CONTROL, 3),
        (V1, f"memory{STEP}/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\n", 0),
        (V2, f"{STEP}/memory.events", EVENTS, 2),
        (V2, f"{STEP}/memory.events.local", EVENTS, 2),
        (V2, "elsewhere", "", 0),
        ("", "elsewhere", "", 0),
        ("nonsense\n::\n", "elsewhere", "", 0),
    ],
)
def test_the_count_of_kills_is_found(
    tmp_path: Path, cgroups: str, file: str, content: str, count: int
) -> None:
    (tmp_path / "cgroup").write_text(cgroups)
    there = tmp_path / "mounted" / file.lstrip("/")
    there.parent.mkdir(parents=True)
    there.write_text(content)
    assert oom_kills(str(tmp_path / "cgroup"), str(tmp_path / "mounted")) == count


def test_what_a_child_cgroup_of_another_counts_is_not_ours(tmp_path: Path) -> None:
    """Under version 2 `memory.events` counts the whole tree, `memory.events.local` this cgroup alone."""
    (tmp_path / "cgroup").write_text(V2)
    there = tmp_path / STEP.lstrip("/")
    there.mkdir(parents=True)
    (there / "memory.events").write_text(EVENTS)
    (there / "memory.events.local").write_text("oom_kill 0\n")
    assert oom_kills(str(tmp_path / "cgroup"), str(tmp_path)) == 0


def test_without_cgroups_nothing_is_counted(tmp_path: Path) -> None:
    assert oom_kills(str(tmp_path / "none")) == 0
