"""Lightning near its time limit, requeueing by itself or not: one requeue, and on from what it saved."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.site import Site, until
from tests.cluster.storm_view import View
from tests.framework import steps
from tests.framework.examples import BOUND

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from slurmkit.testbed.testbed import Testbed

pytestmark = [
    pytest.mark.framework,
    pytest.mark.cluster,
    steps.needs("lightning", why="the test of Lightning runs in the environment for frameworks"),
]

PROGRAM = """\
import os, sys, time
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.plugins.environments import SLURMEnvironment
from slurmkit.checkpoint import requested

itself, resume = sys.argv[1] == "itself", sys.argv[3] if len(sys.argv) > 3 else None
last = int(os.environ["SLURMKIT_RESUME_STEP"]) + 5 if resume else 1_000_000


class Model(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)

    def training_step(self, batch, _):
        time.sleep(0.05)
        return self.layer(batch[0]).sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


class Steps(Callback):
    def on_train_start(self, trainer, _):
        print("starts at", trainer.global_step, flush=True)

    def on_train_batch_end(self, trainer, *_):
        if trainer.global_step == 3:
            open("is-at-work", "x").close()
        if not itself and requested():
            trainer.save_checkpoint(f"checkpoints/step={trainer.global_step}.ckpt")


data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(1_000_000, 2)), batch_size=1)
Trainer(
    accelerator="cpu",
    devices=1,
    default_root_dir="checkpoints",
    max_steps=last,
    plugins=[SLURMEnvironment(auto_requeue=itself)],
    callbacks=[Steps()],
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
).fit(Model(), data, ckpt_path=resume)
"""


@pytest.fixture
def site(slurm_testbed: Testbed, tmp_path: Path) -> Iterator[Site]:
    with closing(Site(slurm_testbed, tmp_path)) as site:
        (site.work / "train.py").write_text(PROGRAM)
        (site.work / "checkpoints").mkdir()
        yield site


def warned(site: Site, who: str, *retry: str) -> View:
    """A training that was warned of its time limit when it was at work."""
    command = json.dumps([sys.executable, "-W", "ignore", "train.py", who])
    lines = [
        'name = "lightning"',
        f"command = {command}",
        "[resources]",
        "nodes = 1\nntasks_per_node = 1\nmem = '4G'\ntime = '10m'",
        "[checkpoint]",
        'path = "checkpoints"',
        'layout = "lightning"',
        'resume = ["--resume", "{checkpoint}"]',
        *retry,
    ]
    (site.work / "job.toml").write_text("\n".join(lines) + "\n")
    view = View(site, site.submit("job.toml"), site.work / "checkpoints")
    until((site.work / "is-at-work").exists, "the training is at work", BOUND)
    site.testbed.command(["scancel", "--batch", "--signal=USR1", view.job])
    return view


def assert_goes_on_after_one_requeue(view: View) -> list[dict[str, Any]]:
    """The decisions of a run that was done after its second start."""
    until(lambda: view.has_ended, "the run ends", BOUND)
    (ended,) = view.events("run-ended")
    assert ended["outcome"] == "completed", ended
    assert [one["attempt"] for one in view.events("attempt-started")] == [f"{view.job}-0", f"{view.job}-1"]
    told = view.testbed.command(["scontrol", "show", "job", view.job]).stdout
    assert " Restarts=1 " in told
    first, second = (
        (view.root / "logs" / f"{view.job}-{restart}" / "rank-00000.out").read_text() for restart in (0, 1)
    )
    assert "starts at 0\n" in first
    saved = view.events("checkpoint-chosen")[-1]["at_step"]
    assert saved >= 3
    assert f"starts at {saved}\n" in second
    assert [one["kind"] for one in view.events("diagnosed")] == ["time-limit"]
    return view.events("decided")


def test_of_lightning_that_requeues_by_itself_and_the_agent_one_acts(site: Site) -> None:
    view = warned(site, "itself")
    (decided,) = assert_goes_on_after_one_requeue(view)
    # The agent may see the checkpoint before Lightning has asked Slurm: Slurm takes one requeue of the two.
    assert (decided["action"] == "leave") != bool(view.events("requeued")), decided


def test_with_no_requeues_of_slurmkits_lightnings_own_is_waited_for(site: Site) -> None:
    view = warned(site, "itself", "[retry]", "requeues = 0")
    (decided,) = assert_goes_on_after_one_requeue(view)
    assert decided["action"] == "leave", decided


def test_lightning_that_does_not_is_requeued_by_the_agent(site: Site) -> None:
    view = warned(site, "not")
    (decided,) = assert_goes_on_after_one_requeue(view)
    assert decided["action"] == "requeue"
    assert len(view.events("requeued")) == 1
