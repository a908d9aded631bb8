"""A run in a storm, seen from the outside: what it wrote down, what its training logged, its processes."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from slurmkit.checkpoint.plain import MANIFEST, manifest_of
from slurmkit.testbed.process import all_pids, identify, read_items, read_stat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from slurmkit.testbed.process import Process
    from tests.cluster.site import Site

LINE = re.compile(rb"(\d+\.\d{3})  (from )?step (\d+)\b")


class Mark(NamedTuple):
    """A line of the training's log: a step that is done, or with `is_start` the one it goes on from."""

    at: float
    step: int
    is_start: bool


class Rank(NamedTuple):
    """A rank's program."""

    number: int
    node: str
    process: Process


class View:
    """What can be seen of the run without asking slurmkit; each look reads only what is new."""

    def __init__(self, site: Site, run_id: str, checkpoints: Path) -> None:
        self.site = site
        self.testbed = site.testbed
        self.run_id = run_id
        self.root = site.work / "runs" / run_id
        self.checkpoints = checkpoints
        self._events: list[dict[str, Any]] = []
        self._marks: list[Mark] = []
        self._read: dict[Path, int] = {}

    def events(self, *kinds: str, since: float = 0.0) -> list[dict[str, Any]]:
        """The events of these kinds, or all, from a time on."""
        for line in self._new_lines(self.root / "events.jsonl"):
            with contextlib.suppress(ValueError):  # cut short by a kill
                self._events.append(json.loads(line))
        return [
            event
            for event in self._events
            if event["time"] >= since and (not kinds or event["event"] in kinds)
        ]

    def marks(self) -> list[Mark]:
        """All lines of the training so far, by time."""
        before = len(self._marks)
        for log in self.root.glob("logs/*/rank-00000.out"):
            for line in self._new_lines(log):
                if found := LINE.match(line):
                    self._marks.append(Mark(float(found[1]), int(found[3]), bool(found[2])))
        if len(self._marks) > before:
            self._marks.sort(key=lambda mark: mark.at)
        return self._marks

    def _new_lines(self, file: Path) -> list[bytes]:
        try:
            with file.open("rb") as opened:
                opened.seek(self._read.get(file, 0))
                data = opened.read()
        except FileNotFoundError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._read[file] = self._read.get(file, 0) + len(whole)
        return whole.splitlines()

    @property
    def step(self) -> int:
        """The furthest step that is done."""
        return max((mark.step for mark in self.marks()), default=0)

    @property
    def has_ended(self) -> bool:
        """Whether slurmkit has declared the run over."""
        return bool(self.events("run-ended"))

    @property
    def job(self) -> str:
        """The id of the run's last job."""
        job: str = self.events("submitted", "adopted", "attempt-started")[-1]["job_id"]
        return job

    def job_state(self) -> str:
        """What squeue says of the last job; empty where it is not there, or does not answer."""
        squeue = ["squeue", "--noheader", "--states=all", f"--jobs={self.job}", "--format=%T"]
        return self.testbed.command(squeue).stdout.strip()

    def queue(self) -> list[str]:
        """The jobs of the testbed that have not ended, one line each."""
        squeue = ["squeue", "--noheader", "--format=%i %T %r %k"]
        return self.testbed.command(squeue).stdout.splitlines()

    def ranks(self) -> list[Rank]:
        """The programs of the training that run now, by rank."""
        return sorted(self._ranks(), key=lambda rank: rank.number)

    def _ranks(self) -> Iterator[Rank]:
        for pid in self._own():
            words = read_items(pid, "cmdline")
            process = identify(pid)
            if len(words) > 1 and words[1].endswith("train.py") and process:
                told = dict(item.partition("=")[::2] for item in read_items(pid, "environ"))
                if "RANK" in told:
                    yield Rank(int(told["RANK"]), told["SLURMD_NODENAME"], process)

    def agent(self) -> Process | None:
        """The agent's process."""
        found = [pid for pid in self._own() if "slurmkit.recovery.agent" in read_items(pid, "cmdline")]
        return identify(found[0]) if found else None

    def _own(self) -> list[int]:
        run = str(self.root)
        return [
            pid
            for pid in all_pids()
            if any(run in item for file in ("environ", "cmdline") for item in read_items(pid, file))
        ]

    def saved(self, *, complete: bool) -> list[Path]:
        """The checkpoints that have a manifest, or those that have none; the newest last."""
        found = [path for path in self.checkpoints.glob("step-*") if manifest_of(path).exists() == complete]
        return sorted(found, key=step_of)

    def pieces(self, checkpoint: Path) -> list[Path]:
        """The files of a checkpoint, without its manifest; none of one that has been removed by now."""
        try:
            return sorted(path for path in checkpoint.iterdir() if MANIFEST not in path.name)
        except FileNotFoundError:
            return []


def step_of(checkpoint: Path) -> int:
    """The step that a checkpoint's name tells."""
    return int(checkpoint.name.removeprefix("step-"))


def above(process: Process, is_it: Callable[[list[str]], bool]) -> Process | None:
    """The nearest process above this one whose command line is the one that is wanted."""
    pid = process.pid
    while pid > 1 and (stat := read_stat(pid)):
        pid = stat.parent
        if is_it(read_items(pid, "cmdline")):
            return identify(pid)
    return None


def host_namespace(pid: int) -> str:
    """What all processes of a testbed's node share, and nobody else has: its host name."""
    try:
        return str(Path(f"/proc/{pid}/ns/uts").readlink())
    except OSError:
        return ""


def of_host(namespace: str) -> list[Process]:
    """The processes of a node."""
    found = (identify(pid) for pid in all_pids() if host_namespace(pid) == namespace)
    return [process for process in found if process]
