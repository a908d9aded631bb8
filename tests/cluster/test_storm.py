"""A training that is struck by one fault after another ends, unattended, with the weights of fair weather."""

from __future__ import annotations

import os
import random
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slurmkit.testbed import native
from tests.cluster import storm
from tests.cluster.site import Site, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from slurmkit.testbed.options import Options
    from slurmkit.testbed.testbed import Testbed

SEED = 1
SHORT = 20
LONG = 100
TO_THE_END, PER_STEP = 60.0, 1.0
"""Seconds until the run ends in fair weather, at most."""


def ride_out(make_testbed: Callable[[Options], Testbed], tmp_path: Path, *, seed: int, count: int) -> None:
    """Run the training through a storm and see what has become of it."""
    chance = random.Random(seed)
    with ExitStack() as stack:
        checkpoints = stack.enter_context(storm.own_disk(tmp_path / "disk"))
        testbed = make_testbed(storm.OPTIONS)
        stack.callback(native.down, testbed.root)
        site = stack.enter_context(closing(Site(testbed, tmp_path)))
        names, left_out = storm.possible(testbed, checkpoints)
        faults = storm.sequence(names, chance, count)
        steps = storm.steps_for(faults)
        print(f"\nseed {seed}, {count} faults", *left_out, sep="\n")
        expected = storm.undisturbed(tmp_path / "fair", steps)
        stack.enter_context(storm.supervised(site))
        view = storm.submit(site, checkpoints, steps)
        print(f"run directory: {view.root}")
        found = storm.weather(view, faults, chance, say)
        until(lambda: view.has_ended, "the run ends", TO_THE_END + PER_STEP * (steps - view.step))
        print(storm.table(found.passed))
        (end,) = view.events("run-ended")
        assert end["outcome"] == "completed", end
        assert (site.work / "weights.sha256").read_text() == expected
        until(lambda: not view.queue(), "no job of the run is left")
        assert site.state("last") == "completed"
        assert not storm.lost_checkpoints(found)


def say(text: str) -> None:
    print(text, flush=True)


@pytest.mark.cluster
@pytest.mark.timeout(900)
def test_a_run_survives_a_storm(make_testbed: Callable[[Options], Testbed], tmp_path: Path) -> None:
    ride_out(make_testbed, tmp_path, seed=SEED, count=SHORT)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_a_run_survives_a_long_storm(make_testbed: Callable[[Options], Testbed], tmp_path: Path) -> None:
    environ = os.environ
    seed, count = int(environ.get("STORM_SEED") or SEED), int(environ.get("STORM_FAULTS") or LONG)
    ride_out(make_testbed, tmp_path, seed=seed, count=count)
