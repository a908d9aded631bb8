"""A checkpoint is asked for as the time limit comes near, of programs that know of it in different ways.

All of them run at once, one step a second, in jobs of a minute each.
"""

from __future__ import annotations

import re
import shlex
import sys
from contextlib import closing
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.cluster.site import Site, until
from tests.cluster.storm_view import View

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from slurmkit.testbed.testbed import Testbed

pytestmark = pytest.mark.cluster

STEPS = 50
BOUND = 280.0
SAVES = re.compile(r"saves step (\d+), (asked|by itself)")
PYTHON = shlex.quote(sys.executable)

SAVE = """\
import os, sys
from pathlib import Path
from slurmkit.checkpoint import commit

def save(step, why):
    path = Path(os.environ["SLURMKIT_CHECKPOINTS"], f"step-{step}")
    path.mkdir(parents=True, exist_ok=True)
    (path / "weights").write_text(f"those of step {step}")
    # Before it is complete: the agent may end the step as soon as it is.
    print(f"saves step {step}, {why}", flush=True)
    commit(path, step=step)

if __name__ == "__main__":
    save(int(sys.argv[1]), sys.argv[2])
"""

BASH = f"""\
trap 'asked=1' USR1
step=${{SLURMKIT_RESUME_STEP:-0}}
while ((step < {STEPS})); do
  sleep 1
  ((step += 1))
  LC_ALL=C printf '%.3f  step %d\\n' "$EPOCHREALTIME" "$step"
  if [[ $asked ]]; then
    asked=
    {PYTHON} save.py "$step" asked
  fi
done
{PYTHON} save.py "$step" "by itself"
"""

HANDLER = """\
import signal

requests = []
signal.signal(signal.SIGUSR1, lambda *_: requests.append(1))

def is_asked():
    return bool(requests and requests.pop())
"""

POLLS = """\
from slurmkit.checkpoint import requested

answers = [False]

def is_asked():
    answers.append(requested())
    return answers[-1] and not answers[-2]
"""

LOOP = f"""
import os, time
from save import save

step = int(os.environ.get("SLURMKIT_RESUME_STEP", 0))
while step < {STEPS}:
    time.sleep(1)
    step += 1
    print(f"{{time.time():.3f}}  step {{step}}", flush=True)
    if is_asked():
        save(step, "asked")
save(step, "by itself")
"""

KNOWS_NOTHING = f"""\
import os, time
from save import save

resumed = int(os.environ.get("SLURMKIT_RESUME_STEP", 0))
step = resumed or {STEPS} - 10
while not resumed or step < {STEPS}:
    time.sleep(1)
    step += 1
    print(f"{{time.time():.3f}}  step {{step}}", flush=True)
    if step == {STEPS} - 5:
        save(step, "by itself")
save(step, "by itself")
"""
"""A first start saves once, long before it is asked, and would never end."""

PROGRAMS = {"handler": HANDLER + LOOP, "polls": POLLS + LOOP, "knows-nothing": KNOWS_NOTHING}


class Start(NamedTuple):
    """One attempt of a run, as it was seen."""

    asked: float | None
    """When its checkpoint was asked for."""
    saved: list[int]
    """The steps that it saved when asked."""
    steps: list[tuple[float, int]]
    resumed_from: int | None


@pytest.fixture(scope="module")
def runs(slurm_testbed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, View]]:
    """All programs, started at the same time."""
    with closing(Site(slurm_testbed, tmp_path_factory.mktemp("requests"))) as site:
        (site.work / "save.py").write_text(SAVE)
        (site.work / "bash.sh").write_text(BASH)
        for name, text in PROGRAMS.items():
            (site.work / f"{name}.py").write_text(text)
        commands = {"bash": "exec bash bash.sh"} | {name: f"exec {PYTHON} {name}.py" for name in PROGRAMS}
        yield {name: submit(site, name, command) for name, command in commands.items()}


def submit(site: Site, name: str, command: str) -> View:
    job = site.job(command, name=name, time="1m")
    tables = f'[progress]\ntotal = {STEPS}\n[checkpoint]\npath = "saved by {name}"\nlead_time = "15s"\n'
    job.write_text(job.read_text() + tables)
    return View(site, site.submit(job.name), site.work / f"saved by {name}")


def starts(view: View) -> list[Start]:
    """The attempts of a run that is completed; each but the last ended at its time limit."""
    until(lambda: view.has_ended, "the run ends", BOUND)
    assert view.events("run-ended")[-1]["outcome"] == "completed"
    assert {one["kind"] for one in view.events("diagnosed")} == {"time-limit"}
    assert {one["action"] for one in view.events("decided")} == {"requeue"}
    found = []
    for attempt in view.events("attempt-started"):
        name = attempt["attempt"]
        log = (view.root / "logs" / name / "rank-00000.out").read_text()
        asked = [one for one in view.events("checkpoint-requested") if one["attempt"] == name]
        assert [one["why"] for one in asked] in ([], ["time-limit"])
        (chosen,) = [one for one in view.events("checkpoint-chosen") if one["attempt"] == name]
        found.append(
            Start(
                asked=asked[0]["time"] if asked else None,
                saved=[int(step) for step, why in SAVES.findall(log) if why == "asked"],
                steps=[(float(at), int(step)) for at, step in re.findall(r"(?m)^(\S+)  step (\d+)$", log)],
                resumed_from=chosen.get("at_step"),
            )
        )
    assert len(found) > 1
    assert all(one.asked for one in found[:-1])
    return found


@pytest.mark.parametrize("program", ["bash", "handler", "polls"])
def test_a_program_that_hears_of_it_saves_once_and_loses_no_step(
    runs: Mapping[str, View], program: str
) -> None:
    every = starts(runs[program])
    for one, following in pairwise(every):
        (saved,) = one.saved
        assert following.resumed_from == saved
        assert following.steps[0][1] == saved + 1
        at = next(at for at, step in one.steps if step == saved)
        assert one.asked is not None
        assert at >= one.asked - 1


def test_a_program_that_knows_no_signal_is_not_ended_by_one_and_goes_on_from_what_it_had(
    runs: Mapping[str, View],
) -> None:
    view = runs["knows-nothing"]
    first, second = starts(view)
    assert first.asked is not None
    assert [step for _, step in second.steps] == list(range(STEPS - 4, STEPS + 1))
    assert second.resumed_from == STEPS - 5
    # It worked on until the agent ended the step, and not Slurm.
    assert "SIGTERM" not in view.events("step-ended")[0].get("received", [])
    assert len([at for at, _ in first.steps if at > first.asked + 3]) > 1
