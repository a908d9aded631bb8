from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from slurmkit.checkpoint import LAYOUTS, commit
from tests.unit.checkpoint.otherlike import write
from tests.unit.checkpoint.torchlike import aged, write_dcp

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.conftest import Make, Slurmkit

JOB = """\
name = "resumes"
command = ["python", "train.py"]

[checkpoint]
path = "saved here"
"""


@pytest.fixture
def folder(place: Path) -> Path:
    """Of step 200 a whole one, of 300 a torn one."""
    root = place / "saved here"
    aged(write_dcp(root / "step-100"), 7200)
    aged(write_dcp(root / "step-200"), 3600)
    aged(write_dcp(root / "step-300", finish=False), 60)
    return root


def test_the_one_to_resume_from_is_marked_and_the_others_say_why_not(
    slurmkit: Slurmkit, folder: Path
) -> None:
    done = slurmkit("checkpoints", str(folder))
    assert done.code == 0
    header, torn, chosen, *_ = done.out.splitlines()
    assert header.split() == ["STEP", "AGE", "SIZE", "LAYOUT", "VERDICT", "REASON"]
    assert torn.split()[:4] == ["300", "1m", "00s", "-"]
    assert "incomplete" in torn
    assert ".metadata is not there" in torn
    assert chosen.startswith("*  200   1h 00m")
    assert f"* to resume from: {folder}/step-200, step 200" in done.out


def test_json_has_every_key(slurmkit: Slurmkit, folder: Path) -> None:
    torn, chosen, _ = slurmkit("checkpoints", str(folder), "--json").json
    assert (torn["step"], torn["verdict"], torn["chosen"], torn["saved"], torn["size"]) == (
        300,
        "incomplete",
        False,
        None,
        None,
    )
    assert set(torn) == set(chosen)
    assert (chosen["path"], chosen["name"]) == (str(folder / "step-200"), "step-200")
    assert (chosen["step"], chosen["layout"], chosen["chosen"]) == (200, "torchtitan", True)
    assert chosen["size"] > 1000
    assert 3600 <= chosen["age"] < 4000


def test_none_complete_is_exit_code_1_and_none_at_all_is_none(slurmkit: Slurmkit, place: Path) -> None:
    write_dcp(place / "torn/step-1", finish=False)
    done = slurmkit("checkpoints", "torn")
    assert (done.code, "none of them is complete" in done.out) == (1, True)
    (place / "empty").mkdir()
    done = slurmkit("checkpoints", "empty")
    assert (done.code, done.out) == (0, "")
    assert "there is no checkpoint in" in done.err


def test_only_the_newest_are_shown_and_the_chosen_one_is_found_further_down(
    slurmkit: Slurmkit, folder: Path
) -> None:
    done = slurmkit("checkpoints", str(folder), "--limit", "1")
    assert (done.code, "these are the newest 1" in done.err) == (0, True)
    assert "step-200, step 200" in done.out
    assert len(slurmkit("checkpoints", str(folder), "--all", "--json").json) == 3
    for step in range(400, 430):
        (folder / f"step-{step}").mkdir()
    assert len(slurmkit("checkpoints", str(folder), "--json").json) == 20
    assert slurmkit("checkpoints", str(folder), "--all", "--limit", "3").code == 2


def test_a_run_s_own_folder_layout_and_verdicts_are_used(
    slurmkit: Slurmkit, folder: Path, add_run: Make
) -> None:
    paths = add_run("r")
    paths.job_toml.write_text(f'{JOB}layout = "torch-dcp"\n')
    done = slurmkit("checkpoints", "r", "--json")
    assert [(row["step"], row["layout"]) for row in done.json] == [
        (300, "torch-dcp"),
        (200, "torch-dcp"),
        (100, "torch-dcp"),
    ]
    kept = json.loads(paths.verdicts.read_bytes())["verdicts"]
    assert set(kept) == {f"torch-dcp:{folder}/step-{step}" for step in (100, 200)}
    assert (
        slurmkit("checkpoints", str(paths.root), "--layout", "auto", "--json").json[1]["layout"]
        != "torch-dcp"
    )


def test_trap_117_every_job_of_a_run_finds_the_same_folder(
    slurmkit: Slurmkit, folder: Path, add_run: Make
) -> None:
    resubmitted = ("submitted", {"job_id": "901"})
    add_run("r", resubmitted, job_id="900").job_toml.write_text(JOB)
    for name in ("900", "901", "r"):
        assert slurmkit("checkpoints", name, "--json").json[1]["path"] == str(folder / "step-200")


def test_a_run_without_checkpoints_says_so(slurmkit: Slurmkit, add_run: Make) -> None:
    add_run("r").job_toml.write_text('name = "a"\ncommand = ["true"]\n')
    done = slurmkit("checkpoints", "r")
    assert (done.code, "has no [checkpoint]" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "a folder or a run is needed"),
        (["nothing"], "neither a file, a folder nor a run is called 'nothing'"),
        (["./nothing"], "there is no such file or folder"),
        ([".", "--layout", "orbix"], "did you mean 'orbax'?"),
    ],
)
def test_what_cannot_be_meant_is_said(slurmkit: Slurmkit, arguments: list[str], says: str) -> None:
    done = slurmkit("checkpoints", *arguments)
    assert (done.code, says in done.err) == (2, True), done.err


def test_a_single_file_can_be_asked_about(slurmkit: Slurmkit, place: Path) -> None:
    write(place, {"weights.npz": b"x"})
    commit(place / "weights.npz", step=5)
    assert [row["step"] for row in slurmkit("checkpoints", "weights.npz", "--json").json] == [5]


def test_deep_finds_what_a_quick_look_does_not(slurmkit: Slurmkit, place: Path) -> None:
    path = write(place / "c/step-1", {"weights": b"w" * 100})
    commit(path)
    times = (path / "weights").stat()
    (path / "weights").write_bytes(bytes(100))
    os.utime(path / "weights", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert slurmkit("checkpoints", "c").code == 0
    assert slurmkit("checkpoints", "c", "--deep").code == 1


def test_where_no_step_is_known_the_name_is_shown(slurmkit: Slurmkit, place: Path) -> None:
    (place / "c").mkdir()
    (place / "c/last").symlink_to("gone")
    assert "last: gone is not there" in slurmkit("checkpoints", "c").out


def test_a_tracker_that_is_wrong_is_a_warning(slurmkit: Slurmkit, place: Path) -> None:
    path = write_dcp(place / "c/iter_0000100")
    write(path, {"metadata.json": b'{"sharded_backend": "torch_dist"}'})
    (place / "c/latest_checkpointed_iteration.txt").write_text("200")
    assert "warning: latest_checkpointed_iteration.txt" in slurmkit("checkpoints", "c").err


def test_all_layouts_are_listed(slurmkit: Slurmkit) -> None:
    rows = slurmkit("checkpoints", "--layouts", "--json").json
    assert [row["name"] for row in rows] == [layout.name for layout in LAYOUTS]
    text = slurmkit("checkpoints", "--layouts").out
    assert "--load {directory} --ckpt-step {step}" in text
