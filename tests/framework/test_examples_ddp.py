"""The example of DDP as it stands, on two nodes with four ranks each: PyTorch itself, over gloo."""

from __future__ import annotations

import json
import re
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

from tests.cluster import ranks
from tests.framework import examples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slurmkit.testbed.testbed import Testbed
    from tests.cluster.site import Site

pytestmark = [pytest.mark.framework, pytest.mark.cluster]

START = re.compile(r"rank (\d): starts at step (\d+) on cpu")
END = re.compile(r"rank (\d): step (\d+), loss ([\d.]+), parameters ([0-9a-f]{12})")


@pytest.fixture(scope="module")
def site(slurm_testbed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with examples.site_of(slurm_testbed, tmp_path_factory.mktemp("ddp"), "ddp") as site:
        yield site


@pytest.fixture(scope="module")
def trained(site: Site) -> str:
    """The run of the job file as it stands, to step 20."""
    return examples.run(site)


def lines(site: Site, run: str, pattern: re.Pattern[str]) -> list[tuple[str, ...]]:
    found = [pattern.search(text) for text in ranks.printed(site, run)]
    return [match.groups() if match else () for match in found]


def test_all_ranks_end_with_the_same_parameters(site: Site, trained: str) -> None:
    assert lines(site, trained, START) == [(str(rank), "0") for rank in range(8)]
    ends = lines(site, trained, END)
    assert [end[:2] for end in ends] == [(str(rank), "20") for rank in range(8)]
    assert len({end[3] for end in ends}) == 1


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


def test_a_resumed_run_comes_to_the_same_losses(site: Site, trained: str) -> None:
    command = ["python", "train.py", "--resume", "checkpoints/step-00010", "--checkpoints", "others"]
    run = examples.run(site, "--set", f"command={json.dumps(command)}")
    assert lines(site, run, START) == [(str(rank), "10") for rank in range(8)]
    ends = zip(lines(site, run, END), lines(site, trained, END), strict=True)
    for (rank, step, loss, _), (*expected, expected_loss, _) in ends:
        assert [rank, step] == expected
        assert float(loss) == pytest.approx(float(expected_loss), abs=2e-4)
