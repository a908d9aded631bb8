"""Rehearsals of programs that resume well, badly, or not at all; all of them go on at the same time."""

from __future__ import annotations

import json
import shlex
import signal
import sys
import tomllib
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.site import Site, until

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Mapping

    from slurmkit.testbed.testbed import Testbed

pytestmark = pytest.mark.cluster

BOUND = 150.0

PROGRAM = """\
import os, sys, time
from pathlib import Path
from slurmkit import progress
from slurmkit.checkpoint import commit, requested

kind = sys.argv[1]
folder = Path(sys.argv[2] if len(sys.argv) > 2 else os.environ["SLURMKIT_CHECKPOINTS"])
resumed = int(os.environ.get("SLURMKIT_RESUME_STEP", 0))
if kind == "crashes" and resumed:
    sys.exit("RuntimeError: Missing key(s) in state_dict")
step = 0 if "ignores" in kind else resumed
learnt = 0 if kind == "forgets" else step
was_asked = False

def save():
    path = folder / f"step-{step}"
    path.mkdir(parents=True, exist_ok=True)
    (path / "weights").write_text(f"those of step {step}")
    commit(path, step=step)

while True:
    time.sleep(0.2)
    step, learnt = step + 1, learnt + 1
    is_asked = kind != "deaf" and requested()
    if kind != "never saves" and (step % (50 if kind == "deaf" else 20) == 0 or (is_asked and not was_asked)):
        save()
    was_asked = is_asked
    if "quiet" not in kind:
        progress.step(step, loss=2.5 / (1 + learnt / 10))
"""

KINDS = (
    "goes on",
    "ignores it",
    "forgets",
    "never saves",
    "crashes",
    "deaf",
    "quiet",
    "quiet and ignores it",
)


def job(site: Site, kind: str, *more: str) -> str:
    """A job file for one kind of program."""
    words = map(shlex.quote, [sys.executable, "program.py", kind, *more])
    file = site.job(f"exec {' '.join(words)}", name=kind.replace(" ", "-"))
    with file.open("a") as text:
        text.write('[checkpoint]\npath = "saved"\nlead_time = "2s"\n')
    return file.name


@pytest.fixture(scope="module")
def site(slurm_testbed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with closing(Site(slurm_testbed, tmp_path_factory.mktemp("rehearsals"))) as site:
        (site.work / "program.py").write_text(PROGRAM)
        yield site


@pytest.fixture(scope="module")
def started(site: Site) -> Mapping[str, subprocess.Popen[str]]:
    """A rehearsal of each kind."""
    return {kind: start(site, kind) for kind in KINDS}


def start(site: Site, kind: str) -> subprocess.Popen[str]:
    timeout = "20s" if kind == "never saves" else "60s"
    return site.start("rehearse", job(site, kind), "--json", "--timeout", timeout)


def told(process: subprocess.Popen[str], code: int) -> dict[str, Any]:
    """What a rehearsal says at its end."""
    out, err = process.communicate(timeout=BOUND)
    assert process.returncode == code, (out, err)
    found: dict[str, Any] = json.loads(out)
    return found


def outcome(found: dict[str, Any], name: str) -> str | None:
    return next((one["outcome"] for one in found["checks"] if one["name"] == name), None)


def test_a_program_that_goes_on_passes_and_leaves_nothing_behind(
    site: Site, started: Mapping[str, subprocess.Popen[str]]
) -> None:
    found = told(started["goes on"], 0)
    assert found["passed"]
    assert [one["outcome"] for one in found["checks"]] == ["ok"] * 4
    assert found["checkpoints"] is None
    assert site.state(found["id"]) == "cancelled"
    rehearsed = tomllib.loads(Path(found["directory"], "job.toml").read_text())
    assert rehearsed["checkpoint"]["path"].startswith("saved-rehearsal-")
    assert not Path(site.work, rehearsed["checkpoint"]["path"]).exists()


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("ignores it", "resumed at step 0 although checkpoint step-"),
        ("forgets", "loss went from "),
        ("never saves", "no checkpoint was complete within 20s, though every rank was asked for one"),
        ("crashes", "Missing key(s) in state_dict"),
        ("quiet and ignores it", " once more although checkpoint step-"),
    ],
)
def test_what_goes_wrong_is_said(
    kind: str, reason: str, started: Mapping[str, subprocess.Popen[str]]
) -> None:
    found = told(started[kind], 1)
    assert not found["passed"]
    assert reason in found["reason"]


def test_a_program_that_takes_no_notice_of_the_request_passes_with_a_warning(
    started: Mapping[str, subprocess.Popen[str]],
) -> None:
    found = told(started["deaf"], 0)
    assert outcome(found, "signal") == "warning"
    assert "no rank catches USR1" in str(found["checks"])


def test_a_program_that_tells_nothing_is_judged_by_its_checkpoints(
    started: Mapping[str, subprocess.Popen[str]],
) -> None:
    found = told(started["quiet"], 0)
    assert outcome(found, "resume") == "ok"
    assert outcome(found, "loss") == "not checked"


def test_the_checkpoints_of_the_run_are_left_alone(slurm_testbed: Testbed, tmp_path: Path) -> None:
    with closing(Site(slurm_testbed, tmp_path)) as site:
        (site.work / "program.py").write_text(PROGRAM)
        mine = site.work / "saved" / "step-20"
        mine.mkdir(parents=True)
        (mine / "weights").write_text("months of work")
        found = told(site.start("rehearse", job(site, "goes on", "saved"), "--json", "--keep"), 0)
        assert [one.name for one in mine.parent.iterdir()] == ["step-20"]
        assert (mine / "weights").read_text() == "months of work"
        assert found["checkpoints"] != str(mine.parent)
        assert list(Path(found["checkpoints"]).glob("step-*/weights"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_rehearsal_that_is_interrupted_cancels_its_job(number: signal.Signals, site: Site) -> None:
    # A test run in the background of a shell ignores it, and so would all that it starts.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = site.start("rehearse", job(site, "never saves"), "--set", f"name=ended-by-{number}")
    signal.signal(signal.SIGINT, before)
    until(lambda: "running" in states(site, f"ended-by-{number}"), "the rehearsal runs")
    process.send_signal(number)
    _, err = process.communicate(timeout=BOUND)
    assert process.returncode == 130
    assert "the job is cancelled" in err
    assert states(site, f"ended-by-{number}") == ["cancelled"]


def states(site: Site, name: str) -> list[str]:
    """The states of the rehearsals of a job."""
    return [one["state"] for one in site.json("status") if one["name"] == f"{name}-rehearsal"]
