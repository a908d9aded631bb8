"""The fixture `slurm_testbed`, in test sessions of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from slurmkit.testbed.daemons import wait_for
from slurmkit.testbed.leftovers import belonging
from slurmkit.testbed.native import find

if TYPE_CHECKING:
    from pathlib import Path

    from slurmkit.testbed.testbed import Testbed

pytestmark = pytest.mark.cluster

TESTS = """
import os
from pathlib import Path

def test_shape(slurm_testbed, make_testbed):
    assert len(slurm_testbed.nodes) == int(os.environ.get("NODES", "1"))
    Path("root.txt").write_text(f"{slurm_testbed.root}\\n")
    if "HANG" in os.environ:
        slurm_testbed.command(["srun", "sleep", "1000"], timeout=1000)
"""


def session(directory: Path, *more: str, **variables: str) -> subprocess.Popen[str]:
    (directory / "test_inner.py").write_text(TESTS)
    words = ["--slurm-nodes=1", "--slurm-gpus=", "--rootdir=.", "-p", "no:cacheprovider", "test_inner.py"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("COV_", "SLURMKIT_"))}
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "pytest", *words, *more],
        cwd=directory,
        env={**kept, "PYTEST_DEBUG_TEMPROOT": str(directory), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def interrupted(directory: Path, number: int, *more: str) -> Testbed:
    """The testbed of a session that a signal ended while a test used it."""
    told = directory / "root.txt"
    told.unlink(missing_ok=True)
    with session(directory, *more, HANG="yes") as process:
        assert wait_for(lambda: told.exists() and told.read_text().endswith("\n"), 60)
        testbed = find(told.read_text().strip())
        os.killpg(process.pid, number)
        process.communicate(timeout=60)
    return testbed


def test_ctrl_c_takes_the_testbed_down(tmp_path: Path) -> None:
    testbed = interrupted(tmp_path, signal.SIGINT)
    assert not testbed.root.exists()
    assert belonging(testbed) == set()


@pytest.mark.parametrize("more", [(), ("-n1",)], ids=["alone", "in a worker of xdist"])
def test_the_testbed_of_a_killed_session_goes_with_the_next_though_two_begin_at_once(
    tmp_path: Path, more: tuple[str, ...]
) -> None:
    testbed = interrupted(tmp_path, signal.SIGKILL, *more)
    assert not testbed.missing()
    with session(tmp_path, *more) as one, session(tmp_path, *more) as other:
        for process in (one, other):
            text, _ = process.communicate(timeout=120)
            assert process.returncode == 0, text
    assert not testbed.root.exists()
    assert belonging(testbed) == set()


def test_a_testbed_that_is_up_can_be_lent(slurm_testbed: Testbed, tmp_path: Path) -> None:
    lent = {"SLURMKIT_TESTBED": str(slurm_testbed.root), "NODES": str(len(slurm_testbed.nodes))}
    with session(tmp_path, **lent) as process:
        text, _ = process.communicate(timeout=120)
    assert process.returncode == 0, text
    assert (tmp_path / "root.txt").read_text().strip() == str(slurm_testbed.root)
    assert not slurm_testbed.missing()
