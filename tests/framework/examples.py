"""The examples that need a framework, on a testbed. Ranks that all import PyTorch at once take a while."""

from __future__ import annotations

import json
import re
import shutil
import signal
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from slurmkit.testbed.process import all_pids, identify, read_items
from tests.cluster import ranks
from tests.cluster.site import Site, until
from tests.cluster.storm_view import View

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from slurmkit.testbed.process import Process
    from slurmkit.testbed.testbed import Testbed

EXAMPLES = Path(__file__).parents[2] / "examples"
BOUND = 240.0


@contextmanager
def site_of(testbed: Testbed, directory: Path, example: str) -> Iterator[Site]:
    """A user in a copy of the example's folder."""
    with closing(Site(testbed, directory)) as site:
        left_behind = shutil.ignore_patterns("runs", "checkpoints")
        shutil.copytree(EXAMPLES / example, site.work, dirs_exist_ok=True, ignore=left_behind)
        yield site


def run(site: Site, *options: str) -> str:
    """Submit the job file and wait for its end, which must be a good one; the run id."""
    process = site.start("submit", "job.toml", "--wait", *options)
    out, err = process.communicate(timeout=BOUND)
    assert process.returncode == 0, f"{out}\n{err}"
    return out.splitlines()[0]


def lines(site: Site, run: str, pattern: re.Pattern[str]) -> list[tuple[str, ...]]:
    """What a pattern finds in each rank's logs, by attempt and rank; of several places the last."""
    found = [list(pattern.finditer(text)) for text in ranks.printed(site, run)]
    return [matches[-1].groups() if matches else () for matches in found]


def slow(site: Site, program: str, folder: str, *, save_every: int) -> View:
    """The example with a step a second, and checkpoints in this folder."""
    slowly = ["python", program, "--step-time", "1", "--save-every", str(save_every)]
    options = (f"command={json.dumps(slowly)}", f"checkpoint.path={json.dumps(folder)}")
    run_id = site.submit("job.toml", *(word for option in options for word in ("--set", option)))
    return View(site, run_id, site.work / folder)


def program_of(view: View, rank: int) -> Process:
    """A rank's program."""
    wanted = {f"SLURMKIT_RUN_ID={view.run_id}", f"RANK={rank}"}
    found = [identify(pid) for pid in all_pids() if wanted <= set(read_items(pid, "environ"))]
    (process,) = filter(None, found)
    return process


def end(view: View) -> dict[str, Any]:
    """How the run ended, which it has to within `BOUND` seconds."""
    until(lambda: view.has_ended, "the run ends", BOUND)
    told: dict[str, Any] = view.events("run-ended")[-1]
    return told


def assert_goes_on_after_a_kill(view: View) -> int:
    """Kill rank 3; the run is started again in place, from its newest checkpoint. The step of that."""
    until(lambda: view.events("checkpoint-complete"), "a checkpoint is complete", BOUND)
    program_of(view, 3).kill(signal.SIGKILL)
    assert end(view)["outcome"] == "completed"
    assert [(one["kind"], one["rank"]) for one in view.events("diagnosed")] == [("killed", 3)]
    assert [one["action"] for one in view.events("decided")] == ["restart"]
    before = view.events("step-ended")[0]["time"]
    newest = [one for one in view.events("checkpoint-complete") if one["time"] <= before][-1]
    step: int = view.events("checkpoint-chosen")[-1]["at_step"]
    assert step >= newest["at_step"]
    return step


def assert_saves_when_asked(view: View) -> int:
    """Give Slurm's warning of the time limit; the run saves, and goes on from there. The step of that."""
    until(lambda: steps_done(view) >= 2, "some steps are done", BOUND)
    view.testbed.command(["scancel", "--batch", "--signal=USR1", view.job])
    assert end(view)["outcome"] == "completed"
    assert [one["why"] for one in view.events("checkpoint-requested")] == ["time-limit"]
    assert [one["kind"] for one in view.events("diagnosed")] == ["time-limit"]
    assert [one["attempt"] for one in view.events("attempt-started")] == [f"{view.job}-0", f"{view.job}-1"]
    step: int = view.events("checkpoint-chosen")[-1]["at_step"]
    assert step == view.events("checkpoint-complete")[0]["at_step"]
    return step


def steps_done(view: View) -> int:
    """How far the ranks are, as they tell the agent."""
    (told,) = view.site.json("status", view.run_id)
    return int(told.get("step") or 0)
