"""The storm: a training under a seeded sequence of faults, with nobody but slurmkit to look after it.

Each fault is aimed once the run has made a checkpoint since the last one, and awaited until it has passed.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.checkpoint import verify
from slurmkit.testbed.options import Options
from tests.cluster.site import BINARIES, until
from tests.cluster.storm_faults import FAULTS, Target
from tests.cluster.storm_view import View, step_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from slurmkit.testbed.testbed import Testbed
    from tests.cluster.site import Site
    from tests.cluster.storm_faults import Fault
    from tests.cluster.storm_view import Mark

PROGRAM = Path(__file__).parents[2] / "examples" / "resume" / "train.py"
SAVE_EVERY = 10
RANKS = 8
KEEP = 3
STEPS_BETWEEN = 30
"""Steps of the training, at most, from its last start to the next fault."""
BOUND = 150.0
OPTIONS = Options(
    nodes=4,
    partitions=("main=ALL Default=YES PriorityTier=1 GraceTime=8", "urgent=ALL PriorityTier=10"),
    config=("PreemptType=preempt/partition_prio", "PreemptMode=REQUEUE", "SlurmdTimeout=12"),
)
JOB = """\
name = "storm"
command = [{python!r}, "train.py", "--steps", "{steps}", "--save-every", "{save_every}",
           "--step-time", "0.1", "--save-time", "0.1"]

[resources]
nodes = 3
spare_nodes = 1
ntasks = {ranks}
gpus_per_node = "a100:8"
cpus_per_task = 1
mem = "500M"
time = "2h"

[launch]
grace = "3s"

[progress]
total = {steps}
hang_after = "8s"

[checkpoint]
path = {checkpoints!r}
resume = ["--resume", "{{checkpoint}}"]
lead_time = "15s"
keep = {keep}

[retry]
restarts = 1000
requeues = 1000
memory_factor = 1.1
exclude_bad_nodes = false   # a node of this cluster that dies comes back, and the job needs all of them
"""


class Passed(NamedTuple):
    """A fault that is over: seconds until a step was done again, where steps had ended; steps done twice."""

    name: str
    hit: str
    seconds: float | None
    lost: int
    explained: str


def possible(testbed: Testbed, checkpoints: Path) -> tuple[list[str], list[str]]:
    """The faults that there can be on this machine, and in words those that there cannot."""
    why_not = {name: fault.lacks(testbed, checkpoints) for name, fault in FAULTS.items()}
    return [name for name, why in why_not.items() if not why], [
        f"left out: {name}, for {why}" for name, why in why_not.items() if why
    ]


def sequence(names: Sequence[str], chance: random.Random, count: int) -> list[str]:
    """So many faults: each kind once if there is room, more by their weights, in any order."""
    chosen = chance.sample(names, min(count, len(names)))
    weights = [FAULTS[name].weight for name in names]
    chosen += chance.choices(names, weights, k=count - len(chosen))
    chance.shuffle(chosen)
    return chosen


@contextmanager
def own_disk(folder: Path) -> Iterator[Path]:
    """A place for checkpoints on a small file system of its own, where this user may mount one."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", str(folder)]
    is_own = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    try:
        yield folder / "checkpoints"
    finally:
        if is_own:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def supervised(site: Site) -> Iterator[None]:
    """What cron does on a login node."""
    with (site.work / "supervise.log").open("w") as log:
        supervisor = subprocess.Popen(
            [BINARIES / "slurmkit", "supervise", "--all", "--every", "2s"],
            cwd=site.work,
            env=site.environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        with supervisor:
            try:
                yield
                assert supervisor.poll() is None, "the supervisor has ended"
            finally:
                supervisor.terminate()


def steps_for(names: Sequence[str]) -> int:
    """How many steps the training needs so that it is not over before the storm."""
    return STEPS_BETWEEN * (len(names) + 1) + sum(FAULTS[name].steps for name in names)


def undisturbed(folder: Path, steps: int) -> str:
    """The digest of the weights of a run in fair weather: one rank does the same as eight."""
    folder.mkdir()
    words = ["--steps", str(steps), "--step-time", "0", "--save-every", str(steps)]
    subprocess.run([sys.executable, PROGRAM, *words], cwd=folder, stdout=subprocess.DEVNULL, check=True)
    return (folder / "weights.sha256").read_text()


def submit(site: Site, checkpoints: Path, steps: int) -> View:
    """Start the training."""
    shutil.copy(PROGRAM, site.work)
    text = JOB.format(
        ranks=RANKS,
        keep=KEEP,
        python=sys.executable,
        steps=steps,
        save_every=SAVE_EVERY,
        checkpoints=str(checkpoints),
    )
    (site.work / "storm.toml").write_text(text)
    return View(site, site.submit("storm.toml"), checkpoints)


def weather(view: View, names: Sequence[str], chance: random.Random, say: Callable[[str], None]) -> Storm:
    """Let the faults come, one after the other."""
    storm = Storm(view, chance, say)
    for number, name in enumerate(names):
        storm.wait_for_calm(chance.randrange(STEPS_BETWEEN // 3))
        storm.strike(f"{number + 1}/{len(names)}", name)
    return storm


class Storm:
    """What has happened so far."""

    def __init__(self, view: View, chance: random.Random, say: Callable[[str], None]) -> None:
        self.view = view
        self.target = Target(view, chance, {})
        self.passed: list[Passed] = []
        self._say = say
        self._since = 0.0

    def wait_for_calm(self, more: int) -> None:
        """Wait until all ranks run, have saved since the last fault, and have done some steps more."""
        self._wait(lambda: self._has_saved() and len(self.view.ranks()) == RANKS, "the run saves again")
        step = self.view.step + more
        self._wait(lambda: self.view.step >= step, f"step {step} is done")

    def _wait(self, condition: Callable[[], object], what: str) -> None:
        def is_true() -> object:
            assert not self.view.has_ended, f"{what}; but the run has ended: {self.view.events()[-1]}"
            return condition()

        until(is_true, what, BOUND)

    def _has_saved(self) -> bool:
        saved = (mark for mark in self.view.marks() if not mark.is_start and mark.step % SAVE_EVERY == 0)
        return any(mark.at > self._since for mark in saved)

    def strike(self, label: str, name: str) -> None:
        """One fault, until it has passed."""
        fault, began = FAULTS[name], time.time()
        self._say(f"{label} {name} ...")
        hit = fault.strike(self.target)
        struck = time.time()
        if fault.explained_by:
            self._wait(lambda: self._restarted(began), f"steps are done again after {name}: {hit}")
            start, step = self._restarted(began) or (None, None)
            assert start
            assert step
            self._check_start(start)
            lost = max(mark.step for mark in self.view.marks() if mark.at < start.at) - start.step
            seconds = step.at - began
        else:
            self._wait(lambda: self._later(struck), f"steps are done in spite of {name}")
            lost, seconds = 0, None
        explained = self._explanation(fault, began)
        self._since = time.time()
        self.passed.append(Passed(name, hit, seconds, lost, explained))
        again = "never stopped" if seconds is None else f"{seconds:.1f} s, {lost} steps"
        self._say(f"    {hit}: {again}; {explained}")

    def _later(self, since: float) -> bool:
        return any(mark.at > since for mark in self.view.marks())

    def _restarted(self, since: float) -> tuple[Mark, Mark] | None:
        """The first start after a time that did a step, and the first step that it did."""
        marks = self.view.marks()
        pairs = pairwise(marks)
        return next(
            (
                (one, after)
                for one, after in pairs
                if one.at > since and one.is_start and not after.is_start and after.step == one.step + 1
            ),
            None,
        )

    def _check_start(self, start: Mark) -> None:
        """A start is from the newest good checkpoint that there was."""
        spoilt = {step_of(path): at for path, at in self.target.spoilt.items()}
        good = [
            mark.step
            for mark in self.view.marks()
            if not mark.is_start
            and mark.step % SAVE_EVERY == 0
            and spoilt.get(mark.step, 0.0) < mark.at < start.at
        ]
        newest = max(good, default=0)
        assert start.step >= newest, f"goes on from step {start.step}, though step {newest} was saved"

    def _explanation(self, fault: Fault, since: float) -> str:
        """The sentence that the run's events have for a fault.

        Of one that left a checkpoint unfit they must also say that it was refused.
        """
        if not fault.explained_by:
            return "no step ended"

        def told() -> list[str]:
            found = self.view.events("diagnosed", since=since)
            return [event["sentence"] for event in found if event["kind"] in fault.explained_by]

        try:
            until(told, f"a diagnosis of {sorted(fault.explained_by)}", 30)
        except AssertionError:
            self._say("\n".join(map(str, self.view.events(since=since))))
            raise
        for path, at in self.target.spoilt.items():
            if at > since:
                refused = [
                    one["checkpoint"]
                    for event in self.view.events("checkpoint-chosen", since=since)
                    for one in event.get("refused") or ()
                ]
                assert str(path) in refused, f"{path} was spoilt, and nobody says so"
        return told()[0]


def lost_checkpoints(storm: Storm) -> list[int]:
    """The last two steps that were saved must be there, whatever `keep` says: those that are not."""
    view = storm.view
    saved = {mark.step for mark in view.marks() if not mark.is_start and mark.step % SAVE_EVERY == 0}
    folders = {step: view.checkpoints / f"step-{step}" for step in sorted(saved)[-2:]}
    return [step for step, folder in folders.items() if verify(folder, deep=True).state != "complete"]


def table(passed: Sequence[Passed]) -> str:
    """Each kind of fault: how many, the time to running again, the steps that were done twice."""
    by_name: defaultdict[str, list[Passed]] = defaultdict(list)
    for one in passed:
        by_name[one.name].append(one)
    rows = [
        ("fault", "times", "running again", "longest", "steps lost", "most"),
        *((name, *_row(by_name[name])) for name in FAULTS if name in by_name),
        ("all", *_row(passed)),
    ]
    return "\n".join(f"{row[0]:<28}" + "".join(f"{cell:>15}" for cell in row[1:]) for row in rows)


def _row(ones: Sequence[Passed]) -> tuple[str, str, str, str, str]:
    seconds = [one.seconds for one in ones if one.seconds is not None]
    if not seconds:
        return str(len(ones)), "at once", "at once", "0", "0"
    lost = [one.lost for one in ones]
    return (
        str(len(ones)),
        f"{median(seconds):.1f} s",
        f"{max(seconds):.1f} s",
        str(sum(lost)),
        str(max(lost)),
    )
