"""The pytest plugin: a real Slurm cluster as a fixture.

Every pytest run where slurmkit is installed loads it: it imports nothing of slurmkit until a fixture is used.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from slurmkit.testbed.compose import ComposeTestbed
    from slurmkit.testbed.options import Options
    from slurmkit.testbed.testbed import Testbed

REUSE = "SLURMKIT_TESTBED"
OWNER = "owner.json"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The shape of the session's testbed."""
    group = parser.getgroup("slurmkit", "Slurm testbed")
    group.addoption(
        "--slurm-nodes", type=int, default=4, metavar="N", help="nodes of the fixture slurm_testbed"
    )
    group.addoption(
        "--slurm-gpus", default="a100:8", metavar="TYPE:COUNT", help="GPUs per node of slurm_testbed"
    )
    group.addoption(
        "--slurm-docker", metavar="VERSION", help="slurm_testbed in containers: Slurm 22.05, 24.11 or 26.05"
    )


@pytest.fixture(scope="session")
def make_testbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Options], Testbed]]:
    """A function that brings up a testbed of given `Options`; all are taken down when the session ends.

    A test that has done with one takes it down itself: `slurmkit.testbed.native.down(testbed.root)`.
    """
    from contextlib import ExitStack

    from slurmkit.testbed.native import down, up
    from slurmkit.testbed.process import identify, write_record

    _take_down_abandoned(tmp_path_factory.getbasetemp())
    with ExitStack() as taken_down:

        def make(options: Options) -> Testbed:
            directory = tmp_path_factory.mktemp("testbed")
            if session := identify(os.getpid()):
                write_record(directory / OWNER, session)
            taken_down.callback(down, directory / "t")
            return up(options, directory / "t")

        yield make


@pytest.fixture(scope="session")
def make_docker_testbed(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[..., ComposeTestbed]]:
    """As `make_testbed`, of containers: takes what `slurmkit.testbed.compose.up` does, without the root."""
    from contextlib import ExitStack

    from slurmkit.testbed.compose import down, up
    from slurmkit.testbed.process import identify, write_record

    _take_down_abandoned(tmp_path_factory.getbasetemp())
    with ExitStack() as taken_down:

        def make(options: Options, **choices: Any) -> ComposeTestbed:  # noqa: ANN401 - handed on
            directory = tmp_path_factory.mktemp("testbed")
            if session := identify(os.getpid()):
                write_record(directory / OWNER, session)
            taken_down.callback(down, directory / "t")
            return up(options, directory / "t", **choices)

        yield make


@pytest.fixture(scope="session")
def slurm_testbed(request: pytest.FixtureRequest) -> Testbed | ComposeTestbed:
    """A real Slurm cluster for the session: 4 nodes with 8 GPUs each, unless the command line says otherwise.

    $SLURMKIT_TESTBED names one to use instead (a name or its directory); it is not taken down.
    """
    from slurmkit.testbed import compose, native
    from slurmkit.testbed.options import Options

    if name := os.environ.get(REUSE):
        if containers := compose.load(native.root_of(name)):
            return containers
        testbed = native.find(name)
        return testbed if testbed.elsewhere else native.up(testbed.options, testbed.root)
    option = request.config.getoption
    options = Options(nodes=option("--slurm-nodes"), gpus=option("--slurm-gpus"))
    if version := option("--slurm-docker"):
        made: ComposeTestbed = request.getfixturevalue("make_docker_testbed")(options, slurm=version)
        return made
    native_one: Testbed = request.getfixturevalue("make_testbed")(options)
    return native_one


def _take_down_abandoned(temporary: Path) -> None:
    """Take down testbeds whose sessions were killed; `temporary` is the folder of this session."""
    from itertools import chain

    from slurmkit.testbed.process import read_record

    # A worker of pytest-xdist has a folder of its own in that of the session.
    is_worker = temporary.name.startswith("popen-")
    sessions = temporary.parents[1 if is_worker else 0]
    places = ("pytest-*/testbed*", "pytest-*/popen-*/testbed*")
    for owner in chain.from_iterable(sessions.glob(f"{place}/{OWNER}") for place in places):
        # pytest's testbedcurrent is a link to the last of them.
        if not owner.parent.is_symlink() and read_record(owner) is None:
            _take_down(owner)


def _take_down(owner: Path) -> None:
    """Take down the testbed beside this file, unless another session does, which is then waited for."""
    import fcntl

    from slurmkit.testbed import compose, native

    try:
        held = owner.open()
    except FileNotFoundError:
        return
    with held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if owner.exists():
            root = owner.with_name("t")
            if not compose.down(root):
                native.down(root)
            owner.unlink()
