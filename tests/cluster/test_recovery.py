"""What becomes of a training that is interrupted, on a real Slurm: one kind of interruption in each test."""

from __future__ import annotations

import hashlib
import json
import shlex
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from slurmkit.slurm.commands import Commands
from slurmkit.slurm.ids import JobId
from tests.cluster.site import Site, until
from tests.cluster.storm_view import View, above

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slurmkit.testbed.testbed import Testbed

pytestmark = pytest.mark.cluster

TRAIN = Path(__file__).parents[2] / "examples" / "resume" / "train.py"
STEPS = 120


@pytest.fixture
def site(slurm_testbed: Testbed, tmp_path: Path) -> Iterator[Site]:
    with closing(Site(slurm_testbed, tmp_path)) as site:
        yield site


def job_file(site: Site, *tables: str, **resources: object) -> str:
    """A training of two ranks on two nodes that saves every tenth step."""
    options = {"nodes": 2, "ntasks_per_node": 1, "mem": "100M", "time": "10m", **resources}
    command = [sys.executable, str(TRAIN), "--steps", str(STEPS), "--step-time", "0.1", "--save-every", "10"]
    lines = [
        'name = "training"',
        f"command = {json.dumps(command)}",
        "[resources]",
        *(f"{name} = {json.dumps(value)}" for name, value in options.items()),
        "[progress]",
        f"total = {STEPS}",
        "[checkpoint]",
        'path = "checkpoints"',
        'resume = ["--resume", "{checkpoint}"]',
        *tables,
    ]
    (site.work / "training.toml").write_text("\n".join(lines) + "\n")
    return "training.toml"


def train(site: Site, *tables: str, **resources: object) -> View:
    """A training that has made a checkpoint."""
    view = View(site, site.submit(job_file(site, *tables, **resources)), site.work / "checkpoints")
    until(lambda: view.events("checkpoint-complete"), "a checkpoint is complete")
    return view


def end(view: View) -> dict[str, Any]:
    """How the run ended."""
    until(lambda: view.has_ended, "the run ends")
    told: dict[str, Any] = view.events("run-ended")[-1]
    return told


def last_start(view: View) -> dict[str, Any]:
    told: dict[str, Any] = view.events("checkpoint-chosen")[-1]
    return told


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The digest of the weights that one rank makes alone."""
    folder = tmp_path_factory.mktemp("undisturbed")
    command = [sys.executable, str(TRAIN), "--steps", str(STEPS), "--step-time", "0", "--save-every", "1000"]
    subprocess.run([*command, "--checkpoints", str(folder)], cwd=folder, check=True, capture_output=True)
    digest = (folder / "weights.sha256").read_text()
    assert len(digest.strip()) == hashlib.sha256().digest_size * 2
    return digest


def assert_done(view: View, undisturbed: str) -> None:
    told = end(view)
    assert told["outcome"] == "completed", told
    assert (view.site.work / "weights.sha256").read_text() == undisturbed
    until(lambda: not view.queue(), "no job is left")


def test_a_killed_rank_is_started_again_in_place_from_the_newest_complete_checkpoint(
    site: Site, undisturbed: str
) -> None:
    view = train(site)
    until(lambda: len(view.ranks()) == 2, "both ranks run")
    view.ranks()[1].process.kill()
    until(lambda: view.events("decided"), "something is decided")
    newest = view.events("checkpoint-complete")[-1]["at_step"]
    assert_done(view, undisturbed)
    (why,) = view.events("diagnosed")
    assert (why["kind"], why["rank"]) == ("killed", 1)
    assert [one["action"] for one in view.events("decided")] == ["restart"]
    assert len(view.events("attempt-started")) == 1
    assert last_start(view)["at_step"] == newest > 0


def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(site: Site, undisturbed: str) -> None:
    view = train(site)
    until(lambda: len(view.saved(complete=True)) >= 2 and len(view.ranks()) == 2, "there are two checkpoints")
    for rank in view.ranks():
        rank.process.kill(signal.SIGSTOP)
    newest = view.saved(complete=True)[-1]
    piece = view.pieces(newest)[0]
    piece.write_bytes(piece.read_bytes()[:-1])
    view.ranks()[1].process.kill()
    assert_done(view, undisturbed)
    (refused,) = last_start(view)["refused"]
    assert (refused["checkpoint"], refused["state"]) == (str(newest), "damaged")


def test_a_rank_whose_slurmstepd_is_gone_ends_and_the_run_goes_on(site: Site, undisturbed: str) -> None:
    view = train(site)
    until(lambda: len(view.ranks()) == 2, "both ranks run")
    stepd = above(view.ranks()[1].process, lambda words: "".join(words[:1]).startswith("slurmstepd"))
    assert stepd
    stepd.kill()
    assert_done(view, undisturbed)
    assert view.events("decided")


def test_at_slurms_warning_the_run_saves_and_is_requeued(site: Site, undisturbed: str) -> None:
    view = train(site)
    site.testbed.command(["scancel", "--batch", "--signal=USR1", view.job])
    assert_done(view, undisturbed)
    (asked,) = view.events("checkpoint-requested")
    assert asked["why"] == "time-limit"
    saved = [one for one in view.events("checkpoint-complete") if one["attempt"] == asked["attempt"]][-1]
    assert saved["saved"] >= asked["time"] - 1
    assert [one["kind"] for one in view.events("diagnosed")] == ["time-limit"]
    assert [one["attempt"] for one in view.events("attempt-started")] == [f"{view.job}-0", f"{view.job}-1"]
    assert last_start(view)["at_step"] == saved["at_step"]


def test_a_requeue_by_somebody_else_is_told_and_the_run_goes_on(site: Site, undisturbed: str) -> None:
    view = train(site)
    site.testbed.command(["scontrol", "requeue", view.job])
    assert_done(view, undisturbed)
    assert [one["kind"] for one in view.events("diagnosed")] == ["requeued"]
    assert [one["action"] for one in view.events("decided")] == ["leave"]
    assert len(view.events("attempt-started")) == 2


def test_a_node_that_is_unfit_is_excluded_by_the_requeue(site: Site, undisturbed: str) -> None:
    check = site.work / "check.sh"
    check.write_text('#!/bin/bash\n[ "$SLURMD_NODENAME" != n1 ] || { echo "a fan is broken"; exit 1; }\n')
    check.chmod(0o755)
    tables = ("[launch]", f"checks = [{json.dumps(str(check))}]")
    view = View(site, site.submit(job_file(site, *tables)), site.work / "checkpoints")
    until(lambda: view.events("requeued"), "the job is requeued")
    told = view.testbed.command(["scontrol", "show", "job", view.job]).stdout
    assert "ExcNodeList=n1" in told
    (why,) = view.events("diagnosed")
    assert (why["kind"], why["nodes"]) == ("node-unfit", ["n1"])
    assert_done(view, undisturbed)
    assert "n1" not in view.events("attempt-started")[-1]["nodes"]


def test_the_same_error_twice_stops_the_run(site: Site) -> None:
    file = job_file(site)
    text = (site.work / file).read_text()
    (site.work / file).write_text(text.replace('"--steps"', '"--no-such-option"'))
    view = View(site, site.submit(file), site.work / "checkpoints")
    told = end(view)
    assert told["outcome"] == "failed"
    assert "failed 2 times before the first step with the same error" in told["reason"]
    assert [one["action"] for one in view.events("decided")] == ["restart", "stop"]


def test_trap_104_what_cannot_succeed_is_not_tried_again(site: Site) -> None:
    line = "python3 -c 'import a_module_that_is_not_there'"
    file = site.job(line)
    file.write_text(file.read_text() + '[checkpoint]\npath = "checkpoints"\n')
    view = View(site, site.submit(file.name), site.work / "checkpoints")
    assert end(view)["outcome"] == "failed"
    assert [one["kind"] for one in view.events("diagnosed")] == ["setup-failed"]
    assert len(view.events("step-started")) == 1


def test_a_program_that_says_nothing_of_checkpoints_is_started_once(site: Site) -> None:
    counted = shlex.quote(str(site.work / "started"))
    view = View(site, site.submit(site.job(f"echo >> {counted}; exit 3").name), site.work / "checkpoints")
    assert "no second start is asked for" in end(view)["reason"]
    assert (site.work / "started").read_text() == "\n"


def test_steps_that_slurm_still_has_are_ended_and_the_job_goes_on(site: Site) -> None:
    view = View(site, site.submit(site.job("sleep 600").name), site.work / "checkpoints")
    until(lambda: view.events("step-started"), "the step starts")
    slurm = Commands(environment=site.environment)
    ended: list[str] = []

    def are_ended() -> bool:
        ended.extend(slurm.end_steps(JobId.parse(view.job)))
        return bool(view.events("step-ended"))

    until(are_ended, "the step ends")
    assert f"{view.job}.1" in ended
    assert f"{view.job}.batch" not in ended
