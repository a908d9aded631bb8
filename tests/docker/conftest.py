"""What the tests of containers share: one cluster of them for the session, and what a user does on it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slurmkit.testbed import compose, native
from slurmkit.testbed.daemons import wait_for
from slurmkit.testbed.options import Options
from slurmkit.testbed.starting import node_states
from tests.docker.faults import give_back

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from slurmkit.testbed.compose import ComposeTestbed

CHECKOUT = Path(__file__).parents[2]
SOURCE = "/src"
"""The checkout, as login and the nodes see it."""


@pytest.fixture(scope="session")
def whole(
    request: pytest.FixtureRequest, make_docker_testbed: Callable[..., ComposeTestbed]
) -> ComposeTestbed:
    """A cluster of the version that `--slurm-docker` names, with what tests import in its image."""
    if name := os.environ.get("SLURMKIT_TESTBED"):
        there = compose.load(native.root_of(name))
        assert there is not None, f"there is no testbed of containers {name!r}"
        return there
    version = request.config.getoption("--slurm-docker") or compose.DEFAULT_SLURM
    mounts = (f"{CHECKOUT}:{SOURCE}:ro",)
    return make_docker_testbed(Options(), slurm=version, target="tests", mounts=mounts)


@pytest.fixture
def cluster(whole: ComposeTestbed) -> Iterator[ComposeTestbed]:
    """The cluster, whole again after each test."""
    yield whole
    for user in ("root", "alice", "bob"):
        whole.command(["scancel", f"--user={user}"])

    def is_whole() -> bool:
        give_back(whole)
        return set(node_states(whole).values()) == {"idle"}

    assert wait_for(is_whole, 120, 0.5), whole.command(["sinfo", "--Node", "--format=%n %T %E"]).stdout
