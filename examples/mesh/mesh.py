"""Tensor x data parallelism on PyTorch's DeviceMesh, laid out as slurmkit's mesh says, and both compared.

A linear layer is cut by columns over the tensor axis, copied over the data axis, and trained: its gradients
are those of the whole layer on the whole batch. A layer that is cut otherwise can go on from its checkpoints.
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
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

from slurmkit import progress
from slurmkit.checkpoint import requested
from slurmkit.launch import rank_from_env

ME = rank_from_env()
INPUTS, OUTPUTS, BATCH = 16, 32, 8


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--step-time", type=float, default=0.0, help="seconds added to each step")
    parser.add_argument("--save-every", type=int, default=10, metavar="STEPS")
    parser.add_argument("--checkpoints", default=os.environ.get("SLURMKIT_CHECKPOINTS", "checkpoints"))
    parser.add_argument("--resume", metavar="CHECKPOINT")
    return parser.parse_args()


def device_mesh(kind):
    """PyTorch's mesh of the axes with more than one rank; it begins with the slowest varying one."""
    axes = [axis for axis in reversed(ME.mesh.order) if ME.mesh.sizes[axis] > 1]
    return init_device_mesh(kind, [ME.mesh.sizes[axis] for axis in axes], mesh_dim_names=axes)


def check_groups(mesh):
    """PyTorch's groups and slurmkit's are the same ranks in the same order."""
    for axis in mesh.mesh_dim_names:
        ranks = dist.get_process_group_ranks(mesh.get_group(axis))
        if ranks != list(ME.mesh.groups[axis]) or mesh.get_local_rank(axis) != ME.mesh.coordinates[axis]:
            raise SystemExit(
                f"rank {ME.rank}: {axis} has {ranks} in PyTorch, {ME.mesh.groups[axis]} in slurmkit"
            )
        print(f"rank {ME.rank}: {axis} {ME.mesh.coordinates[axis]} of {ranks}", flush=True)


def whole_layer(device):
    """The layer before it is cut: the same on every rank."""
    torch.manual_seed(0)
    return nn.Linear(INPUTS, OUTPUTS).to(device)


def batch(step, device):
    """What all ranks together learn from at that step."""
    random = torch.Generator().manual_seed(step)
    return torch.randn(ME.mesh.sizes["data"] * BATCH, INPUTS, generator=random).to(device)


def loss_of(layer, inputs):
    return nn.functional.mse_loss(layer(inputs), inputs.sin().repeat(1, OUTPUTS // INPUTS))


def average(layer, group):
    """Let the gradients be those of the batches of all replicas."""
    for parameter in layer.parameters():
        part = parameter.grad.to_local()
        dist.all_reduce(part, group=group)
        part /= ME.mesh.sizes["data"]


def check_gradients(layer, inputs, device):
    """The gradients of the parts are those of the whole layer on the whole batch."""
    reference = whole_layer(device)
    reference.load_state_dict({name: part.detach().full_tensor() for name, part in layer.named_parameters()})
    loss_of(reference, inputs).backward()
    for parameter, expected in zip(layer.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad.full_tensor(), expected.grad)
    part, whole = tuple(layer.weight.to_local().shape), tuple(layer.weight.shape)
    print(f"rank {ME.rank}: {part} of {whole}, gradients agree", flush=True)


def asked(device):
    """Whether any rank is asked for a checkpoint. All hear the same: they save at the same step."""
    flag = torch.tensor(requested(), dtype=torch.int32, device=device)
    dist.all_reduce(flag, op=dist.ReduceOp.MAX)
    return bool(flag)


def save(folder, layer, optimizer, step):
    """One rank for each part writes it; last comes `.metadata`, which says that the checkpoint is whole."""
    weights, state = get_state_dict(layer, optimizer)
    whole = {"layer": weights, "optimizer": state, "step": step}
    checkpoint.save(whole, checkpoint_id=os.path.join(folder, f"step-{step:05}"))


def load(path, layer, optimizer):
    """The step at which the checkpoint was made; the parts may have been cut otherwise."""
    weights, state = get_state_dict(layer, optimizer)
    whole = {"layer": weights, "optimizer": state, "step": 0}
    checkpoint.load(whole, checkpoint_id=path)
    set_state_dict(layer, optimizer, model_state_dict=weights, optim_state_dict=state)
    return whole["step"]


def fingerprint(layer):
    """A short word for all parameters, bit for bit."""
    digest = hashlib.sha256()
    for parameter in layer.parameters():
        digest.update(parameter.detach().full_tensor().cpu().numpy().tobytes())
    return digest.hexdigest()[:12]


def train(options, mesh, device):
    layer = parallelize_module(
        whole_layer(device), mesh["tensor"], ColwiseParallel(output_layouts=Replicate())
    )
    optimizer = torch.optim.SGD(layer.parameters(), lr=1.0, momentum=0.9)
    first = load(options.resume, layer, optimizer) if options.resume else 0
    print(f"rank {ME.rank}: starts at step {first}", flush=True)
    replica = ME.mesh.coordinates["data"]
    has_been_asked = False
    for step in range(first + 1, options.steps + 1):
        with progress.phase("data"):
            inputs = batch(step, device)
            time.sleep(options.step_time)
        with progress.phase("compute"):
            loss_of(layer, inputs[replica * BATCH : (replica + 1) * BATCH]).backward()
        with progress.phase("sync"):
            average(layer, mesh.get_group("data"))
            is_asked = not has_been_asked and asked(device)
        if step == first + 1:
            check_gradients(layer, inputs, device)
        with progress.phase("compute"):
            optimizer.step()
            optimizer.zero_grad()
        if is_asked or step % options.save_every == 0 or step == options.steps:
            with progress.phase("checkpoint"):
                save(options.checkpoints, layer, optimizer, step)
        has_been_asked = has_been_asked or is_asked
        progress.step(step)
        if is_asked and ME.rank == 0:
            print(f"step {step}, saved as asked", flush=True)
    print(f"rank {ME.rank}: ends at step {options.steps}, parameters {fingerprint(layer)}")


def main():
    options = arguments()
    if ME.mesh is None:
        raise SystemExit("no mesh: the job file needs [parallel]")
    device = torch.device("cuda", ME.device or 0) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    mesh = device_mesh(device.type)
    check_groups(mesh)
    train(options, mesh, device)
    dist.destroy_process_group()


main()
