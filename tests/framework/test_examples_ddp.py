"""The example of DDP as it stands, on two nodes with four ranks each: PyTorch itself, over gloo."""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

from tests.framework import examples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slurmkit.testbed.testbed import Testbed
    from tests.cluster.site import Site

pytestmark = [pytest.mark.framework, pytest.mark.cluster]

START = re.compile(r"rank (\d): starts at step (\d+) on cpu")
END = re.compile(r"rank (\d): ends at step (\d+), parameters ([0-9a-f]{12})")


@pytest.fixture(scope="module")
def site(slurm_testbed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with examples.site_of(slurm_testbed, tmp_path_factory.mktemp("ddp"), "ddp") as site:
        yield site


@pytest.fixture(scope="module")
def trained(site: Site) -> str:
    """The run of the job file as it stands, to step 20."""
    return examples.run(site)


def test_all_ranks_end_with_the_same_parameters(site: Site, trained: str) -> None:
    assert examples.lines(site, trained, START) == [(str(rank), "0") for rank in range(8)]
    ends = examples.lines(site, trained, END)
    assert [end[:2] for end in ends] == [(str(rank), "20") for rank in range(8)]
    assert len({end[2] for end in ends}) == 1


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled:UserWarning")
def test_the_checkpoints_are_complete_and_load(site: Site, trained: str) -> None:
    checkpoint = import_module("torch.distributed.checkpoint")
    folders = sorted((site.work / "checkpoints").iterdir())
    assert [folder.name for folder in folders] == ["step-00010", "step-00020"]
    for folder in folders:
        metadata = checkpoint.FileSystemReader(folder).read_metadata()
        written = {place.relative_path for place in metadata.storage_data.values()}
        assert written == {path.name for path in folder.glob("*.distcp")}
        state: dict[str, object] = {"step": 0}
        checkpoint.load(state, checkpoint_id=folder, no_dist=True)
        assert state["step"] == int(folder.name[-5:])


def test_a_killed_rank_leaves_no_trace_in_the_parameters(site: Site, trained: str) -> None:
    view = examples.slow(site, "train.py", "killed", save_every=4)
    step = examples.assert_goes_on_after_a_kill(view)
    assert examples.lines(site, view.run_id, START) == [(str(rank), str(step)) for rank in range(8)]
    assert examples.lines(site, view.run_id, END) == examples.lines(site, trained, END)


def test_when_asked_all_ranks_save_at_the_same_step_and_the_run_goes_on(site: Site, trained: str) -> None:
    view = examples.slow(site, "train.py", "asked", save_every=1000)
    step = examples.assert_saves_when_asked(view)
    assert 2 <= step < 20
    last = examples.lines(site, view.run_id, START)[-8:]
    assert last == [(str(rank), str(step)) for rank in range(8)]
    assert examples.lines(site, view.run_id, END)[-8:] == examples.lines(site, trained, END)
