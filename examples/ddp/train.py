"""A small network that all ranks train together with PyTorch's DDP: NCCL on GPUs, gloo elsewhere.

Checkpoints are torch.distributed.checkpoint's, in `checkpoints/step-00010` and so on. `--resume` goes on from
one and comes, with as many ranks as before, to the very bits that a run without a break comes to.
"""

import argparse
import hashlib
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import checkpoint
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.nn.parallel import DistributedDataParallel

from slurmkit import progress
from slurmkit.checkpoint import requested
from slurmkit.launch import rank_from_env

ME = rank_from_env()
FEATURES = 32
BATCH = 16


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--step-time", type=float, default=0.0, help="seconds added to each step")
    parser.add_argument("--save-every", type=int, default=10, metavar="STEPS")
    parser.add_argument("--checkpoints", default=os.environ.get("SLURMKIT_CHECKPOINTS", "checkpoints"))
    parser.add_argument("--resume", metavar="CHECKPOINT")
    return parser.parse_args()


def batch(step, device):
    """What this rank learns from at that step: a resumed run repeats nothing."""
    random = torch.Generator().manual_seed(step * ME.world_size + ME.rank)
    inputs = torch.randn(BATCH, FEATURES, generator=random)
    return inputs.to(device), inputs.sin().sum(dim=1, keepdim=True).to(device)


def asked(device):
    """Whether any rank is asked for a checkpoint. All hear the same: they save at the same step."""
    flag = torch.tensor(requested(), dtype=torch.int32, device=device)
    dist.all_reduce(flag, op=dist.ReduceOp.MAX)
    return bool(flag)


def save(folder, model, optimizer, step):
    """All ranks write their parts; last comes `.metadata`, which says that the checkpoint is whole."""
    weights, state = get_state_dict(model, optimizer)
    whole = {"model": weights, "optimizer": state, "step": step}
    checkpoint.save(whole, checkpoint_id=os.path.join(folder, f"step-{step:05}"))


def load(path, model, optimizer):
    """The step at which the checkpoint was made."""
    weights, state = get_state_dict(model, optimizer)
    whole = {"model": weights, "optimizer": state, "step": 0}
    checkpoint.load(whole, checkpoint_id=path)
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=state)
    return whole["step"]


def fingerprint(model):
    """A short word for all parameters, bit for bit."""
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().cpu().numpy().tobytes())
    return digest.hexdigest()[:12]


def train(options, device):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(FEATURES, 64), nn.Tanh(), nn.Linear(64, 1)).to(device)
    model = DistributedDataParallel(network)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    # At its first backward DDP lays the gradients out, for all later ones: the order of its sums is then the
    # same whichever step a run starts at.
    model(batch(0, device)[0]).sum().backward()
    optimizer.zero_grad()
    first = load(options.resume, model, optimizer) if options.resume else 0
    print(f"rank {ME.rank}: starts at step {first} on {device}", flush=True)
    has_been_asked = False
    for step in range(first + 1, options.steps + 1):
        with progress.phase("data"):
            inputs, targets = batch(step, device)
            time.sleep(options.step_time)
        with progress.phase("compute"):
            loss = nn.functional.mse_loss(model(inputs), targets)
        # DDP averages gradients while backward computes them: here a rank waits for the others.
        with progress.phase("sync"):
            loss.backward()
            is_asked = not has_been_asked and asked(device)
        with progress.phase("compute"):
            optimizer.step()
            optimizer.zero_grad()
        if is_asked or step % options.save_every == 0 or step == options.steps:
            with progress.phase("checkpoint"):
                save(options.checkpoints, model, optimizer, step)
        has_been_asked = has_been_asked or is_asked
        progress.step(step, loss=loss.item())
        if ME.rank == 0:
            print(f"step {step}, loss {loss.item():.4f}{', saved as asked' if is_asked else ''}", flush=True)
    print(f"rank {ME.rank}: ends at step {options.steps}, parameters {fingerprint(network)}")


def main():
    options = arguments()
    device = torch.device("cuda", ME.device or 0) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    # Where to meet and who this is stands in the environment.
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    # The model has to go before the process group: if it is the last to hold it, gloo and Python
    # (as of PyTorch 2.13) may wait for each other for ever when it goes.
    train(options, device)
    dist.destroy_process_group()


main()
