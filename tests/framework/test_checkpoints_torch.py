"""Checkpoints of torch, safetensors and Lightning: a torn one is never chosen, a good one never refused.

One process writes them all, and is killed at every moment of a save. Here they are damaged and judged, and
torch is not asked.
"""

from __future__ import annotations

import os
import pickle
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slurmkit.checkpoint import choice, layouts, lightning, safetensors, torch_dcp, torch_save
from tests.framework import steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from slurmkit.checkpoint.layout import Layout

pytestmark = pytest.mark.framework

WRITER = r'''
import argparse, io, json, logging, os, pickle, signal, sys, time, warnings
from pathlib import Path
warnings.simplefilter("ignore")
import torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
torch.set_num_threads(1)
root = Path(sys.argv[1])

def state(seed=0, **more):
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.LayerNorm(128), torch.nn.Linear(128, 32))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(4, 64)).sum().backward()
    optimizer.step()
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 40, **more}

def waited(*pids):
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    assert codes == [0] * len(pids), codes

def rank_of(size, name, function):
    def run(rank):
        dist.init_process_group("gloo", init_method=f"file://{root}/{name}.store", rank=rank, world_size=size)
        function(rank)
        dist.barrier()
        dist.destroy_process_group()
    return run

def ranks(size, name, function):
    waited(*(forked(rank_of(size, name, function), rank) for rank in range(size)))

# --- torch.save
files = root / "torch-save"
files.mkdir()
torch.save(state(), files / "plain.pt")
torch.save(state(big=torch.randn(300_000)), files / "big.pth")
torch.save({}, files / "empty.pt")
torch.save(torch.randn(5), files / "tensor.bin")
torch.save({"args": argparse.Namespace(width=3), "iteration": 7, "x": torch.ones(3)}, files / "object.pt")
torch.save(state(), files / "protocol5.pt", pickle_protocol=5)
torch.save({str(n): torch.full((n % 7 + 1,), n) for n in range(3000)}, files / "many.pt")
torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), files / "script.pt")
buffer = io.BytesIO(); torch.save(state(), buffer); (files / "buffer.ckpt").write_bytes(buffer.getvalue())
torch.serialization.set_crc32_options(False); torch.save(state(), files / "nosums.pt")
torch.serialization.set_crc32_options(True)
torch.save(state(), root / "legacy.pt", _use_new_zipfile_serialization=False)

# --- torch.distributed.checkpoint
dirs = root / "torch-dcp"
dirs.mkdir()
writer = lambda name, **more: dcp.FileSystemWriter(dirs / name, **more)
dcp.save(state(), checkpoint_id=dirs / "default")
dcp.save(state(), storage_writer=writer("threads", thread_count=3))
dcp.save(state(), storage_writer=writer("items", single_file_per_rank=False))
dcp.save(state(), storage_writer=writer("unsynced", sync_files=False))
mixed = {"w": torch.randn(3), "text": "é", "none": None, "list": [1, {"a": torch.zeros(())}]}
dcp.save(mixed, checkpoint_id=dirs / "mixed")
dcp.save({"empty": torch.zeros(0), "scalar": torch.tensor(3.0)}, checkpoint_id=dirs / "tiny")
for seed in (1, 2):
    dcp.save(state(seed), checkpoint_id=dirs / "twice")
dcp.save(state(), checkpoint_id=dirs / "alone", use_collectives=False)

def distributed(rank):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    mesh = init_device_mesh("cpu", (3,))
    torch.manual_seed(0)
    sharded = {f"w{n}": distribute_tensor(torch.randn(30 + n, 40), mesh, [Shard(0)]) for n in range(4)}
    sharded["same"] = distribute_tensor(torch.randn(50), mesh, [Replicate()])
    sharded["step"] = 3
    dcp.save(sharded, checkpoint_id=dirs / "ranks")
    dcp.save(sharded, storage_writer=writer("rank-items", single_file_per_rank=False, thread_count=2))
    dcp.save(sharded, checkpoint_id=dirs / "rank-alone", use_collectives=False)
    dcp.async_save(sharded, checkpoint_id=dirs / "async").result()

ranks(3, "three", distributed)

# --- a save that is killed before each of its steps
class Killed:
    """Ends the process before the so-manieth of its calls that change the disk for good."""
    def __init__(self, at):
        self.left = at
    def __call__(self, function):
        def called(*arguments, **options):
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **options)
        return called

def save_into(folder, seed, per_item):
    dcp.save(state(seed), storage_writer=dcp.FileSystemWriter(folder, single_file_per_rank=not per_item))

def killed_save(folder, at, seed, per_item):
    kill = Killed(at)
    os.fsync, Path.unlink, Path.rename = kill(os.fsync), kill(Path.unlink), kill(Path.rename)
    save_into(folder, seed, per_item)

def aged(folder, seconds):
    for path in folder.iterdir():
        at = path.stat().st_mtime - seconds
        os.utime(path, (at, at))

for again in (False, True):
    for per_item in (False, True):
        for at in range(1, 100):
            name = f"{'second' if again else 'first'}-{'items' if per_item else 'one'}-{at:02}"
            folder = root / "killed" / name
            folder.mkdir(parents=True)
            if again:
                save_into(folder, 1, per_item)
                aged(folder, 60)
            code = os.waitstatus_to_exitcode(os.waitpid(forked(killed_save, folder, at, 2, per_item), 0)[1])
            if code == 0:
                folder.rename(dirs / f"unharmed-{name}")
                break
            assert code == -signal.SIGKILL, code

# --- one rank of two is killed in a second save
def halves(seed, folder, die=None):
    def run(rank):
        class Writer(dcp.FileSystemWriter):
            def write_data(self, plan, planner):
                if die == rank:
                    while not (root / "written").exists():
                        time.sleep(0.01)
                    os.kill(os.getpid(), signal.SIGKILL)
                future = super().write_data(plan, planner)
                future.wait()
                if die is not None:
                    (root / "written").touch()
                return future
        torch.manual_seed(seed)
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import Shard, distribute_tensor
        mesh = init_device_mesh("cpu", (2,))
        tensors = {"w": distribute_tensor(torch.randn(64, 64), mesh, [Shard(0)])}
        dcp.save(tensors, storage_writer=Writer(folder))
    return run

folder = root / "killed" / "second-rank-1"
ranks(2, "good-half", halves(1, folder))
aged(folder, 60)
pids = [forked(rank_of(2, "bad-half", halves(2, folder, die=1)), rank) for rank in range(2)]
assert os.waitstatus_to_exitcode(os.waitpid(pids[1], 0)[1]) == -signal.SIGKILL
os.kill(pids[0], signal.SIGKILL)
os.waitpid(pids[0], 0)
torch.manual_seed(1); first = torch.randn(64, 64)
torch.manual_seed(2); second = torch.randn(64, 64)
loaded = {"w": torch.zeros(64, 64)}
dcp.load(loaded, checkpoint_id=folder)
assert torch.equal(loaded["w"][:32], second[:32]), "it is not torn"
assert torch.equal(loaded["w"][32:], first[32:]), "it is not torn"

# --- safetensors
from safetensors.torch import save_file
tensors = root / "safetensors"
tensors.mkdir()
kinds = "float32 float64 float16 bfloat16 int8 uint8 int16 int32 int64 bool float8_e4m3fn float8_e5m2"
kinds = f"{kinds} uint16 uint32 uint64 complex64".split()
save_file({"w": torch.randn(200, 30), "b": torch.zeros(30)}, tensors / "model.safetensors")
ones = {kind: torch.ones(3, 5).to(getattr(torch, kind)) for kind in kinds}
save_file(ones, tensors / "kinds.safetensors", metadata={"format": "pt"})
save_file({"none": torch.zeros(0, 4), "one": torch.tensor(1.0)}, tensors / "edges.safetensors")
save_file({}, tensors / "empty.safetensors")
pieces = tensors / "pieces"
pieces.mkdir()
for n in (1, 2, 3):
    save_file({f"w{n}": torch.randn(50, 20)}, pieces / f"model-0000{n}-of-00003.safetensors")
weight_map = {f"w{n}": f"model-0000{n}-of-00003.safetensors" for n in (1, 2, 3)}
(pieces / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
by_dcp = dcp.HuggingFaceStorageWriter(str(tensors / "by-dcp"))
dcp.save({"w": torch.randn(10, 10), "b": torch.zeros(10)}, storage_writer=by_dcp)

# --- Lightning
logging.disable(logging.WARNING)
import lightning as L
from lightning.pytorch.callbacks import ModelCheckpoint
class Model(L.LightningModule):
    def __init__(self):
        super().__init__(); self.layer = torch.nn.Linear(8, 2)
    def training_step(self, batch, number):
        loss = self.layer(batch).sum(); self.log("loss", loss); return loss
    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())
data = torch.utils.data.DataLoader(torch.randn(20, 8), batch_size=4)
ours = root / "lightning"
saving = ModelCheckpoint(ours, every_n_train_steps=3, save_top_k=-1, save_last=True)
epochs = ModelCheckpoint(ours, filename="{epoch}-{loss:.2f}", save_top_k=-1)
trainer = L.Trainer(max_epochs=3, callbacks=[saving, epochs], accelerator="cpu", logger=False,
                    enable_progress_bar=False, enable_model_summary=False, default_root_dir=root)
trainer.fit(Model(), data)
trainer.save_checkpoint(ours / "hpc_ckpt_2.ckpt")
trainer.save_checkpoint(root / "weights.ckpt", weights_only=True)
# What FSDPStrategy.save_checkpoint does of a sharded state; it takes GPUs.
saved = torch.load(ours / "last.ckpt", weights_only=False)
sharded = ours / "epoch=9-step=900.ckpt"
parts = {"model": saved.pop("state_dict"), "optimizer_0": saved.pop("optimizer_states")[0]}
dcp.save(parts, checkpoint_id=sharded)
torch.save({**saved, "global_step": 900}, sharded / "meta.pt")

# --- .metadata of 300,000 pieces
from torch.distributed.checkpoint.metadata import *
from torch.distributed.checkpoint.filesystem import _StorageInfo
wholes, places = {}, {}
for layer in range(3000):
    name = f"model.layers.{layer}.self_attention.linear_qkv.weight"
    chunks = [ChunkStorageMetadata(torch.Size((128 * n, 0)), torch.Size((128, 4096))) for n in range(100)]
    wholes[name] = TensorStorageMetadata(TensorProperties(torch.float32), torch.Size((12800, 4096)), chunks)
    for n, chunk in enumerate(chunks):
        places[MetadataIndex(name, chunk.offsets, n)] = _StorageInfo(f"__{n}_0.distcp", layer << 21, 1 << 21)
(root / "huge").mkdir()
with open(root / "huge" / ".metadata", "wb") as file:
    pickle.dump(Metadata(wholes, {}, places, StorageMeta("/somewhere", "1")), file, protocol=4)
'''

LAYOUTS: dict[str, Layout] = {
    "torch-save": torch_save.LAYOUT,
    "torch-dcp": torch_dcp.LAYOUT,
    "safetensors": safetensors.LAYOUT,
    "lightning": lightning.LAYOUT,
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything that the real libraries wrote, and what kills left of it."""
    root = tmp_path_factory.mktemp("written")
    program = root / "writer.py"
    program.write_text(steps.FORKED + WRITER)
    done = subprocess.run(
        [sys.executable, str(program), str(root)], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return root


@pytest.fixture(scope="module")
def tally() -> Iterator[Counter[str]]:
    """How many checkpoints were judged: good and accepted, torn and refused, and those that were mistaken."""
    counts: Counter[str] = Counter()
    yield counts
    print("\n" + "\n".join(f"{kind:40} {count:6,}" for kind, count in sorted(counts.items())))


def good(written: Path) -> list[tuple[str, Path]]:
    found = [(name, path) for name in LAYOUTS for path in sorted((written / name).iterdir())]
    assert len(found) > 30
    return found


def refuse(tally: Counter[str], kind: str, name: str, path: Path, *, deep: bool = False) -> None:
    verdict = LAYOUTS[name].verify(path, deep)
    assert verdict.state != "complete", f"{kind} of {path}: {verdict.reason}"
    tally[f"torn and refused: {kind}"] += 1


def files_of(path: Path) -> list[Path]:
    return sorted(one for one in path.iterdir() if one.is_file()) if path.is_dir() else [path]


@pytest.fixture
def copies(written: Path, tmp_path: Path) -> list[tuple[str, Path]]:
    """Copies of all good ones that may be damaged, minutes old."""
    found = []
    for name, path in good(written):
        to = tmp_path / name / path.name
        to.parent.mkdir(exist_ok=True)
        if path.is_dir():
            shutil.copytree(path, to)
        else:
            shutil.copy2(path, to)
        found.append((name, to))
    return found


class Damaged:
    """A file with other content for a while, its times as they were."""

    def __init__(self, path: Path) -> None:
        self.path, self.stat, self.data = path, path.stat(), path.read_bytes()

    def __enter__(self) -> Callable[[bytes], None]:
        return self.put

    def put(self, data: bytes) -> None:
        self.path.write_bytes(data)
        os.utime(self.path, ns=(self.stat.st_atime_ns, self.stat.st_mtime_ns))

    def __exit__(self, *_error: object) -> None:
        self.put(self.data)


@pytest.mark.parametrize("deep", [False, True])
def test_what_was_written_in_full_is_complete(written: Path, tally: Counter[str], deep: bool) -> None:
    for name, path in good(written):
        layout = LAYOUTS[name]
        assert layout.is_one(path), path
        assert layout.is_named(path.name), path
        verdict = layout.verify(path, deep)
        assert verdict.state == "complete", f"{path}: {verdict.reason}"
        tally[f"good and accepted: {name}{', deep' if deep else ''}"] += 1


def test_it_is_recognised_by_itself(written: Path) -> None:
    for name, path in good(written):
        recognised = choice.verify(path)
        assert recognised.state == "complete", f"{path}: {recognised.reason}"
        found = next(
            layout.name for layout in layouts.LAYOUTS if layout.is_named(path.name) and layout.is_one(path)
        )
        assert found == name, path


def test_steps_are_read_out_of_the_content(written: Path) -> None:
    paths = [
        *("torch-save/plain.pt", "torch-save/object.pt", "torch-save/tensor.bin"),
        *("lightning/last.ckpt", "lightning/hpc_ckpt_2.ckpt"),
        *("lightning/epoch=0-step=3.ckpt", "lightning/epoch=9-step=900.ckpt"),
    ]
    read = [LAYOUTS[path.split("/")[0]].verify(written / path, False).step for path in paths]
    assert read == [40, 7, None, 15, 15, 3, 900]
    assert torch_dcp.verify(written / "torch-dcp" / "rank-alone", False).world_size == 3


def test_trap_112_a_file_cut_at_200_places_is_refused(
    copies: list[tuple[str, Path]], tally: Counter[str]
) -> None:
    chosen = random.Random(0)
    for name, path in copies:
        files = files_of(path)
        for file in files if len(files) < 5 else [files[0], files[1], files[-1]]:
            whole = file.read_bytes()
            with Damaged(file) as put:
                for size in sorted(
                    {0, 1, len(whole) - 1, *(chosen.randrange(len(whole)) for _ in range(197))}
                ):
                    put(whole[:size])
                    refuse(tally, "cut short", name, path)


def test_a_missing_or_empty_file_is_refused(copies: list[tuple[str, Path]], tally: Counter[str]) -> None:
    for name, path in copies:
        for file in files_of(path):
            with Damaged(file) as put:
                put(b"")
                refuse(tally, "an empty file", name, path)
                if path.is_dir() and len(files_of(path)) > 1:
                    file.unlink()
                    refuse(tally, "a missing file", name, path)


def test_space_set_aside_and_not_written_is_refused(
    copies: list[tuple[str, Path]], tally: Counter[str]
) -> None:
    """As `fallocate` leaves it: the size is right, and zeros from somewhere on."""
    chosen = random.Random(1)
    for name, path in copies:
        if name == "safetensors":
            continue  # of which the end cannot be told from zeros
        for file in files_of(path):
            whole = file.read_bytes()
            with Damaged(file) as put:
                for size in (0, *(chosen.randrange(len(whole) - 64) for _ in range(10) if len(whole) > 64)):
                    put(whole[:size] + bytes(len(whole) - size))
                    refuse(tally, "zeros to the end", name, path)


def test_a_file_with_more_than_it_should_hold_is_refused(
    copies: list[tuple[str, Path]], tally: Counter[str]
) -> None:
    for name, path in copies:
        for file in files_of(path):
            if file.suffix in {".distcp", ".safetensors"} and path.name != "by-dcp":
                with Damaged(file) as put:
                    put(file.read_bytes() + bytes(4096))
                    refuse(tally, "zeros after the end", name, path)


def test_a_hole_is_found_by_a_deep_look(copies: list[tuple[str, Path]], tally: Counter[str]) -> None:
    chosen = random.Random(2)
    for name, path in copies:
        if name == "safetensors" or path.name == "nosums.pt":
            continue
        for file in files_of(path):
            whole = file.read_bytes()
            if file.name.endswith("metadata") or len(whole) < 8192:
                continue
            with Damaged(file) as put:
                for _ in range(10):
                    at = chosen.randrange(len(whole) - 4096)
                    if any(whole[at : at + 4096]):
                        put(whole[:at] + bytes(4096) + whole[at + 4096 :])
                        refuse(tally, "a hole of 4 KB, deep", name, path, deep=True)


def test_a_save_killed_before_any_of_its_steps_is_refused(written: Path, tally: Counter[str]) -> None:
    killed = sorted((written / "killed").iterdir())
    assert len(killed) > 30
    for path in killed:
        second = path.name.startswith("second")
        refuse(tally, f"a {'second' if second else 'first'} save killed midway", "torch-dcp", path)
        refuse(
            tally,
            f"a {'second' if second else 'first'} save killed midway, deep",
            "torch-dcp",
            path,
            deep=True,
        )


def test_a_rank_killed_in_a_second_save_leaves_names_and_sizes_right(written: Path) -> None:
    verdict = torch_dcp.verify(written / "killed" / "second-rank-1", True)
    assert verdict.state == "damaged"
    assert "a second save into it was not finished: __0_0.distcp is newer than .metadata" in verdict.reason


def test_weights_alone_and_the_old_format_are_not_chosen(written: Path, tally: Counter[str]) -> None:
    assert lightning.verify(written / "weights.ckpt", True).state == "incomplete"
    assert torch_save.verify(written / "legacy.pt", True).state == "unverified"
    tally["not to be told, and not chosen"] += 2


def test_foreign_files_and_hostile_ones_are_refused(tmp_path: Path, tally: Counter[str]) -> None:
    class Shell:
        def __reduce__(self) -> tuple[object, ...]:
            return (os.system, (f"touch {tmp_path}/marker",))

    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "text").write_text("hello\n" * 100)
    (tmp_path / "hostile").mkdir()
    (tmp_path / "hostile" / ".metadata").write_bytes(
        pickle.dumps({"storage_data": Shell(), "state_dict_metadata": 1})
    )
    (tmp_path / "hostile.pt").write_bytes(pickle.dumps(Shell()))
    for path in sorted(tmp_path.iterdir()):
        for name in LAYOUTS:
            refuse(tally, "foreign, hostile or a loop", name, path, deep=True)
    assert not (tmp_path / "marker").exists()


AS_NOBODY = """
import os, sys
from pathlib import Path
from slurmkit.checkpoint import layouts
if os.geteuid() == 0:
    os.seteuid(65534)
for layout in layouts.LAYOUTS:
    if layout.name == sys.argv[1]:
        print(*layout.verify(Path(sys.argv[2]), False)[:2], sep=": ")
"""


def test_what_must_not_be_read_is_refused(copies: list[tuple[str, Path]], tally: Counter[str]) -> None:
    for name, path in [next(one for one in copies if one[0] == name) for name in LAYOUTS]:
        path.parent.chmod(0o755)
        path.chmod(0)
        done = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, name, path.name],
            cwd=path.parent,
            capture_output=True,
            text=True,
            check=True,
        )
        path.chmod(0o755)
        assert done.stdout == f"incomplete: {path.name} cannot be read: Permission denied\n"
        tally["torn and refused: no permission"] += 1


def test_the_newest_whole_one_is_chosen_among_torn_ones(
    written: Path, tmp_path: Path, tally: Counter[str]
) -> None:
    torn = sorted((written / "killed").iterdir())
    for number, path in enumerate(torn):
        shutil.copytree(path, tmp_path / f"step-{1000 + number}")
    shutil.copytree(written / "torch-dcp" / "ranks", tmp_path / "step-900")
    shutil.copytree(written / "torch-dcp" / "default", tmp_path / "step-99")
    found = choice.choose(tmp_path)
    assert found.chosen
    assert found.chosen.path.name == "step-900"
    assert len(found.refused) == len(torn)
    tally["torn ones newer than the one chosen"] += len(torn)


def test_metadata_of_300_000_pieces_are_read_within_a_minute(written: Path) -> None:
    folder = written / "huge"
    started = time.monotonic()
    verdict = torch_dcp.verify(folder, False)
    took = time.monotonic() - started
    size = (folder / ".metadata").stat().st_size
    print(f"\n.metadata of 300,000 pieces, {size / 1e6:.0f} MB: {took:.1f} s")
    assert verdict[:2] == ("incomplete", "__0_0.distcp is not there")
    assert took < 60
