"""The native testbed in one container, on another Slurm: for tests that want a cluster of their own shape, or
that look for ranks among the processes of their own host.
"""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from slurmkit.testbed.compose import docker
from tests.docker.conftest import CHECKOUT, SOURCE
from tests.docker.user import PYTHON

if TYPE_CHECKING:
    from slurmkit.testbed.compose import ComposeTestbed

pytestmark = [pytest.mark.docker, pytest.mark.timeout(1800)]


@pytest.mark.parametrize("name", ["slurm_contract", "diagnosis", "recovery", "recovery_more"])
def test_the_suite_of_the_native_testbed_passes_in_a_container(whole: ComposeTestbed, name: str) -> None:
    variables = whole.variables()
    allowed = json.loads(whole.compose("config", "--format=json").stdout)["services"][whole.nodes[0]][
        "cap_add"
    ]
    image = f"{variables['SLURMKIT_IMAGE']}:{variables['SLURMKIT_SUITE']}"
    done = subprocess.run(
        [
            *(docker(), "run", "--rm", "--cap-drop=ALL", *(f"--cap-add={one}" for one in allowed)),
            *("--security-opt=no-new-privileges", f"--volume={CHECKOUT}:{SOURCE}:ro", "--workdir", SOURCE),
            *("--env=PYTHONDONTWRITEBYTECODE=1", f"--entrypoint={PYTHON}", image),
            *("-m", "pytest", f"tests/cluster/test_{name}.py", "-p", "no:cacheprovider", "-q"),
        ],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=1700,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
