"""The job of doctor's check of nodes: what srun is asked for, and what its answer comes to."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slurmkit.errors import Refused, UsageError
from slurmkit.inventory.nodes_check import check
from slurmkit.slurm.clock import SystemClock

if TYPE_CHECKING:
    from slurmkit.run.fitness import Fitness

SRUN = """\
#!{python}
import json, os, sys, time
with open({log!r}, "w") as file:
    json.dump(sys.argv[1:], file)
asked = json.loads(os.environ["SLURMKIT_FITNESS"])
there = os.path.exists(sys.argv[-2])
for number, (node, ahead) in enumerate({nodes!r}):
    told = {{"token": asked["token"], "node": node}}
    print(f"{{number}}: " + json.dumps({{**told, "hello": time.time() + ahead}}))
    problems = [] if there else ["no archive"]
    print(f"{{number}}: " + json.dumps({{**told, "problems": problems, "warnings": [], "facts": asked}}))
print({said!r}, file=sys.stderr)
"""


def checked(
    folder: Path, nodes: dict[str, float], *, gpus: int = 0, said: str = "", directory: Path | None = None
) -> Fitness:
    """The check with a stand-in for srun: these nodes answer, their clocks so many seconds ahead."""
    text = SRUN.format(python=sys.executable, log=str(folder / "log"), nodes=list(nodes.items()), said=said)
    (folder / "srun").write_text(text)
    (folder / "srun").chmod(0o755)
    return check(
        ["n1", "n2", "n3"],
        gpus,
        ["--partition=main"],
        directory=directory or folder,
        programs=["site check"],
        environment={"PATH": f"{folder}:{os.environ['PATH']}", "SLURM_NTASKS": "9"},
        clock=SystemClock(),
        check_time=10.0,
        queue_time=30.5,
    )


def test_srun_is_asked_for_the_nodes_and_gives_up_by_itself(tmp_path: Path) -> None:
    fitness = checked(tmp_path, {"n1": 0, "n2": 0, "n3": 0}, gpus=4)
    assert (fitness.unfit, fitness.warnings) == ({}, {})
    asked = (tmp_path / "log").read_text()
    for option in ("--nodes=3", "--ntasks=3", "--nodelist=n1,n2,n3", "--gpus-per-node=4", "--immediate=30"):
        assert f'"{option}"' in asked
    assert '"--time=1"' in asked
    assert '"--partition=main"' in asked
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["log", "srun"]


def test_without_free_gpus_none_are_asked_for(tmp_path: Path) -> None:
    checked(tmp_path, {"n1": 0})
    assert "--gpus-per-node" not in (tmp_path / "log").read_text()


def test_a_clock_is_wrong_where_it_tells_a_time_that_cannot_be(tmp_path: Path) -> None:
    fitness = checked(tmp_path, {"n1": 0, "n2": -300, "n3": 30})
    (unfit,), (warned,) = fitness.unfit["n2"], fitness.warnings["n3"]
    assert unfit.startswith("its clock is ")
    assert unfit.endswith(" s behind that of n1")
    assert warned.endswith(" s ahead of that of n1")


def test_where_slurm_gives_no_nodes_its_word_is_the_reason(tmp_path: Path) -> None:
    said = "srun: error: Unable to allocate resources: Requested nodes are busy"
    with pytest.raises(Refused, match="Requested nodes are busy"):
        checked(tmp_path, {}, said=said)


def test_a_directory_that_cannot_be_written_is_a_mistake_of_the_user(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        checked(tmp_path, {}, directory=tmp_path / "absent")
