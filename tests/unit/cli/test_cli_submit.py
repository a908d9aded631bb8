from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from slurmkit.cli import context
from slurmkit.errors import AnswerLost, MissingRequirement, Refused, Unreachable
from slurmkit.run import events
from slurmkit.run.paths import RunPaths
from slurmkit.run.survey import open_dossier
from slurmkit.slurm.ids import JobId
from slurmkit.slurm.request import Submission, Submitted
from tests.unit.cli.conftest import own_job
from tests.unit.run.conftest import FakeClock, FakeSlurm

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.unit.cli.conftest import Make, Slurmkit


def only_run(place: Path) -> RunPaths:
    (root,) = (place / "runs").iterdir()
    return RunPaths(root)


def kinds(paths: RunPaths) -> list[str]:
    return [event.kind for event in events.read(paths)]


def test_the_run_id_is_what_it_prints(slurmkit: Slurmkit, job: Path, place: Path) -> None:
    done = slurmkit("submit", "job.toml")
    assert (done.out, done.code) == (only_run(place).run_id + "\n", 0)
    assert "submitted as job 12" in done.err


def test_the_run_directory_is_complete_when_sbatch_is_called(
    slurmkit: Slurmkit, job: Path, place: Path, slurm: FakeSlurm, tmp_path: Path
) -> None:
    seen: dict[str, object] = {}

    def look(submission: Submission) -> Submitted:
        paths = only_run(place)
        seen["files"] = sorted(path.name for path in paths.root.iterdir())
        seen["kinds"] = kinds(paths)
        seen["linked"] = (tmp_path / "state/slurmkit/runs" / paths.run_id).readlink() == paths.root
        seen["tag"] = submission.tag in paths.job_sbatch.read_text()
        seen["script"] = submission.script == paths.job_sbatch
        seen["directory"] = submission.directory == place
        return Submitted(JobId(12), None, "sbatch: a word aside")

    slurm.on_submit = look
    done = slurmkit("submit", "job.toml")
    assert seen == {
        "files": ["events.jsonl", "job.sbatch", "job.toml", "launch.pyz", "logs", "run.json"],
        "kinds": ["submitting"],
        "linked": True,
        "tag": True,
        "script": True,
        "directory": True,
    }
    assert kinds(only_run(place)) == ["submitting", "submitted"]
    assert "sbatch: a word aside" in done.err


def test_json_tells_the_run_and_its_job(slurmkit: Slurmkit, job: Path, place: Path) -> None:
    data = slurmkit("submit", "job.toml", "--json").json
    paths = only_run(place)
    assert data == {
        "id": paths.run_id,
        "name": "a tiny job",
        "job_id": "12",
        "cluster": None,
        "directory": str(paths.root),
        "stripped": data["stripped"],
        "notes": [],
    }


def test_a_dry_run_prints_the_script_and_the_line_and_touches_nothing(
    slurmkit: Slurmkit, job: Path, place: Path, slurm: FakeSlurm, tmp_path: Path
) -> None:
    done = slurmkit("submit", "job.toml", "--dry-run")
    assert done.out.startswith("#!/bin/bash\n")
    assert "sbatch --parsable" in done.err
    assert sorted(path.name for path in place.iterdir()) == ["job.toml"]
    assert not (tmp_path / "state").exists()
    assert slurm.calls == []


def test_a_dry_run_as_json(slurmkit: Slurmkit, job: Path) -> None:
    data = slurmkit("submit", "job.toml", "--dry-run", "--json").json
    assert sorted(data) == ["command", "directory", "id", "notes", "script", "stripped"]
    assert data["command"][:2] == ["sbatch", "--parsable"]


@pytest.mark.parametrize(
    "options", [("--dry-run", "--wait"), ("--dry-run", "--follow"), ("--follow", "--json")]
)
def test_options_that_contradict_are_an_error(
    slurmkit: Slurmkit, job: Path, options: tuple[str, ...]
) -> None:
    assert slurmkit("submit", "job.toml", *options).code == 2


def test_a_layout_of_checkpoints_that_there_is_not_is_an_error(
    slurmkit: Slurmkit, job: Path, place: Path
) -> None:
    layout = ("--set", "checkpoint.path=saved", "--set", "checkpoint.layout=torchdcp")
    done = slurmkit("submit", "job.toml", *layout)
    assert done.code == 2
    assert "'torchdcp'" in done.err
    assert "torch-dcp" in done.err
    assert not (place / "runs").exists()


def test_set_overrides_a_key(slurmkit: Slurmkit, job: Path, place: Path) -> None:
    slurmkit("submit", "job.toml", "--set", "resources.time=2h", "--set", "name=other")
    assert only_run(place).run_id.startswith("other-")
    assert "#SBATCH --time=2:00:00" in only_run(place).job_sbatch.read_text()


def test_the_job_starts_in_the_directory_of_the_job_file_and_the_run_is_made_here(
    slurmkit: Slurmkit, place: Path, slurm: FakeSlurm
) -> None:
    elsewhere = place / "sub dir"
    elsewhere.mkdir()
    (elsewhere / "job.toml").write_text('name = "x"\ncommand = ["true"]\n')
    directories = []

    def look(submission: Submission) -> Submitted:
        directories.append(submission.directory)
        return Submitted(JobId(12))

    slurm.on_submit = look
    assert slurmkit("submit", "sub dir/job.toml").code == 0
    assert directories == [elsewhere]
    assert only_run(place)


def test_what_leaks_in_is_stripped_and_said(
    slurmkit: Slurmkit, place: Path, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SBATCH_PARTITION", "wrong")
    monkeypatch.setenv("SLURM_CPU_BIND", "mask")
    monkeypatch.setenv("SLURM_HINT", "nomultithread")
    monkeypatch.setenv("SLURM_CONF", "/here")
    (place / "job.toml").write_text(
        'name = "x"\ncommand = ["true"]\n[environment]\nkeep = ["SLURM_HINT"]\n'
        'variables = { API_TOKEN = "s3cr3t" }\n'
    )
    environments = []

    def look(submission: Submission) -> Submitted:
        environments.append(submission.environment)
        return Submitted(JobId(12))

    slurm.on_submit = look
    done = slurmkit("submit", "job.toml")
    assert "not passed to the job: SBATCH_PARTITION, SLURM_CPU_BIND" in done.err
    (environment,) = environments
    assert "SBATCH_PARTITION" not in environment
    assert (environment["SLURM_HINT"], environment["SLURM_CONF"]) == ("nomultithread", "/here")
    assert environment["API_TOKEN"] == "s3cr3t"
    assert "s3cr3t" not in only_run(place).job_sbatch.read_text()
    assert only_run(place).job_toml.stat().st_mode & 0o077 == 0


def test_trap_140_a_log_directory_that_is_not_there_is_made(slurmkit: Slurmkit, place: Path) -> None:
    (place / "job.toml").write_text(
        'name = "x"\ncommand = ["true"]\n[resources]\noutput = "my logs/%x/%j.out"\n'
    )
    assert slurmkit("submit", "job.toml").code == 0
    assert (place / "my logs" / "x").is_dir()


def test_a_refusal_is_said_and_kept(slurmkit: Slurmkit, job: Path, place: Path, slurm: FakeSlurm) -> None:
    def refuse(_: Submission) -> Submitted:
        raise Refused("no such account", where="sbatch: error: Invalid account", hint="sacctmgr show assoc")

    slurm.on_submit = refuse
    done = slurmkit("submit", "job.toml")
    assert (done.out, done.code) == ("", 3)
    assert "error: no such account" in done.err
    assert kinds(only_run(place)) == ["submitting", "not-submitted"]
    assert slurmkit("status", "last", "--json").json[0]["reason"] == "no such account"


@pytest.fixture
def moving_clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeClock]:
    """A clock on which no sleep takes time."""
    clock = FakeClock()
    clock.time = datetime.now(UTC)
    monkeypatch.setattr("slurmkit.slurm.clock.SystemClock", lambda: clock)
    context.system_clock.cache_clear()
    yield clock
    context.system_clock.cache_clear()


def test_a_machine_without_sbatch_leaves_a_run_that_was_not_submitted(
    slurmkit: Slurmkit, job: Path, place: Path, slurm: FakeSlurm
) -> None:
    def look(_: Submission) -> Submitted:
        raise MissingRequirement("Slurm's command sbatch is not on the PATH")

    slurm.on_submit = look
    assert slurmkit("submit", "job.toml").code == 2
    assert kinds(only_run(place)) == ["submitting", "not-submitted"]


def test_trap_148_a_lost_answer_is_looked_up_and_never_repeated(
    slurmkit: Slurmkit, job: Path, place: Path, slurm: FakeSlurm, moving_clock: FakeClock
) -> None:
    def lose(submission: Submission) -> Submitted:
        slurm.live = [own_job("77", comment=submission.tag)]
        raise AnswerLost("Socket timed out")

    slurm.on_submit = lose
    done = slurmkit("submit", "job.toml", "--json")
    assert done.json["job_id"] == "77"
    assert slurm.calls.count("submit") == 1
    assert kinds(only_run(place)) == ["submitting", "submitted"]


def test_an_answer_that_stays_lost_leaves_the_intent_for_status(
    slurmkit: Slurmkit, job: Path, place: Path, slurm: FakeSlurm, moving_clock: FakeClock
) -> None:
    def lose(_: Submission) -> Submitted:
        slurm.live = slurm.past = Unreachable("slurmctld does not answer")
        raise AnswerLost("Socket timed out")

    slurm.on_submit = lose
    done = slurmkit("submit", "job.toml")
    assert done.code == 3
    assert f"slurmkit status {only_run(place).run_id}" in done.err
    assert kinds(only_run(place)) == ["submitting"]
    slurm.live, slurm.past = [own_job("78", comment=f"slurmkit:{only_run(place).run_id}")], []
    assert slurmkit("status", "--json").json[0]["job_id"] == "78"


def test_a_dependency_on_a_run_becomes_one_on_its_job(slurmkit: Slurmkit, place: Path, add_run: Make) -> None:
    add_run("first-20261201-aaaaaa", job_id="4711")
    (place / "job.toml").write_text(
        'name = "x"\ncommand = ["true"]\n[resources]\ndependency = "afterok:first-20261201-aaaaaa"\n'
    )
    done = slurmkit("submit", "job.toml", "--json")
    text = (RunPaths(place / "runs" / done.json["id"])).job_sbatch.read_text()
    assert "#SBATCH --dependency=afterok:4711" in text


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ("no-such-run-20261201-aaaaaa", "no run is called"),
        ("jobless-20261201-aaaaaa", "has no job to depend on"),
    ],
)
def test_a_dependency_on_what_is_no_job_is_an_error(
    slurmkit: Slurmkit, place: Path, add_run: Make, run: str, message: str
) -> None:
    add_run("jobless-20261201-aaaaaa", job_id=None)
    (place / "job.toml").write_text(
        f'name = "x"\ncommand = ["true"]\n[resources]\ndependency = "afterok:{run}"\n'
    )
    done = slurmkit("submit", "job.toml")
    assert done.code == 2
    assert message in done.err


def test_an_array_keeps_its_tasks_for_counting(slurmkit: Slurmkit, place: Path) -> None:
    (place / "job.toml").write_text('name = "x"\ncommand = ["true"]\n[resources]\narray = "0-9%2"\n')
    slurmkit("submit", "job.toml")
    record = open_dossier(only_run(place)).record
    assert record is not None
    assert record.array == "0-9%2"


@pytest.mark.parametrize(("code", "state"), [("0:0", "COMPLETED"), ("7:0", "FAILED")])
def test_wait_passes_the_jobs_exit_code_on(
    slurmkit: Slurmkit, job: Path, slurm: FakeSlurm, code: str, state: str
) -> None:
    slurm.live = [own_job(state=state, exit_code=code)]
    done = slurmkit("submit", "job.toml", "--wait")
    assert done.code == int(code[0])


@pytest.mark.parametrize("option", ["--wait", "--follow"])
def test_the_terminal_that_submitted_is_told_which_rank_failed_first(
    slurmkit: Slurmkit, job: Path, place: Path, slurm: FakeSlurm, option: str
) -> None:
    failure = {"rank": 3, "host": "n2", "signal": 7, "stderr_tail": ["last words"]}

    def start(_: Submission) -> Submitted:
        events.append(only_run(place), "attempt-started", attempt="12-0", job_id="12")
        events.append(only_run(place), "step-ended", attempt="12-0", exit_code=135, first_failure=failure)
        return Submitted(JobId(12))

    slurm.on_submit = start
    slurm.live = [own_job(state="FAILED", exit_code="0:7")]
    assert slurmkit("submit", "job.toml", option).err.splitlines()[-3:] == [
        "rank 3 on n2 failed first: killed by SIGBUS (bus error)",
        "  the end of its stderr:",
        "    last words",
    ]


def test_wait_as_json_prints_the_state_at_the_end(
    slurmkit: Slurmkit, job: Path, place: Path, slurm: FakeSlurm
) -> None:
    slurm.live = [own_job(state="FAILED", exit_code="7:0")]
    done = slurmkit("submit", "job.toml", "--wait", "--json")
    assert (done.json["id"], done.json["state"], done.json["exit_code"]) == (
        only_run(place).run_id,
        "failed",
        7,
    )
    assert done.err.startswith(only_run(place).run_id + "\n")


def test_follow_prints_the_log_until_the_end(
    slurmkit: Slurmkit, job: Path, place: Path, slurm: FakeSlurm
) -> None:
    def start(_: Submission) -> Submitted:
        only_run(place).batch_log("12").write_text("hello from the job\n")
        return Submitted(JobId(12))

    slurm.on_submit = start
    slurm.live = [own_job(state="FAILED", exit_code="7:0")]
    done = slurmkit("submit", "job.toml", "--follow")
    assert done.out == f"{only_run(place).run_id}\nhello from the job\n"
    assert done.code == 7
    assert "failed (exit code 7)" in done.err


def test_a_file_in_the_place_of_the_runs_is_an_error(slurmkit: Slurmkit, job: Path, place: Path) -> None:
    (place / "runs").write_text("")
    done = slurmkit("submit", "job.toml")
    assert done.code == 2
    assert "the run directory cannot be written" in done.err


def test_an_index_that_cannot_be_written_is_no_reason_not_to_submit(
    slurmkit: Slurmkit, job: Path, tmp_path: Path
) -> None:
    (tmp_path / "state").write_text("")
    done = slurmkit("submit", "job.toml")
    assert done.code == 0
    assert "name it by its path" in done.err


def test_a_run_directory_is_as_private_as_the_umask(slurmkit: Slurmkit, job: Path, place: Path) -> None:
    before = os.umask(0o077)
    try:
        slurmkit("submit", "job.toml")
    finally:
        os.umask(before)
    root = only_run(place).root
    assert [path for path in (root, *root.rglob("*")) if path.stat().st_mode & 0o077] == []


def test_the_run_directory_is_plain_json_and_text(slurmkit: Slurmkit, job: Path, place: Path) -> None:
    slurmkit("submit", "job.toml")
    paths = only_run(place)
    assert json.loads(paths.run_json.read_text())["name"] == "a tiny job"
    assert all(json.loads(line) for line in paths.events.read_text().splitlines())


def test_a_plain_script_needs_no_launcher(slurmkit: Slurmkit, job: Path, place: Path) -> None:
    slurmkit("submit", "job.toml", "--template", "plain")
    assert not only_run(place).launch_archive.exists()


def test_a_wrong_job_file_leaves_nothing_behind(slurmkit: Slurmkit, place: Path, slurm: FakeSlurm) -> None:
    (place / "job.toml").write_text('name = "x"\ncommand = ["true"]\n[resources]\ncores = 8\n')
    assert slurmkit("submit", "job.toml").code == 2
    assert sorted(path.name for path in place.iterdir()) == ["job.toml"]
    assert slurm.calls == []


def test_ctrl_c_while_sbatch_is_at_work_says_where_to_look(
    slurmkit: Slurmkit, job: Path, place: Path, slurm: FakeSlurm
) -> None:
    def interrupt(_: Submission) -> Submitted:
        raise KeyboardInterrupt

    slurm.on_submit = interrupt
    assert "`slurmkit status` tells whether Slurm has taken the job" in slurmkit("submit", "job.toml").err
    assert kinds(only_run(place)) == ["submitting"]
