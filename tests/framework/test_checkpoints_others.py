"""Checkpoints that transformers, accelerate and Orbax wrote, and others as documented, whole and damaged.

Two processes write them all; here they are damaged and judged without any of the frameworks. What Orbax's own
reader gives for those that are cut and yet accepted is compared, value by value.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slurmkit.checkpoint import (
    accelerate,
    choice,
    deepspeed,
    huggingface,
    layouts,
    megatron,
    nemo,
    ocdbt,
    orbax,
    torchtitan,
)
from tests.framework import steps
from tests.unit.checkpoint import otherlike

if TYPE_CHECKING:
    from slurmkit.checkpoint.layout import Layout

pytestmark = [
    pytest.mark.framework,
    steps.needs("transformers", "accelerate", "orbax", why="they write the checkpoints"),
]

OF_TORCH = r"""
import os, signal, sys, time, warnings
from argparse import Namespace
from pathlib import Path
warnings.simplefilter("ignore")
import torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
import transformers
from accelerate import Accelerator
from accelerate.utils import ProjectConfiguration
torch.set_num_threads(1)
transformers.logging.set_verbosity_error()
root = Path(sys.argv[1])

def model():
    torch.manual_seed(0)
    about = transformers.GPT2Config(
        n_layer=1, n_head=1, n_embd=8, n_positions=8, vocab_size=16, bos_token_id=0, eos_token_id=0)
    return transformers.GPT2LMHeadModel(about)

def trainer(name, **more):
    data = [{"input_ids": [n % 16, 1, 2], "labels": [n % 16, 1, 2]} for n in range(64)]
    arguments = transformers.TrainingArguments(
        str(root / name), max_steps=12, save_steps=4, per_device_train_batch_size=2, use_cpu=True,
        report_to=[], disable_tqdm=True, logging_steps=4, **more)
    return transformers.Trainer(model(), arguments, train_dataset=data)

def accelerated():
    where = ProjectConfiguration(str(root / "accelerate"), automatic_checkpoint_naming=True)
    accelerator = Accelerator(cpu=True, project_config=where)
    net = model()
    optimizer = torch.optim.AdamW(net.parameters())
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    net, optimizer, schedule = accelerator.prepare(net, optimizer, schedule)
    for _ in range(3):
        accelerator.backward(net(torch.arange(8)[None], labels=torch.arange(8)[None]).loss)
        optimizer.step()
        schedule.step()
        accelerator.save_state()
    accelerator.wait_for_everyone()

def one_of_two(rank, port):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", LOCAL_WORLD_SIZE="2",
                      MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    trainer("trainer", ddp_backend="gloo").train()
    accelerated()
    half = {"model": {f"w{n}": torch.randn(40, 30) for n in range(3)}, "rank": rank}
    for step in (9, 10):
        dcp.save({f"{rank}": half}, checkpoint_id=root / "titan" / f"step-{step}")
    dcp.save({f"{rank}": half}, checkpoint_id=root / "megatron" / "iter_0000020")
    dist.barrier()

def alone():
    trainer("model-only", save_only_model=True).train()
    again = trainer("second")
    again.train()
    for file in (root / "second").rglob("*"):
        os.utime(file, (time.time() - 60,) * 2)
    again._save_optimizer_and_scheduler = lambda *_arguments: os.kill(os.getpid(), signal.SIGKILL)
    again._save_checkpoint(again.model, None)

def as_documented():
    args = Namespace(tensor_model_parallel_size=2, pipeline_model_parallel_size=2, world_size=8)
    folder = root / "megatron" / "iter_0000020"
    torch.save({"iteration": 20, "args": args}, folder / "common.pt")
    (folder / "metadata.json").write_text('{"sharded_backend": "torch_dist", "common_backend": "torch"}')
    for part in ("00_000", "00_001", "01_000", "01_001"):
        folder = root / "parts" / "iter_0000020" / f"mp_rank_{part}"
        folder.mkdir(parents=True)
        saved = {"iteration": 20, "args": args, "model": model().state_dict()}
        torch.save(saved, folder / "model_optim_rng.pt")
        torch.save({"exp_avg": torch.randn(100)}, folder / "distrib_optim.pt")
    for name in ("megatron", "parts"):
        (root / name / "latest_checkpointed_iteration.txt").write_text("20")
    folder = root / "deepspeed" / "global_step20"
    folder.mkdir(parents=True)
    about = {"dp_world_size": 4, "mp_world_size": 1, "global_steps": 20, "ds_config": {"zero_optimization":
             {"stage": 3}}, "module": model().state_dict(), "param_shapes": [{"w": torch.Size([2, 3])}]}
    for rank in range(4):
        torch.save(about, folder / f"zero_pp_rank_{rank}_mp_rank_00_model_states.pt")
        torch.save({"optimizer_state_dict": {"fp32": torch.randn(50)}},
                   folder / f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")
    (root / "deepspeed" / "latest").write_text("global_step20")
    folder = root / "nemo"
    folder.mkdir()
    torch.save({"state_dict": model().state_dict(), "global_step": 20}, folder / "gpt--step=20-last.ckpt")
    (folder / "gpt--step=20-last-unfinished").touch()

pids = [forked(one_of_two, rank, int(sys.argv[2])) for rank in range(2)]
killed = forked(alone)
codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in (*pids, killed)]
assert codes == [0, 0, -9], codes
as_documented()
best = str(root / "trainer" / "checkpoint-12")
resumed = trainer("resumed")
resumed.args.max_steps = 14
resumed.train(resume_from_checkpoint=best)
assert resumed.state.global_step == 14
"""
OF_ORBAX = r"""
import os, signal, sys
import jax, numpy as np, tensorstore
import orbax.checkpoint as ocp
root = sys.argv[1]
few = {"n": jax.numpy.arange(5), "s": 3.5}
tree = {"w": np.random.default_rng(0).random((300, 200), np.float32), "b": few}

def wrote(name, **options):
    return ocp.CheckpointManager(f"{root}/{name}", options=ocp.CheckpointManagerOptions(**options))

with wrote("steps", max_to_keep=3) as manager:
    for step in (8, 9, 10):
        parts = ocp.args.Composite(state=ocp.args.StandardSave(tree), about=ocp.args.JsonSave({"a": 1}))
        manager.save(step, args=parts)
with wrote("named", step_prefix="ckpt", step_format_fixed_length=8) as manager:
    manager.save(7, args=ocp.args.StandardSave(tree))
kinds = {"zarr2": {"use_ocdbt": False}, "zarr3": {"use_ocdbt": False, "use_zarr3": True},
         "both": {"use_zarr3": True}}
for name, options in kinds.items():
    ocp.Checkpointer(ocp.PyTreeCheckpointHandler(**options)).save(f"{root}/{name}/5", tree)
for level in (None, 1, 19):
    compression = None if level is None else {"id": "zstd", "level": level}
    config = {"max_decoded_node_bytes": 400, "max_inline_value_bytes": 20, "compression": compression}
    where = {"driver": "file", "path": f"{root}/trees/{level}/"}
    store = tensorstore.KvStore.open({"driver": "ocdbt", "base": where, "config": config}).result()
    written = tensorstore.Transaction()
    for key in range(300):
        store.with_transaction(written)[f"layer.{key}/weight"] = bytes([key % 250]) * (key % 60)
    written.commit_async().result()
manager = wrote("killed", enable_async_checkpointing=True)
manager.save(1, args=ocp.args.StandardSave(tree))
manager.wait_until_finished()
manager.save(2, args=ocp.args.StandardSave({"w": np.random.default_rng(0).random(20_000_000)}))
os.kill(os.getpid(), signal.SIGKILL)
"""
ORACLE = r"""
import json, sys
import jax, numpy as np
import orbax.checkpoint as ocp
def loaded(path):
    with ocp.StandardCheckpointer() as one:
        return jax.tree.leaves(one.restore(path))
good, *copies = json.load(sys.stdin)
good = loaded(good)
same = [all(map(np.array_equal, good, loaded(copy))) for copy in copies]
print(json.dumps(same))
"""
SPARED = ("config.json", "generation_config.json", "commit_success.txt")
"""Files that no resume needs."""
CASES: dict[str, tuple[Layout, str, tuple[str, ...]]] = {
    "trainer": (huggingface.LAYOUT, "checkpoint-12", ("training_args.bin", "rng_state_1.pth")),
    "model-only": (huggingface.LAYOUT, "checkpoint-12", ("training_args.bin",)),
    "accelerate/checkpoints": (
        accelerate.LAYOUT, "checkpoint_2", ("random_states_1.pkl", "optimizer.bin", "scheduler.bin"),
    ),
    "titan": (torchtitan.LAYOUT, "step-10", ()),
    "megatron": (megatron.LAYOUT, "iter_0000020", ()),
    "parts": (megatron.LAYOUT, "iter_0000020", ()),
    "deepspeed": (deepspeed.LAYOUT, "global_step20", ()),
}  # fmt: skip


def started(program: str, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments], env=environment, stderr=subprocess.PIPE, text=True
    )


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("written")
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    of_torch = started(steps.FORKED + OF_TORCH, str(root), str(port))
    processes = [of_torch, started(OF_ORBAX, str(root / "orbax"))]
    said = [process.communicate(timeout=150)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, -9], "\n".join(said)
    return root


@pytest.mark.parametrize("name", CASES)
def test_what_a_framework_wrote_is_accepted_and_refused_once_damaged(written: Path, name: str) -> None:
    layout, newest, optional = CASES[name]
    found = [one for one in (written / name).iterdir() if layout.is_named(one.name) and one.is_dir()]
    for one in found:
        for deep in (False, True):
            assert layout.verify(one, deep).state == "complete", layout.verify(one, deep)
    chosen = choice.choose(written / name).chosen
    assert chosen is not None
    assert (chosen.path.name, chosen.layout, chosen.verdict.state) == (newest, layout.name, "complete")
    refused = otherlike.check_refusals(written / name / newest, layout, spared=SPARED, optional=optional)
    print(f"{layout.name} ({name}): {len(found)} accepted, {refused} damaged ones refused")


def test_a_second_save_of_the_trainers_that_was_killed_is_refused(written: Path) -> None:
    killed = written / "second" / "checkpoint-12"
    verdict = huggingface.LAYOUT.verify(killed, False)
    assert (verdict.state, "is newer than trainer_state.json" in verdict.reason) == ("damaged", True)
    chosen = choice.choose(written / "second").chosen
    assert chosen is not None
    assert chosen.step == 8


def test_a_middle_of_zeros_is_found_by_deep(written: Path) -> None:
    for name, file in (("trainer", "optimizer.pt"), ("parts", "mp_rank_01_001/distrib_optim.pt")):
        layout, newest, _optional = CASES[name]
        path = written / name / newest
        data = bytearray((path / file).read_bytes())
        entry = data.index(b"/data/0") + 100
        data[entry : entry + 60] = bytes(60)
        for _changed in otherlike.replaced(path / file, bytes(data)):
            assert layout.verify(path, False).state == "complete"
            assert layout.verify(path, True).state == "damaged"


def test_a_sentinel_of_nemo_is_believed(written: Path) -> None:
    path = written / "nemo" / "gpt--step=20-last.ckpt"
    assert choice.choose(written / "nemo").chosen is None
    (written / "nemo" / "gpt--step=20-last-unfinished").unlink()
    assert nemo.LAYOUT.verify(path, True).state == "complete"
    chosen = choice.choose(written / "nemo").chosen
    assert chosen is not None
    assert chosen.step == 20


@pytest.mark.parametrize(
    ("name", "step"), [("steps", 10), ("named", 7), ("zarr2", 5), ("zarr3", 5), ("both", 5), ("killed", 1)]
)
def test_what_orbax_wrote_is_accepted_and_what_it_did_not_finish_is_not(
    written: Path, name: str, step: int
) -> None:
    found = choice.choose(written / "orbax" / name, deep=True)
    assert found.chosen is not None, found
    assert (found.chosen.step, found.chosen.layout) == (step, "orbax")
    for one in (written / "orbax" / name).iterdir():
        if orbax.LAYOUT.is_named(one.name):
            assert orbax.LAYOUT.verify(one, False).state == "complete"


@pytest.mark.parametrize("name", ["zarr2", "zarr3"])
def test_arrays_as_zarr_are_refused_once_damaged(written: Path, name: str) -> None:
    path = written / "orbax" / name / "5"
    refused = otherlike.check_refusals(path, orbax.LAYOUT, spared=SPARED, optional=("_sharding", "process_0"))
    print(f"orbax ({name}): {refused} damaged ones refused")


def test_orbax_itself_reads_the_right_values_out_of_whatever_is_accepted(
    written: Path, tmp_path: Path
) -> None:
    """Files that nothing leads to any more lie in each: a cut in one of them does no harm."""
    good, chosen, judged = written / "orbax" / "steps" / "10" / "state", random.Random(5), Counter[str]()
    accepted = []
    files = otherlike.files_in(good, SPARED)
    about = orbax.METADATA
    for number in range(240):
        # the item alone is what the reader opens: it becomes a checkpoint of its own
        copy = Path(shutil.copytree(good, tmp_path / str(number) / "10"))
        shutil.copy2(good.parent / about, copy / about)
        told = json.loads((copy / about).read_text())
        (copy / about).write_text(json.dumps({**told, "item_handlers": told["item_handlers"]["state"]}))
        cut = copy / chosen.choice(files).relative_to(good)
        os.truncate(cut, chosen.randrange(cut.stat().st_size))
        state = orbax.LAYOUT.verify(copy, False).state
        judged[state] += 1
        if state == "complete":
            accepted.append(str(copy))
    process = subprocess.run(
        [sys.executable, "-c", ORACLE],
        input=json.dumps([str(good), *accepted]),
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    same = json.loads(process.stdout)
    print(f"orbax (OCDBT): {dict(judged)}; of the accepted, {sum(same)} of {len(same)} load as they were")
    assert all(same)
    assert judged["damaged"] + judged["incomplete"] > 80


@pytest.mark.parametrize("level", ["None", "1", "19"])
def test_a_tree_of_many_levels_is_followed_to_every_value(written: Path, level: str) -> None:
    path = written / "orbax" / "trees" / level
    verdict = ocdbt.verify(path, True)
    assert verdict.state == "complete", verdict
    data = [path / name for name in verdict.rests_on if name.startswith("d/")]
    refused = 0
    for file in data:
        for _changed in otherlike.replaced(file, file.read_bytes()[:-1]):
            refused += ocdbt.verify(path, False).state == "damaged"
    assert refused == len(data) > 0


def test_every_layout_here_is_known_to_auto() -> None:
    known = {layout.name for layout in layouts.LAYOUTS}
    assert {layout.name for layout, _name, _optional in CASES.values()} | {"orbax", "nemo"} <= known
