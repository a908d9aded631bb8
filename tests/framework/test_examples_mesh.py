"""The example of a mesh as it stands, on two nodes with four ranks each: PyTorch's own DeviceMesh."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.cluster import ranks
from tests.framework import examples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slurmkit.testbed.testbed import Testbed
    from tests.cluster.site import Site

pytestmark = [pytest.mark.framework, pytest.mark.cluster]

START = re.compile(r"rank (\d): starts at step (\d+)")
END = re.compile(r"rank (\d): ends at step (\d+), parameters ([0-9a-f]{12})")


@pytest.fixture(scope="module")
def site(slurm_testbed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with examples.site_of(slurm_testbed, tmp_path_factory.mktemp("mesh"), "mesh") as site:
        yield site


@pytest.fixture(scope="module")
def trained(site: Site) -> str:
    """The run of the job file as it stands, to step 20."""
    return examples.run(site)


def test_the_groups_of_pytorch_are_those_of_slurmkit(site: Site, trained: str) -> None:
    for rank, text in enumerate(ranks.printed(site, trained)):
        node, place = divmod(rank, 4)
        *said, end = text.splitlines()
        assert said == [
            f"rank {rank}: data {node} of {[place, 4 + place]}",
            f"rank {rank}: tensor {place} of {[4 * node + other for other in range(4)]}",
            f"rank {rank}: starts at step 0",
            f"rank {rank}: (8, 16) of (32, 16), gradients agree",
        ]
        assert END.fullmatch(end)
    assert len({parameters for _, _, parameters in examples.lines(site, trained, END)}) == 1


def test_a_killed_rank_leaves_no_trace_in_the_parameters(site: Site, trained: str) -> None:
    view = examples.slow(site, "mesh.py", "killed", save_every=4)
    step = examples.assert_goes_on_after_a_kill(view)
    assert examples.lines(site, view.run_id, START) == [(str(rank), str(step)) for rank in range(8)]
    assert examples.lines(site, view.run_id, END) == examples.lines(site, trained, END)


def test_when_asked_all_ranks_save_at_the_same_step_and_the_run_goes_on(site: Site, trained: str) -> None:
    view = examples.slow(site, "mesh.py", "asked", save_every=1000)
    step = examples.assert_saves_when_asked(view)
    assert 2 <= step < 20
    last = examples.lines(site, view.run_id, START)[-8:]
    assert last == [(str(rank), str(step)) for rank in range(8)]
    assert examples.lines(site, view.run_id, END)[-8:] == examples.lines(site, trained, END)
