"""The pytest plugin: a real Slurm cluster as a fixture.

Every pytest run where slurmkit is installed loads it: it imports nothing of slurmkit until a fixture is used.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from slurmkit.testbed.options import Options
    from slurmkit.testbed.testbed import Testbed

REUSE = "SLURMKIT_TESTBED"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The shape of the session's testbed."""
    group = parser.getgroup("slurmkit", "Slurm testbed")
    group.addoption(
        "--slurm-nodes", type=int, default=4, metavar="N", help="nodes of the fixture slurm_testbed"
    )
    group.addoption(
        "--slurm-gpus",
        default="a100:8",
        metavar="TYPE:COUNT",
        help="GPUs per node of the fixture slurm_testbed",
    )


@pytest.fixture(scope="session")
def make_testbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Options], Testbed]]:
    """A function that brings a testbed of given `Options` up; all are taken down when the session ends."""
    from slurmkit.testbed.native import down, up

    roots: list[Path] = []

    def make(options: Options) -> Testbed:
        root = tmp_path_factory.mktemp("testbed")
        roots.append(root)
        return up(options, root)

    try:
        yield make
    finally:
        for root in roots:
            down(root)


@pytest.fixture(scope="session")
def slurm_testbed(request: pytest.FixtureRequest, make_testbed: Callable[[Options], Testbed]) -> Testbed:
    """A real Slurm cluster for the session: 4 nodes with 8 GPUs each unless the command line says otherwise.

    $SLURMKIT_TESTBED names one that is up already (a name or its directory): it is used, and stays up.
    """
    from slurmkit.testbed.options import Options

    if name := os.environ.get(REUSE):
        from slurmkit.testbed.native import find

        return find(name)
    return make_testbed(
        Options(
            nodes=request.config.getoption("--slurm-nodes"), gpus=request.config.getoption("--slurm-gpus")
        )
    )
