"""Tests of the native testbed, run inside a cluster of containers: on its login node, as root."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.docker.conftest import SOURCE
from tests.docker.user import PYTHON

if TYPE_CHECKING:
    from slurmkit.testbed.compose import ComposeTestbed

pytestmark = [pytest.mark.docker, pytest.mark.timeout(1800)]

NO_CGROUPS = "a container has no control groups: the GPUs of a rank keep their numbers"
UNMET = {"test_trap_060_the_gpu_of_a_rank_counts_among_those_that_it_sees": NO_CGROUPS}
"""Tests that ask for what containers have not, and what that is. One that passes is to be taken out."""


WITH_PYSLURM = "26.05"
"""The version whose image has pyslurm."""


@pytest.mark.parametrize(
    "name",
    [
        "slurm_commands",
        "slurm_contract_pyslurm",
        "slurm_submission",
        "launch_ranks",
        "rank_environment",
        "launch_failures",
        "cli_life",
    ],
)
def test_the_cluster_suite_passes_inside(cluster: ComposeTestbed, name: str) -> None:
    file = f"tests/cluster/test_{name}.py"
    settings = ("--env=SLURMKIT_TESTBED=/cluster", "--env=PYTHONDONTWRITEBYTECODE=1", "--workdir", SOURCE)
    options = ("-p", "no:cacheprovider", "--basetemp=/shared/tests", "-rfs", "-q")
    done = cluster.compose(
        *("exec", "-T", *settings, "login", PYTHON, "-m", "pytest", file, *options), timeout=1700
    )
    failed = set(re.findall(r"^FAILED [^:]+::(.*?)(?: - .*)?$", done.stdout, re.MULTILINE))
    collected = cluster.command(["grep", "-ohE", r"^def test_\w+", f"{SOURCE}/{file}"]).stdout
    assert failed == {test for test in UNMET if test in collected}, done.stdout[-6000:]
    assert done.returncode in {0, 1}, done.stdout[-6000:] + done.stderr[-2000:]
    if name.endswith("pyslurm") and cluster.slurm == WITH_PYSLURM:
        assert "SKIPPED" not in done.stdout, done.stdout[-6000:]
